// The cluster bootstrap of any statistic of sums over items: whole items are drawn with
// replacement, all their columns together (Davison and Hinkley 1997, section 3.8), and the
// statistic is taken again of the drawn sums. Percentile intervals. Assumes independent items only.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "stats/estimate.h"

namespace kvphase::stats {

struct ItemBootstrapOptions {
  std::int64_t replicates = 2000;  // more: smoother interval ends
  double level = 0.95;
  std::uint64_t seed = 1;
};

// Values of the statistic from the columns' sums over items; an undefined one stays empty.
using StatisticOfSums =
    std::function<void(std::span<const double> sums, std::span<std::optional<double>> values)>;

// rows: items x columns, row by row. values: how many numbers the statistic returns. The point
// value is that of all items. Without an interval, with a reason: one item or none, a value that
// does not vary over replicates, or one that more than 1 in 20 replicates leave undefined.
// Throws a usage error for replicates < 1 or a level outside (0, 1).
std::vector<Estimate> bootstrap_statistic(std::span<const double> rows, std::size_t columns,
                                          std::size_t values, const StatisticOfSums& statistic,
                                          const ItemBootstrapOptions& options = {});

}  // namespace kvphase::stats
