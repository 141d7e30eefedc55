// Bootstrap intervals for what an audit reports: mean, worst, best and gap over groups.
//
// Item-level data: the cluster bootstrap (resample whole items with all their observations; Davison
// and Hinkley 1997, section 3.8; the protocol of arXiv 2609.36322). It assumes items are
// independent draws and needs no assumption about observations of one item. Percentile intervals.
// Intervals for worst, best and gap are NOT well calibrated when groups tie: the raw gap is biased
// upwards there (see gap.h), and its percentile interval with it.
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
  Estimate gap;                             // best - worst, raw
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
// prompts. options.modulus is not read. For paired items the interval of the mean is too narrow
// (items vary more than a binomial says) and that of the gap too wide; counts cannot tell.
GroupBootstrap bootstrap_counts(const ResidueCounts& counts, const BootstrapOptions& options);

// Quantile of sorted values by linear interpolation (R type 7); sorted must not be empty.
double sorted_quantile(std::span<const double> sorted, double p);

}  // namespace kvphase::stats
