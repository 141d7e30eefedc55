// How different the phases really are, after taking out what sampling adds.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "stats/paired.h"

namespace kvphase::stats {

// s^2 is the variance of a phase mean that matters for differences between phases. From the two-way
// table items x phases (no interaction assumed beyond noise): s^2 = MS_resid / N,
// MS_resid = sum (x_ip - xbar_i - xbar_p + xbar)^2 / ((N-1)(P-1)).
struct PhaseSpread {
  // sqrt(max(0, Var_p(mean_p) - s^2)): unbiased but for the max. 0: no more than sampling adds.
  std::optional<double> sd;
  std::optional<double> standard_error;  // s
  std::optional<double> shrinkage;       // B = max(0, 1 - (P-3) s^2 / sum (mean_p - mean)^2); P > 3
  // mean + B (mean_p - mean): James and Stein towards the common mean, per phase; empty vector:
  // none
  std::vector<std::optional<double>> shrunk;
  std::int64_t items = 0;  // 0: not paired
  std::string method;
  std::string reason;  // why a field is empty
};

// Data without any noise (items that agree entirely) leave nothing to take out: empty.
PhaseSpread phase_spread(const PhaseMatrix& matrix);

// What independent observations say of one group.
struct GroupMoments {
  std::int64_t n = 0;
  double mean = 0;
  double variance = 0;  // of one observation, unbiased; of right/wrong p (1-p) n/(n-1)
};

// From groups of independent observations: s^2 is the average over groups of variance/n. Groups
// without observations take no part; one with a single observation has no variance, and everything
// is empty.
PhaseSpread phase_spread(std::span<const GroupMoments> groups);

}  // namespace kvphase::stats
