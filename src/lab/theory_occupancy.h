// Balls in bins: what coverage looks like when every head picks its position by itself.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace kvphase::lab {

// P(exactly k of `bins` equally likely bins are hit by `balls` independent balls), k = 0..balls:
// a ball hits a new bin with probability (bins - k) / bins when k are hit.
std::vector<double> occupancy(std::int64_t balls, std::int64_t bins);

// 1 - (1 - 1/bins)^balls: that one given bin is hit.
double coverage_of_one(std::int64_t balls, std::int64_t bins);

// Pearson's chi-squared test of counts against given probabilities. Cells of an expected count
// below 5 are pooled with their neighbours (Cochran 1954), so `freedom` is that of the pooled
// cells.
struct Fit {
  std::optional<double> statistic;
  std::optional<double> p;
  std::int64_t freedom = 0;
  std::int64_t n = 0;
  std::string reason;  // why there is no p
};
Fit chi_squared_fit(std::span<const std::int64_t> counts, std::span<const double> probabilities);

}  // namespace kvphase::lab
