#include "stats/item_bootstrap.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cmath>

#include "base/error.h"
#include "base/random.h"
#include "stats/bootstrap.h"

namespace kvphase::stats {
namespace {

constexpr double kNoWidth = 1e-12;       // relative: the order of additions
constexpr double kMostUndefined = 0.05;  // of the replicates

}  // namespace

std::vector<Estimate> bootstrap_statistic(std::span<const double> rows, std::size_t columns,
                                          std::size_t values, const StatisticOfSums& statistic,
                                          const ItemBootstrapOptions& options) {
  if (options.replicates < 1 || !(options.level > 0 && options.level < 1)) {
    throw base::usage_error("stats.bootstrap",
                            "expected replicates >= 1 and a level between 0 and 1, got {} and {}",
                            options.replicates, options.level);
  }
  assert(columns > 0 && rows.size() % columns == 0);
  const std::size_t items = rows.size() / columns;
  std::vector<double> sums(columns);
  std::vector<std::optional<double>> found(values);
  const auto add = [&](std::size_t item) {
    const double* const row = rows.data() + item * columns;
    for (std::size_t c = 0; c < columns; ++c) sums[c] += row[c];
  };
  const auto evaluate = [&] {
    std::ranges::fill(found, std::nullopt);
    statistic(sums, found);
  };

  for (std::size_t i = 0; i < items; ++i) add(i);
  evaluate();
  std::vector<Estimate> estimates(values);
  for (std::size_t v = 0; v < values; ++v) {
    Estimate& e = estimates[v];
    e.value = found[v];
    e.n = static_cast<std::int64_t>(items);
    e.level = options.level;
    e.method = fmt::format("percentile cluster bootstrap over {} items, {} replicates", items,
                           options.replicates);
    if (!e.value) e.reason = "undefined for these items";
    if (e.value && items < 2) e.reason = "fewer than two items";
  }
  if (items < 2) return estimates;

  std::vector<std::vector<double>> replicates(values);
  base::Random random(base::derive_seed(options.seed, "stats.bootstrap_statistic"));
  for (std::int64_t b = 0; b < options.replicates; ++b) {
    std::ranges::fill(sums, 0.0);
    for (std::size_t i = 0; i < items; ++i) add(random.uniform_index(items));
    evaluate();
    for (std::size_t v = 0; v < values; ++v) {
      if (found[v]) replicates[v].push_back(*found[v]);
    }
  }
  const double tail = (1 - options.level) / 2;
  for (std::size_t v = 0; v < values; ++v) {
    Estimate& e = estimates[v];
    if (!e.value) continue;
    const double undefined =
        1 - static_cast<double>(replicates[v].size()) / static_cast<double>(options.replicates);
    if (undefined > kMostUndefined) {
      e.reason = fmt::format("undefined in {:.0f}% of the replicates", 100 * undefined);
      continue;
    }
    std::ranges::sort(replicates[v]);
    const double low = sorted_quantile(replicates[v], tail);
    const double high = sorted_quantile(replicates[v], 1 - tail);
    if (high - low <= kNoWidth * (1 + std::abs(low) + std::abs(high))) {
      e.reason = "the same in all replicates: nothing to doubt it by";
      continue;
    }
    e.low = low;
    e.high = high;
  }
  return estimates;
}

}  // namespace kvphase::stats
