// Best minus worst, and how much of it is noise.
//
// The raw gap is biased upwards: among groups that are all alike the best looks better than the
// worst. So four numbers stand beside it: what noise alone would show (mean and 95th percentile),
// the permutation p-value, and the cross-fitted gap, which chooses on one half of the items and
// measures on the other and therefore may be negative.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "stats/estimate.h"
#include "stats/score_table.h"

namespace kvphase::stats {

struct GapNoise {
  std::optional<double> gap;         // raw: best minus worst group mean
  std::optional<double> noise;       // expected gap if all groups were equal
  std::optional<double> noise_high;  // 95th percentile of that gap
  std::optional<double> p_value;     // P(noise gives a gap at least as large), add-one estimate
  std::int64_t n = 0;                // observations
  std::int64_t replicates = 0;
  std::string method;
  std::string reason;  // why a field is empty
};

struct GapOptions {
  std::int64_t modulus = 0;         // groups = position mod modulus (item-level only)
  std::int64_t replicates = 10000;  // more: finer p and steadier noise figures
  std::uint64_t seed = 1;
};

// Null: the scores of an item are exchangeable over its positions (all groups equal, items as
// different as they like). Scores are permuted inside items. Items whose scores are all equal carry
// nothing. Slow drift breaks exchangeability: see the second null of period.h. Beyond 250,000 cells
// a random sample of whole items is permuted, and its deviations are scaled to all items
// (large_table.h); the groups' sums of a single item of that size are drawn with the moments of
// permutations.
GapNoise gap_noise_items(const ScoreTable& table, const GapOptions& options);

// Null: every prompt is right with the pooled share, independently: counts are redrawn as
// Binomial(n, pooled share). For paired items the real noise is smaller, so p is conservative.
GapNoise gap_noise_counts(const ResidueCounts& counts, const GapOptions& options);

// Best and worst group chosen on a random half of the items, their difference measured on the
// other half, both ways, averaged over `splits` splits (arXiv 2605.18887 discusses when this beats
// the raw gap: when groups are alike). Unbiased for the gap between the groups a half would choose,
// hence below the true gap when the choice is uncertain. No interval. Needs 2 items. When cells x
// splits exceeds 4e8, random blocks of items are split instead of items.
Estimate cross_fitted_gap(const ScoreTable& table, std::int64_t modulus, std::int64_t splits = 200,
                          std::uint64_t seed = 1);

// Expected range of `groups` independent standard normals (d_2 of quality control): for equal
// groups the raw gap is about this times the standard error of one group mean. A check, not a
// result. groups >= 1.
double studentized_range_mean(std::int64_t groups);

}  // namespace kvphase::stats
