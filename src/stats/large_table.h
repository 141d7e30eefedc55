// What keeps the work on a table of millions of scores within seconds: whole items are drawn at
// random, or added up in random blocks. Internal to stats; every method that uses it says so in its
// text and leaves smaller tables alone.
//
// A sample of items stands for all of them in a null distribution: there a group's sum is a sum of
// independent contributions of the items, so the sum over all items deviates from its expectation
// (known from all items) as the sum over the sample does from its own, times the root of the ratio
// of their sums of squares. With thousands of items in the sample the error of that is far below
// that of the permutations. Blocks of items are independent draws as items are, so that whatever
// resamples or splits items may resample or split blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "stats/score_table.h"

namespace kvphase::stats {

// Cells that are permuted in full; beyond it, about kSampleCells of them in whole items, at least
// kFewestSampled items: a sum over fewer is not yet close enough to a normal one.
inline constexpr std::size_t kLargeCells = 250'000;
// The same of one item, whose sums per position are drawn instead (position_folder.h): phases of
// hundreds of scores are as good as normal.
inline constexpr std::size_t kLargeItem = 25'000;
inline constexpr std::size_t kSampleCells = 12'500;
inline constexpr std::size_t kFewestSampled = 400;
// Permuted cells in all replicates of one null of a sampled table: about a tenth of a second.
inline constexpr double kSampledWork = 2.5e7;
// Blocks of a table with too many items; the standard deviation of a mean comes out of them to
// within 2 %, about what 2,000 replicates give for the ends of an interval.
inline constexpr std::size_t kBlocks = 1000;

// Items with more than one distinct score, ascending.
std::vector<std::size_t> informative_items(const ScoreTable& table);
std::size_t cells_of(const ScoreTable& table, std::span<const std::size_t> items);

// Some of `items`, ascending, with about kSampleCells cells; the seed decides which.
std::vector<std::size_t> sample_items(const ScoreTable& table, std::span<const std::size_t> items,
                                      std::uint64_t seed);

// A table of only these items.
ScoreTable take_items(const ScoreTable& table, std::span<const std::size_t> items);

// Sums and counts per cluster (an item, or a block of items) and group = position mod modulus.
struct ClusterSums {
  std::size_t groups = 0;
  std::vector<double> sum;   // clusters x groups
  std::vector<double> size;  // clusters x groups

  std::size_t clusters() const { return groups == 0 ? 0 : sum.size() / groups; }
};
ClusterSums sums_per_item(const ScoreTable& table, std::int64_t modulus);
// Every item falls in one of `blocks` blocks at random; their numbers of items differ by at most 1.
ClusterSums sums_per_block(const ScoreTable& table, std::int64_t modulus, std::size_t blocks,
                           std::uint64_t seed);

}  // namespace kvphase::stats
