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
  std::optional<double> p_value;     // P(equal groups give a gap as large), add-one estimate
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

// Null: items share no phase, whatever the answers of one item have to do with one another. From 9
// items that vary on, every item's deviations from its mean are moved over the groups that have
// observations, (p + shift) mod m, together and by its own random amount (item_shift.h); what the
// means of items give a group stays where their cells are. Without a shift that is the gap itself.
// Exact where items start anywhere, or repeat at random phases of their own. What all items share
// at a position, a drift from equal starts too, is a difference of groups. Where an item has more
// observations in some groups, what moved to a group is put to its own number of observations as
// independent answers would be: about exact for these, and with items that all start alike
// conservative for patterns of their own.
//
// The p-value is of these draws. noise and noise_high are of the same shifts once what all items
// share at a group has been taken out of each, which would not be there if groups were equal.
//
// Fewer items have too few shifts: their scores are permuted inside items, as if answers of an item
// were independent (`method` says so), and the noise contains what the items share. A table of one
// item, as pool_items() makes, is dealt anew as a whole. Items whose scores are all equal carry
// nothing.
//
// Of more than about 10,000 items a random sample is drawn from and scaled to all (large_table.h);
// of few items with more than 25,000 cells the groups' sums are drawn with the moments of
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
