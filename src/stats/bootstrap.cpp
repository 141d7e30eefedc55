#include "stats/bootstrap.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/random.h"
#include "stats/large_table.h"
#include "stats/sampling.h"

namespace kvphase::stats {
namespace {

constexpr double kWorkLimit = 2e9;  // group sums added up in all replicates: a few seconds
constexpr std::int64_t kFewestReplicates = 200;

void check(const BootstrapOptions& options) {
  if (options.replicates < 1 || !(options.level > 0 && options.level < 1)) {
    throw base::usage_error("stats.bootstrap",
                            "expected replicates >= 1 and a level between 0 and 1, got {} and {}",
                            options.replicates, options.level);
  }
}

// Fills the point values from group totals.
void set_values(GroupBootstrap& result, const GroupTotals& totals) {
  double sum = 0;
  result.groups.resize(totals.n.size());
  for (std::size_t g = 0; g < totals.n.size(); ++g) {
    result.observations += totals.n[g];
    sum += totals.sum[g];
    auto& mean = result.groups[g].mean;
    mean.n = totals.n[g];
    mean.value = group_mean(totals, g);
    if (!mean.value) {
      mean.reason = "no observations in this group";
      continue;
    }
    if (!result.worst.value || *mean.value < *result.worst.value) {
      result.worst.value = mean.value;
      result.worst_group = static_cast<std::int64_t>(g);
    }
    if (!result.best.value || *mean.value > *result.best.value) {
      result.best.value = mean.value;
      result.best_group = static_cast<std::int64_t>(g);
    }
  }
  if (result.observations > 0) {
    result.mean.value = sum / static_cast<double>(result.observations);
    result.gap.value = *result.best.value - *result.worst.value;
  }
  for (Estimate* e : {&result.mean, &result.worst, &result.best, &result.gap}) {
    e->n = result.observations;
    if (!e->value) e->reason = "no observations";
  }
}

// Collects replicates and turns them into percentile intervals.
class Replicates {
 public:
  Replicates(std::size_t groups, std::size_t expected) : by_group_(groups), worst_count_(groups) {
    for (auto* v : {&mean_, &worst_, &best_, &gap_}) v->reserve(expected);
    for (auto& v : by_group_) v.reserve(expected);
  }

  void add(const std::vector<double>& sum, const std::vector<double>& n) {
    double all = 0;
    double count = 0;
    double worst = 0;
    double best = 0;
    std::size_t present = 0;
    std::size_t tied = 0;
    for (std::size_t g = 0; g < sum.size(); ++g) {
      if (n[g] == 0) continue;
      all += sum[g];
      count += n[g];
      const double mean = sum[g] / n[g];
      by_group_[g].push_back(mean);
      if (present == 0 || mean < worst) {
        worst = mean;
        tied = 0;
      }
      if (mean == worst) ++tied;
      best = present == 0 ? mean : std::max(best, mean);
      ++present;
    }
    if (present == 0) return;
    for (std::size_t g = 0; g < sum.size(); ++g) {
      if (n[g] > 0 && sum[g] / n[g] == worst) worst_count_[g] += 1.0 / static_cast<double>(tied);
    }
    mean_.push_back(all / count);
    worst_.push_back(worst);
    best_.push_back(best);
    gap_.push_back(best - worst);
  }

  void finish(GroupBootstrap& result, double level, const std::string& method) {
    result.method = method;
    interval(result.mean, mean_, level, method);
    interval(result.worst, worst_, level, method);
    interval(result.best, best_, level, method);
    interval(result.gap, gap_, level, method);
    for (std::size_t g = 0; g < by_group_.size(); ++g) {
      interval(result.groups[g].mean, by_group_[g], level, method);
      if (!mean_.empty()) {
        result.groups[g].worst_share = worst_count_[g] / static_cast<double>(mean_.size());
      }
    }
  }

 private:
  static void interval(Estimate& e, std::vector<double>& values, double level,
                       const std::string& method) {
    e.level = level;
    e.method = method;
    if (!e.value || values.empty()) return;
    std::ranges::sort(values);
    e.low = sorted_quantile(values, (1 - level) / 2);
    e.high = sorted_quantile(values, (1 + level) / 2);
  }

  std::vector<double> mean_;
  std::vector<double> worst_;
  std::vector<double> best_;
  std::vector<double> gap_;
  std::vector<std::vector<double>> by_group_;
  std::vector<double> worst_count_;
};

void no_intervals(GroupBootstrap& result, const std::string& method, const std::string& reason) {
  result.method = method;
  result.reason = reason;
  for (Estimate* e : {&result.mean, &result.worst, &result.best, &result.gap}) {
    e->method = method;
    if (e->reason.empty()) e->reason = reason;
  }
  for (auto& g : result.groups) {
    g.mean.method = method;
    if (g.mean.reason.empty()) g.mean.reason = reason;
  }
}

}  // namespace

double sorted_quantile(std::span<const double> sorted, double p) {
  const double at = p * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(at);
  if (below + 1 >= sorted.size()) return sorted.back();
  const double part = at - static_cast<double>(below);
  return sorted[below] + part * (sorted[below + 1] - sorted[below]);
}

GroupBootstrap bootstrap_items(const ScoreTable& table, const BootstrapOptions& options) {
  check(options);
  const GroupTotals totals = group_totals(table, options.modulus);
  GroupBootstrap result{.items = static_cast<std::int64_t>(table.items())};
  set_values(result, totals);
  if (table.items() < 2) {
    no_intervals(result, "values only",
                 table.items() == 0 ? "no observations"
                                    : "one item: the bootstrap over items needs at least 2");
    return result;
  }
  // A replicate adds whole items; too many of them are added up in blocks first.
  const auto m = static_cast<std::size_t>(options.modulus);
  const auto work_of = [&](std::size_t clusters) {
    return static_cast<double>(clusters) * static_cast<double>(m);
  };
  const bool blocked =
      table.items() > kBlocks &&
      work_of(table.items()) * static_cast<double>(options.replicates) > kWorkLimit;
  const ClusterSums clusters = blocked
                                   ? sums_per_block(table, options.modulus, kBlocks, options.seed)
                                   : sums_per_item(table, options.modulus);
  const std::size_t count = clusters.clusters();
  const auto affordable = static_cast<std::int64_t>(kWorkLimit / work_of(count));
  result.replicates = std::min(options.replicates, std::max(kFewestReplicates, affordable));

  Replicates replicates(m, static_cast<std::size_t>(result.replicates));
  base::Random random(base::derive_seed(options.seed, "stats.bootstrap_items"));
  std::vector<double> sum(m);
  std::vector<double> n(m);
  for (std::int64_t b = 0; b < result.replicates; ++b) {
    std::ranges::fill(sum, 0.0);
    std::ranges::fill(n, 0.0);
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t pick = random.uniform_index(count) * m;
      for (std::size_t g = 0; g < m; ++g) {
        sum[g] += clusters.sum[pick + g];
        n[g] += clusters.size[pick + g];
      }
    }
    replicates.add(sum, n);
  }
  replicates.finish(
      result, options.level,
      fmt::format(
          "percentile bootstrap over items{}, {} replicates{}",
          blocked ? fmt::format(" in {} random blocks", count) : "", result.replicates,
          result.replicates < options.replicates
              ? fmt::format(" ({} asked for; bounded for a large table)", options.replicates)
              : ""));
  return result;
}

GroupBootstrap bootstrap_counts(const ResidueCounts& counts, const BootstrapOptions& options) {
  check(options);
  check_counts(counts, "stats.bootstrap");
  const std::size_t m = counts.n.size();
  GroupTotals totals{.n = counts.n, .sum = {}};
  for (const auto x : counts.correct) totals.sum.push_back(static_cast<double>(x));
  GroupBootstrap result;
  set_values(result, totals);
  if (result.observations == 0) {
    no_intervals(result, "values only", "no observations");
    return result;
  }
  result.replicates = options.replicates;
  Replicates replicates(m, static_cast<std::size_t>(result.replicates));
  base::Random random(base::derive_seed(options.seed, "stats.bootstrap_counts"));
  std::vector<double> sum(m);
  std::vector<double> n(m);
  for (std::int64_t b = 0; b < result.replicates; ++b) {
    for (std::size_t g = 0; g < m; ++g) {
      n[g] = static_cast<double>(counts.n[g]);
      const double p = counts.n[g] == 0 ? 0 : totals.sum[g] / n[g];
      sum[g] = static_cast<double>(draw_binomial(counts.n[g], p, random));
    }
    replicates.add(sum, n);
  }
  replicates.finish(
      result, options.level,
      fmt::format("percentile parametric bootstrap of counts (independent prompts), {} replicates",
                  result.replicates));
  return result;
}

}  // namespace kvphase::stats
