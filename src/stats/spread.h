// How different the phases really are, after taking out what sampling adds.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "stats/paired.h"

namespace kvphase::stats {

// From the two-way table items x phases (no interaction assumed beyond noise):
// MS_resid = sum (x_ip - xbar_i - xbar_p + xbar)^2 / ((N-1)(P-1)), variance of a phase mean that
// matters for differences: MS_resid / N.
struct PhaseSpread {
  std::optional<double> sd;  // sqrt(max(0, Var_p(mean_p) - MS_resid/N)): unbiased spread
  std::optional<double> standard_error;  // sqrt(MS_resid/N), of a phase mean for comparing phases
  std::optional<double> shrinkage;       // B = max(0, 1 - (P-3) s^2 / sum (mean_p - mean)^2); P > 3
  std::vector<double> shrunk;  // mean + B (mean_p - mean): James-Stein towards the common mean
  std::int64_t items = 0;
  std::string reason;
};
PhaseSpread phase_spread(const PhaseMatrix& matrix);

// Fisher's g (1929) on an evenly spaced series: the largest share of the periodogram, and
// P(g > x) = sum_{j>=1} (-1)^(j-1) C(m, j) (1 - jx)_+^(m-1) under white noise. A cross-check of
// period.h only: it looks for one sine, and one weak phase of many is not a sine.
struct FisherG {
  std::optional<double> g;
  std::optional<double> p_value;
  std::optional<double> period;  // samples per cycle at the peak
  std::int64_t frequencies = 0;
  std::string reason;
};
FisherG fisher_g(std::span<const double> series);
double fisher_g_p_value(double g, std::int64_t frequencies);

}  // namespace kvphase::stats
