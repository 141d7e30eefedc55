// Bootstrap intervals for what an audit reports: mean, worst, best and gap over groups.
//
// Item-level data: the cluster bootstrap (resample whole items with all their observations; Davison
// and Hinkley 1997, section 3.8; the protocol of arXiv 2609.36322). It assumes items are
// independent draws and needs no assumption about observations of one item.
//
// The mean and every group's mean have percentile intervals. Worst, best and gap are chosen after
// looking at all groups, so a percentile interval of the replicates' own extremes is biased and
// even leaves out its estimate where groups tie. Their intervals come from bounds of the groups.
// Worst: from the smallest of all lower bounds, each at half of 1 - level (the worst group's own
// must hold), to the smallest of all upper bounds, which hold together (Bonferroni); best likewise.
// Right or wrong: the bounds are those of Clopper and Pearson with the number of independent
// observations whose variance is that of the replicates, at most n, times (z/t)^2 for few items
// (Korn and Graubard 1998): near 0 and 1 a standard error is too small on the side that matters.
// Other scores: m_g - T se_g and m_g + T' se_g with se_g the replicates' standard deviation and T,
// T' quantiles of max_g z_g and -min_g z_g, z_g = (m*_g - m_g) / se_g. Gap, as in Tukey's range
// method: from the quantile of max_g z_g - min_g z_g, over all pairs. They contain their estimate,
// hold where groups tie, and are wider than needed where one group stands far apart.
//
// A group without spread (one observation, all right, all wrong) tells the bootstrap nothing. Right
// or wrong: its exact Clopper-Pearson bound takes its place, one observation per item, all groups
// at once; any other score: the interval is empty, with a reason. No interval has zero width.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "stats/estimate.h"
#include "stats/score_table.h"

namespace kvphase::stats {

struct BootstrapOptions {
  std::int64_t modulus = 0;        // groups = position mod modulus
  std::int64_t replicates = 2000;  // more: smoother interval ends
  double level = 0.95;
  std::uint64_t seed = 1;
  bool right_wrong = false;  // every score is 0 or 1: exact bounds where nothing varies
};

struct GroupEstimate {
  Estimate mean;
  // Share of replicates in which this group has the lowest mean; ties share. Empty: no replicates.
  std::optional<double> worst_share;
};

struct GroupBootstrap {
  std::int64_t items = 0;  // 0 for counts
  std::int64_t observations = 0;
  std::int64_t replicates = 0;  // done; fewer than asked for when the work was bounded
  Estimate mean;                // over all observations
  Estimate worst;               // lowest group mean
  Estimate best;
  Estimate gap;                             // best - worst, raw; needs two groups
  std::optional<std::int64_t> worst_group;  // the first of equals
  std::optional<std::int64_t> best_group;
  std::vector<GroupEstimate> groups;  // modulus of them
  std::string method;
  std::string reason;  // why there are no intervals
};

// One item or none: values without intervals, with a reason. Groups without observations have an
// empty mean and take no part in worst and best. When items x groups x replicates exceeds 2e9,
// items are added up in 4000 random blocks and blocks are resampled (stated in the method).
GroupBootstrap bootstrap_items(const ScoreTable& table, const BootstrapOptions& options);

// Parametric bootstrap for bare counts: every group redrawn as Binomial(n, correct/n), independent
// prompts. options.modulus and right_wrong are not read. For paired items the interval of the mean
// is too narrow (items vary more than a binomial says) and that of the gap too wide; counts cannot
// tell.
GroupBootstrap bootstrap_counts(const ResidueCounts& counts, const BootstrapOptions& options);

// Distinct items with an observation in each group = position mod modulus.
std::vector<std::int64_t> items_per_group(const ScoreTable& table, std::int64_t modulus);

// Quantile of sorted values by linear interpolation (R type 7); sorted must not be empty.
double sorted_quantile(std::span<const double> sorted, double p);

}  // namespace kvphase::stats
