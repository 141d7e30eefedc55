#include "stats/large_table.h"

#include <algorithm>
#include <cassert>
#include <numeric>

#include "base/random.h"

namespace kvphase::stats {
namespace {

ClusterSums sums_by(const ScoreTable& table, std::int64_t modulus, std::size_t clusters,
                    const auto& cluster_of) {
  const auto m = static_cast<std::size_t>(modulus);
  ClusterSums sums{.groups = m,
                   .sum = std::vector<double>(clusters * m),
                   .size = std::vector<double>(clusters * m)};
  for (std::size_t i = 0; i < table.items(); ++i) {
    const std::size_t row = cluster_of(i) * m;
    for (std::size_t c = table.first[i]; c < table.first[i + 1]; ++c) {
      const auto g = static_cast<std::size_t>(table.position[c] % modulus);
      sums.sum[row + g] += table.score[c];
      sums.size[row + g] += 1;
    }
  }
  return sums;
}

}  // namespace

std::vector<std::size_t> informative_items(const ScoreTable& table) {
  std::vector<std::size_t> items;
  for (std::size_t i = 0; i < table.items(); ++i) {
    const auto scores = table.scores_of(i);
    if (std::ranges::any_of(scores, [&](double x) { return x != scores[0]; })) items.push_back(i);
  }
  return items;
}

std::size_t cells_of(const ScoreTable& table, std::span<const std::size_t> items) {
  std::size_t cells = 0;
  for (const std::size_t i : items) cells += table.first[i + 1] - table.first[i];
  return cells;
}

std::vector<std::size_t> sample_items(const ScoreTable& table, std::span<const std::size_t> items,
                                      std::uint64_t seed) {
  const double share =
      static_cast<double>(kSampleCells) / static_cast<double>(cells_of(table, items));
  const auto wanted = static_cast<std::size_t>(share * static_cast<double>(items.size()));
  const std::size_t count = std::min(std::max(wanted, kFewestSampled), items.size());
  base::Random random(base::derive_seed(seed, "stats.sample_items"));
  std::vector<std::size_t> sample;
  for (const std::size_t k : random.sample_without_replacement(items.size(), count)) {
    sample.push_back(items[k]);
  }
  std::ranges::sort(sample);
  return sample;
}

ScoreTable take_items(const ScoreTable& table, std::span<const std::size_t> items) {
  ScoreTable part;
  for (const std::size_t i : items) {
    const auto positions = table.positions_of(i);
    const auto scores = table.scores_of(i);
    part.ids.push_back(table.ids[i]);
    part.position.insert(part.position.end(), positions.begin(), positions.end());
    part.score.insert(part.score.end(), scores.begin(), scores.end());
    part.first.push_back(part.score.size());
  }
  return part;
}

ClusterSums sums_per_item(const ScoreTable& table, std::int64_t modulus) {
  return sums_by(table, modulus, table.items(), [](std::size_t i) { return i; });
}

ClusterSums sums_per_block(const ScoreTable& table, std::int64_t modulus, std::size_t blocks,
                           std::uint64_t seed) {
  assert(blocks >= 1);
  std::vector<std::uint32_t> block(table.items());
  for (std::size_t i = 0; i < block.size(); ++i) block[i] = static_cast<std::uint32_t>(i % blocks);
  base::Random random(base::derive_seed(seed, "stats.sums_per_block"));
  random.shuffle(std::span(block));
  return sums_by(table, modulus, blocks, [&](std::size_t i) { return std::size_t{block[i]}; });
}

}  // namespace kvphase::stats
