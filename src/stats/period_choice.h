// Which of several significant candidates is the period. Internal to stats; shared by the
// item-level and the counts-only search.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "stats/min_p.h"
#include "stats/period.h"

namespace kvphase::stats {

// What multiples of a period add to it, tested where only that period is real.
struct NestedP {
  MinP p;  // over all multiples tried
  std::vector<double>
      log_p;  // of each alone, from its mean gain under the null: for comparing them
};

// gains: of each multiple; null: the same of every draw, draw by draw; df: phases that each adds.
// items: of a null that shifts whole items; 0: of another.
NestedP nested_p(std::span<const double> gains, std::span<const double> null,
                 std::span<const double> df, std::size_t items = 0);

// The sum of squares that items give which share no phases, from its observed value and its mean
// over draws in which whole items are shifted. What items share is in every such draw, too: N items
// that share all of it give N times the mean, the most that there can be. So it is taken out, as in
// an F ratio of a common pattern to the items' own. mean > 0, items >= 2.
double own_squares(double observed, double mean, std::size_t items);

// Takes the larger p of this test and half of that of the F tests (fit_multiples), whose level is
// twice that of nested tests.
void must_fit(NestedP& added, std::span<const double> fit);

// Moves from period `from` to each of `to` (indices of candidates that are multiples of it).
using NestedProbe = std::function<NestedP(std::int64_t from, const std::vector<std::size_t>& to)>;

// Starts at the candidate with the strongest evidence (smallest log_p) among those with p_adjusted
// <= level and goes down to the smallest significant divisor that explains it; when none does, over
// to a candidate that adds more to what both share (8 in place of 12, above 4); then up to the
// multiple that adds most clearly, as long as one does. Appends every comparison to `tests`. At
// least one candidate must be significant.
std::size_t choose_period(std::span<const PeriodCandidate> candidates,
                          std::span<const double> log_p, double level, const NestedProbe& probe,
                          std::vector<NestedTest>& tests);

// A guard against patterns that are real but not periodic need not reject as firmly as the search.
// Both at `level` would halve the false alarms and cost power.
inline double guard_level(double level) { return 2 * level; }
// A multiple must earn its place: half the level keeps the shorter period in 97.5 % of cases.
inline double nested_level(double level) { return level / 2; }
// Evidence of positions that differ beyond the period before their order is questioned: a fifth of
// the level withdraws 1 % of true periods at most.
inline double misfit_level(double level) { return level / 5; }

// Said of a test that went on drawing (min_p.h).
inline constexpr const char* kMoreDraws = ", more than asked for because p lies near the level";

// Names the period that choose_period() comes to. judge() looks whether it fits and may withdraw
// it; then the candidate that other() names, if any, is judged in its place.
void name_period(PeriodResult& result, std::span<const double> log_p, const NestedProbe& probe,
                 const std::function<void()>& judge,
                 const std::function<std::optional<std::size_t>()>& other);

std::vector<std::int64_t> periods_at(std::span<const std::int64_t> candidates,
                                     std::span<const std::size_t> indices);

std::string describe_trend(int degree);  // "quadratic trend removed"

void check_options(const PeriodOptions& options);

// Why a period is withdrawn that only the detrended scores repeat.
std::string invisible(std::int64_t period, double p);

}  // namespace kvphase::stats
