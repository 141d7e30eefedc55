#include "stats/gap.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/random.h"
#include "stats/bootstrap.h"
#include "stats/gap_null.h"
#include "stats/large_table.h"
#include "stats/sampling.h"

namespace kvphase::stats {
namespace {

constexpr double kMostSplitCells = 4e8;  // cells added up in all splits: about a second
constexpr double kTolerance = 1e-12;  // equal gaps that differ by the order of additions are ties

}  // namespace

void check_gap_options(const GapOptions& options) {
  if (options.replicates < 1) {
    throw base::usage_error("stats.gap", "expected at least 1 replicate, got {}",
                            options.replicates);
  }
}

std::optional<double> gap_of(const std::vector<double>& sum, const std::vector<std::int64_t>& n) {
  std::optional<double> low;
  double high = 0;
  std::size_t present = 0;
  for (std::size_t g = 0; g < sum.size(); ++g) {
    if (n[g] == 0) continue;
    const double mean = sum[g] / static_cast<double>(n[g]);
    high = low ? std::max(high, mean) : mean;
    low = low ? std::min(*low, mean) : mean;
    ++present;
  }
  if (present < 2) return std::nullopt;
  return high - *low;
}

void summarise(GapNoise& result, NullGaps null) {
  const double limit = null.observed - kTolerance * (1 + std::abs(null.observed));
  const auto as_large = std::ranges::count_if(null.gaps, [&](double g) { return g >= limit; });
  const auto count = static_cast<double>(null.gaps.size());
  result.replicates = static_cast<std::int64_t>(null.gaps.size());
  result.p_value = (1 + static_cast<double>(as_large)) / (1 + count);
  std::vector<double>& noise = null.noise.empty() ? null.gaps : null.noise;
  result.noise = std::accumulate(noise.begin(), noise.end(), 0.0) / count;
  std::ranges::sort(noise);
  result.noise_high = sorted_quantile(noise, 0.95);
}

GapNoise gap_noise_counts(const ResidueCounts& counts, const GapOptions& options) {
  check_gap_options(options);
  check_counts(counts, "stats.gap");
  std::vector<double> sum(counts.correct.begin(), counts.correct.end());
  GapNoise result{.gap = gap_of(sum, counts.n),
                  .n = total_n(counts),
                  .method = "parametric: independent prompts at the pooled share"};
  if (!result.gap) {
    result.reason = result.n == 0 ? "no observations" : kOneGroup;
    return result;
  }
  const double pooled = static_cast<double>(total_correct(counts)) / static_cast<double>(result.n);
  NullGaps null{.gaps = {}, .observed = *result.gap, .noise = {}};
  base::Random random(base::derive_seed(options.seed, "stats.gap_noise_counts"));
  for (std::int64_t b = 0; b < options.replicates; ++b) {
    for (std::size_t g = 0; g < sum.size(); ++g) {
      sum[g] = static_cast<double>(draw_binomial(counts.n[g], pooled, random));
    }
    null.gaps.push_back(*gap_of(sum, counts.n));
  }
  summarise(result, std::move(null));
  result.method += fmt::format(", {} draws", result.replicates);
  return result;
}

Estimate cross_fitted_gap(const ScoreTable& table, std::int64_t modulus, std::int64_t splits,
                          std::uint64_t seed) {
  if (splits < 1) {
    throw base::usage_error("stats.gap", "expected at least 1 split, got {}", splits);
  }
  const GroupTotals all = group_totals(table, modulus);
  Estimate result{
      .n = static_cast<std::int64_t>(table.items()),
      .method = fmt::format("cross-fitted over halves of the items, {} splits", splits)};
  if (table.items() < 2) {
    result.reason = table.items() == 0 ? "no observations" : "one item: no second half";
    return result;
  }
  const auto m = static_cast<std::size_t>(modulus);
  // Too many items are added up in blocks, and these are split.
  const bool blocked =
      table.items() > kBlocks &&
      static_cast<double>(table.cells()) * static_cast<double>(splits) > kMostSplitCells;
  ClusterSums blocks;
  if (blocked) {
    blocks = sums_per_block(table, modulus, kBlocks, seed);
    result.method += fmt::format(" ({} random blocks of items)", kBlocks);
  }
  const std::size_t clusters = blocked ? blocks.clusters() : table.items();
  base::Random random(base::derive_seed(seed, "stats.cross_fitted_gap"));
  double total = 0;
  std::int64_t used = 0;
  for (std::int64_t k = 0; k < splits; ++k) {
    const auto half = random.sample_without_replacement(clusters, clusters / 2);
    std::vector<double> sum_a(m);
    std::vector<std::int64_t> n_a(m);
    for (const std::size_t i : half) {
      if (blocked) {
        for (std::size_t g = 0; g < m; ++g) {
          sum_a[g] += blocks.sum[i * m + g];
          n_a[g] += static_cast<std::int64_t>(blocks.size[i * m + g]);
        }
        continue;
      }
      for (std::size_t c = table.first[i]; c < table.first[i + 1]; ++c) {
        const auto g = static_cast<std::size_t>(table.position[c] % modulus);
        sum_a[g] += table.score[c];
        ++n_a[g];
      }
    }
    std::vector<double> sum_b(m);
    std::vector<std::int64_t> n_b(m);
    for (std::size_t g = 0; g < m; ++g) {
      sum_b[g] = all.sum[g] - sum_a[g];
      n_b[g] = all.n[g] - n_a[g];
    }
    // Only groups seen in both halves can be chosen in one and measured in the other.
    const auto measure = [&](const auto& choose, const auto& choose_n, const auto& other,
                             const auto& other_n) -> std::optional<double> {
      std::optional<std::size_t> worst;
      std::optional<std::size_t> best;
      const auto mean = [&](std::size_t g) { return choose[g] / static_cast<double>(choose_n[g]); };
      for (std::size_t g = 0; g < m; ++g) {
        if (choose_n[g] == 0 || other_n[g] == 0) continue;
        if (!worst || mean(g) < mean(*worst)) worst = g;
        if (!best || mean(g) > mean(*best)) best = g;
      }
      if (!worst) return std::nullopt;
      return other[*best] / static_cast<double>(other_n[*best]) -
             other[*worst] / static_cast<double>(other_n[*worst]);
    };
    const auto one = measure(sum_a, n_a, sum_b, n_b);
    const auto two = measure(sum_b, n_b, sum_a, n_a);
    if (!one || !two) continue;
    total += (*one + *two) / 2;
    ++used;
  }
  if (used == 0) {
    result.reason = "no group has observations in both halves";
    return result;
  }
  result.value = total / static_cast<double>(used);
  return result;
}

double studentized_range_mean(std::int64_t groups) {
  if (groups < 1) throw base::usage_error("stats.gap", "expected at least 1 group, got {}", groups);
  // E[range] = integral of 1 - F^k - (1-F)^k; Simpson on [-10, 10], where the tails are below
  // 1e-20.
  constexpr int kSteps = 4000;
  constexpr double kEnd = 10;
  const auto k = static_cast<double>(groups);
  double sum = 0;
  for (int i = 0; i <= kSteps; ++i) {
    const double x = -kEnd + 2 * kEnd * i / kSteps;
    const double below = 0.5 * std::erfc(-x / std::sqrt(2.0));
    const double above = 0.5 * std::erfc(x / std::sqrt(2.0));
    const double f = 1 - std::pow(below, k) - std::pow(above, k);
    sum += f * (i == 0 || i == kSteps ? 1 : (i % 2 == 1 ? 4 : 2));
  }
  return sum * (2 * kEnd / kSteps) / 3;
}

}  // namespace kvphase::stats
