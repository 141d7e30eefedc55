#include "stats/spread.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace kvphase::stats {
namespace {

// means: of the groups that have one. variance: s^2 > 0.
void fill(const std::vector<std::optional<double>>& means, double variance, PhaseSpread& result) {
  double grand = 0;
  double groups = 0;
  for (const auto& m : means) {
    grand += m.value_or(0);
    groups += m ? 1 : 0;
  }
  grand /= groups;
  double between = 0;
  for (const auto& m : means) between += m ? (*m - grand) * (*m - grand) : 0;
  result.standard_error = std::sqrt(variance);
  result.sd = std::sqrt(std::max(0.0, between / (groups - 1) - variance));
  if (groups <= 3) {
    result.reason = "shrinkage needs more than three groups";
    return;
  }
  if (!(between > 0)) {
    result.reason = "all group means are equal: nothing to shrink";
    return;
  }
  result.shrinkage = std::max(0.0, 1 - (groups - 3) * variance / between);
  for (const auto& m : means) {
    result.shrunk.push_back(m ? std::optional(grand + *result.shrinkage * (*m - grand))
                              : std::nullopt);
  }
}

}  // namespace

PhaseSpread phase_spread(const PhaseMatrix& matrix) {
  PhaseSpread result{.items = static_cast<std::int64_t>(matrix.items()),
                     .method = "residual variance of the two-way table of items and groups"};
  const std::size_t p = matrix.phases;
  if (matrix.items() < 2 || p < 2) {
    result.reason = p < 2 ? "one group" : "fewer than two items with every group";
    return result;
  }
  const double n = static_cast<double>(matrix.items());
  const double phases = static_cast<double>(p);
  std::vector<std::optional<double>> mean(p, 0.0);
  std::vector<double> item_mean;
  for (std::size_t i = 0; i < matrix.items(); ++i) {
    const auto row = matrix.row(i);
    for (std::size_t g = 0; g < p; ++g) *mean[g] += row[g] / n;
    item_mean.push_back(std::accumulate(row.begin(), row.end(), 0.0) / phases);
  }
  double grand = 0;
  for (const auto& m : mean) grand += *m / phases;
  double residual = 0;
  double scale = 0;
  for (std::size_t i = 0; i < matrix.items(); ++i) {
    for (std::size_t g = 0; g < p; ++g) {
      const double x = matrix.row(i)[g];
      const double r = x - item_mean[i] - *mean[g] + grand;
      residual += r * r;
      scale += x * x;
    }
  }
  if (!(residual > 1e-20 * scale)) {
    result.reason = "items agree entirely on how groups differ: no noise to take out";
    return result;
  }
  fill(mean, residual / ((n - 1) * (phases - 1)) / n, result);
  return result;
}

PhaseSpread phase_spread(std::span<const GroupMoments> groups) {
  PhaseSpread result{.method = "variance inside groups, observations taken as independent"};
  std::vector<std::optional<double>> mean;
  double variance = 0;
  double scale = 0;
  double seen = 0;
  for (const GroupMoments& g : groups) {
    if (g.n == 1) {
      result.reason = "a group has one observation: no variance";
      return result;
    }
    mean.push_back(g.n > 0 ? std::optional(g.mean) : std::nullopt);
    if (g.n == 0) continue;
    seen += 1;
    variance += g.variance / static_cast<double>(g.n);
    scale += g.mean * g.mean;
  }
  if (seen < 2) {
    result.reason = "fewer than two groups with observations";
    return result;
  }
  if (!(variance > 1e-20 * scale)) {
    result.reason = "nothing varies inside groups: no noise to take out";
    return result;
  }
  fill(mean, variance / seen, result);
  return result;
}

}  // namespace kvphase::stats
