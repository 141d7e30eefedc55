// How weak a phase must be for the period test to see it, from the data's own noise: a formula, so
// that every verdict of "no period" can say at once what it would have missed.
//
// One phase of S lies d below the others. Then SSB_S / sigma^2 is non-central chi-squared with S-1
// degrees of freedom and lambda = n d^2 (S-1) / (S^2 sigma^2): n observations, sigma^2 the variance
// of a score around its item's mean. For right/wrong the weak phase has its own variance: with m
// the mean, sigma^2(d) = sigma^2 ((S-1) + v(m-d)/v(m)) / S, v(p) = p(1-p). The test is taken as
// chi-squared at level / candidates (Bonferroni; the test itself uses min-p). The trend that the
// test takes out and its guards cost power; half of the allowed misses are set aside for them,
// which simulation shows to be about right (findable_test.cpp prints how right). Where observations
// sit at a few columns (counts, items at the same positions), the period must also stand out from
// columns that merely differ (stats/period_fit.h); the larger of both dips counts. Without columns
// the result is what would at least be seen: a difference that no period explains is inconclusive,
// never "no period".
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "stats/score_table.h"

namespace kvphase::audit {

struct FindableInput {
  std::int64_t observations = 0;  // n
  // sigma^2 without a dip, times PeriodCandidate::clustering: an item's answers may go together.
  double variance = 0;
  std::optional<double> share;   // m, for right/wrong scores
  std::int64_t stride = 4;       // S
  std::int64_t candidates = 11;  // periods searched; 1: the stride is known
  // Residues or shared positions with observations (PeriodResult::columns) and the candidates whose
  // phases were compared with them; 0: items do not share positions.
  std::int64_t columns = 0;
  std::vector<std::int64_t> searched = {};
  double level = 0.05;
  double power = 0.8;
};

// The smallest d that is found with `power`. Empty without observations or variance.
std::optional<double> findable_dip(const FindableInput& input);

// Observations at which a dip d is found with `power`: the inverse, rounded up. d > 0.
std::int64_t observations_for_dip(double dip, const FindableInput& input);

// Variance of a score around the mean of its item; over all observations when not paired. Empty
// without a degree of freedom.
std::optional<double> noise_variance(const stats::ScoreTable& table, bool paired);

// A dip worth caring about: what a verdict of "no period" must have been able to find, and what
// --require no-period asks for. In shares; of a continuous score in standard deviations around the
// item's mean.
inline constexpr double kFindableShare = 0.2;
inline constexpr double kFindableSd = 0.5;

// The same for replies that are all alike, which have no variance: that of the lowest share still
// compatible with them, the exact one-sided bound at `level` of `independent` observations (items,
// or prompts where items are unknown). input.variance and input.share are not read.
std::optional<double> findable_dip_of_equal(std::int64_t independent, FindableInput input);

}  // namespace kvphase::audit
