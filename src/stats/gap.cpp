#include "stats/gap.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/error.h"
#include "base/random.h"
#include "stats/bootstrap.h"
#include "stats/interval.h"
#include "stats/large_table.h"
#include "stats/parallel.h"
#include "stats/sampling.h"

namespace kvphase::stats {
namespace {

constexpr double kWorkLimit = 1e9;  // cells shuffled in all replicates: a few seconds
constexpr std::int64_t kFewestReplicates = 199;
constexpr double kMostSplitCells = 4e8;  // cells added up in all splits: about a second
constexpr double kTolerance = 1e-12;  // equal gaps that differ by the order of additions are ties

void check(const GapOptions& options) {
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

void summarise(GapNoise& result, std::vector<double>& gaps) {
  const double limit = *result.gap - kTolerance * (1 + std::abs(*result.gap));
  double sum = 0;
  std::int64_t as_large = 0;
  for (const double g : gaps) {
    sum += g;
    as_large += g >= limit ? 1 : 0;
  }
  const auto count = static_cast<double>(gaps.size());
  std::ranges::sort(gaps);
  result.noise = sum / count;
  result.noise_high = sorted_quantile(gaps, 0.95);
  result.p_value = (1 + static_cast<double>(as_large)) / (1 + count);
}

// The null of a large table from a sample of its items; see large_table.h.
std::vector<double> sampled_gaps(const ScoreTable& table, std::span<const std::size_t> informative,
                                 const GapOptions& options, const GroupTotals& totals,
                                 std::int64_t replicates, std::size_t& sampled) {
  struct Expected {
    std::vector<double> sum;  // per group, when every score is its item's mean
    double squares = 0;       // of scores around their item's mean
  };
  const auto expect = [&](const ScoreTable& part) {
    Expected e{.sum = std::vector<double>(totals.sum.size())};
    for (std::size_t i = 0; i < part.items(); ++i) {
      const auto scores = part.scores_of(i);
      double mean = 0;
      for (const double x : scores) mean += x;
      mean /= static_cast<double>(scores.size());
      for (const double x : scores) e.squares += (x - mean) * (x - mean);
      for (const auto p : part.positions_of(i)) {
        e.sum[static_cast<std::size_t>(p % options.modulus)] += mean;
      }
    }
    return e;
  };
  const ScoreTable part = take_items(table, sample_items(table, informative, options.seed));
  sampled = part.items();
  const Expected all = expect(table);
  const Expected some = expect(part);
  const double root = std::sqrt(all.squares / some.squares);
  std::vector<std::uint32_t> group;
  for (const auto p : part.position) {
    group.push_back(static_cast<std::uint32_t>(p % options.modulus));
  }
  std::vector<double> gaps(static_cast<std::size_t>(replicates));
  constexpr std::size_t kWalks = 16;  // fixed, so that draws do not depend on the cores
  for_each_part(kWalks, [&](std::size_t walk) {
    base::Random random(base::derive_seed(options.seed, "stats.gap_noise_items", {walk}));
    std::vector<double> scores = part.score;
    std::vector<double> sum(totals.sum.size());
    const std::size_t end = gaps.size() * (walk + 1) / kWalks;
    for (std::size_t b = gaps.size() * walk / kWalks; b < end; ++b) {
      std::ranges::fill(sum, 0.0);
      for (std::size_t i = 0; i < part.items(); ++i) {
        const std::size_t first = part.first[i];
        const std::size_t last = part.first[i + 1];
        fast_shuffle(std::span(scores).subspan(first, last - first), random);
        for (std::size_t c = first; c < last; ++c) sum[group[c]] += scores[c];
      }
      for (std::size_t g = 0; g < sum.size(); ++g) {
        sum[g] = all.sum[g] + root * (sum[g] - some.sum[g]);
      }
      gaps[b] = *gap_of(sum, totals.n);
    }
  });
  return gaps;
}

// The null of a single item too large to permute: all prompts exchangeable, so that the sums of the
// groups are those of sampling without replacement (position_folder.h). Right/wrong draws are
// exact, others normal with the same means and covariances.
std::vector<double> dealt_gaps(const ScoreTable& table, const GapOptions& options,
                               const GroupTotals& totals) {
  const auto cells = static_cast<std::int64_t>(table.cells());
  const auto count = static_cast<double>(cells);
  double all = 0;
  for (const double x : totals.sum) all += x;
  const bool binary = is_binary(table);
  const double mean = all / count;
  double squares = 0;
  for (const double x : table.score) squares += (x - mean) * (x - mean);
  const double deviation = std::sqrt(squares / (count - 1));
  base::Random random(base::derive_seed(options.seed, "stats.gap_noise_items"));
  std::vector<double> gaps;
  std::vector<double> sum(totals.sum.size());
  for (std::int64_t b = 0; b < options.replicates; ++b) {
    std::int64_t left = cells;
    auto good = static_cast<std::int64_t>(std::llround(all));
    double drawn = 0;
    for (std::size_t g = 0; g < sum.size(); ++g) {
      const std::int64_t n = totals.n[g];
      if (binary) {
        const std::int64_t right = draw_hypergeometric(left, good, n, random);
        left -= n;
        good -= right;
        sum[g] = static_cast<double>(right);
        continue;
      }
      sum[g] = deviation * std::sqrt(static_cast<double>(n)) * random.normal();
      drawn += sum[g];
    }
    for (std::size_t g = 0; g < sum.size() && !binary; ++g) {
      sum[g] += static_cast<double>(totals.n[g]) * (mean - drawn / count);
    }
    gaps.push_back(*gap_of(sum, totals.n));
  }
  return gaps;
}

constexpr const char* kOneGroup = "fewer than two groups have observations";

}  // namespace

GapNoise gap_noise_items(const ScoreTable& table, const GapOptions& options) {
  check(options);
  const GroupTotals totals = group_totals(table, options.modulus);
  GapNoise result{.gap = gap_of(totals.sum, totals.n),
                  .n = static_cast<std::int64_t>(table.cells()),
                  .method = "permutation of scores inside items"};
  if (!result.gap) {
    result.reason = table.cells() == 0 ? "no observations" : kOneGroup;
    return result;
  }
  // Constant items only add a fixed sum to their groups.
  std::vector<double> fixed(totals.sum.size());
  std::vector<std::size_t> informative;
  std::size_t cells = 0;
  for (std::size_t i = 0; i < table.items(); ++i) {
    const auto scores = table.scores_of(i);
    const auto [low, high] = std::ranges::minmax_element(scores);
    if (*low != *high) {
      informative.push_back(i);
      cells += scores.size();
      continue;
    }
    const auto positions = table.positions_of(i);
    for (std::size_t c = 0; c < scores.size(); ++c) {
      fixed[static_cast<std::size_t>(positions[c] % options.modulus)] += scores[c];
    }
  }
  if (informative.empty()) {
    // Every permutation is the data itself.
    result.noise = result.gap;
    result.noise_high = result.gap;
    result.p_value = 1;
    result.method += "; every item has the same score at all its positions: nothing to permute";
    return result;
  }
  if (cells > kLargeCells && informative.size() > 1) {
    const auto most = static_cast<std::int64_t>(kSampledWork / static_cast<double>(kSampleCells));
    result.replicates = std::min(options.replicates, most);
    std::size_t sampled = 0;
    std::vector<double> gaps =
        sampled_gaps(table, informative, options, totals, result.replicates, sampled);
    summarise(result, gaps);
    result.method +=
        fmt::format(", {} permutations of a random sample of {} items that stands for all {}",
                    result.replicates, sampled, table.items());
    return result;
  }
  if (cells > kLargeItem && table.items() == 1) {
    result.replicates = options.replicates;
    std::vector<double> gaps = dealt_gaps(table, options, totals);
    summarise(result, gaps);
    result.method += fmt::format(", {} draws with the moments of permutations", result.replicates);
    return result;
  }
  const auto affordable = static_cast<std::int64_t>(kWorkLimit / static_cast<double>(cells));
  result.replicates = std::min(options.replicates, std::max(kFewestReplicates, affordable));

  std::vector<std::uint32_t> group(table.cells());
  for (std::size_t c = 0; c < table.cells(); ++c) {
    group[c] = static_cast<std::uint32_t>(table.position[c] % options.modulus);
  }
  base::Random random(base::derive_seed(options.seed, "stats.gap_noise_items"));
  std::vector<double> scores(table.score);
  std::vector<double> gaps;
  gaps.reserve(static_cast<std::size_t>(result.replicates));
  std::vector<double> sum;
  for (std::int64_t b = 0; b < result.replicates; ++b) {
    sum = fixed;
    for (const std::size_t i : informative) {
      const std::size_t first = table.first[i];
      const std::size_t end = table.first[i + 1];
      fast_shuffle(std::span(scores).subspan(first, end - first), random);
      for (std::size_t c = first; c < end; ++c) sum[group[c]] += scores[c];
    }
    gaps.push_back(*gap_of(sum, totals.n));
  }
  summarise(result, gaps);
  result.method += fmt::format(", {} permutations", result.replicates);
  return result;
}

GapNoise gap_noise_counts(const ResidueCounts& counts, const GapOptions& options) {
  check(options);
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
  result.replicates = options.replicates;
  base::Random random(base::derive_seed(options.seed, "stats.gap_noise_counts"));
  std::vector<double> gaps;
  gaps.reserve(static_cast<std::size_t>(result.replicates));
  for (std::int64_t b = 0; b < result.replicates; ++b) {
    for (std::size_t g = 0; g < sum.size(); ++g) {
      sum[g] = static_cast<double>(draw_binomial(counts.n[g], pooled, random));
    }
    gaps.push_back(*gap_of(sum, counts.n));
  }
  summarise(result, gaps);
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
