#include "stats/bootstrap.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/random.h"
#include "stats/interval.h"
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
  std::size_t present = 0;
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
    ++present;
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
    if (present > 1) result.gap.value = *result.best.value - *result.worst.value;
  }
  if (present == 1) result.gap.reason = "only one group has observations";
  for (Estimate* e : {&result.mean, &result.worst, &result.best, &result.gap}) {
    e->n = result.observations;
    if (!e->value && e->reason.empty()) e->reason = "no observations";
  }
}

// What the replicates of one group tell, and what it needs where they tell nothing.
struct GroupSpread {
  bool present = false;
  bool alike = false;  // no spread: the bootstrap cannot doubt the group's mean
  double mean = 0;
  double se = 0;              // of the replicates
  std::optional<double> low;  // simultaneous bounds
  std::optional<double> high;
  double worth = 0;  // independent observations that would have the replicates' spread
};

constexpr double kNoWidth = 1e-12;  // relative: replicates that differ by the order of additions
constexpr std::size_t kMostPairs = 1000;  // groups; beyond, one width for all pairs

bool no_width(double low, double high) {
  return high - low <= kNoWidth * (1 + std::abs(low) + std::abs(high));
}

bool certain(double share) { return share == 0 || share == 1; }

// Collects replicates and turns them into intervals.
class Replicates {
 public:
  Replicates(std::size_t groups, std::size_t expected) : by_group_(groups), worst_count_(groups) {
    mean_.reserve(expected);
    for (auto& v : by_group_) v.reserve(expected);
  }

  void add(const std::vector<double>& sum, const std::vector<double>& n) {
    double all = 0;
    double count = 0;
    double worst = 0;
    std::size_t present = 0;
    std::size_t tied = 0;
    for (std::size_t g = 0; g < sum.size(); ++g) {
      if (n[g] == 0) continue;
      all += sum[g];
      count += n[g];
      const double mean = sum[g] / n[g];
      if (present == 0 || mean < worst) {
        worst = mean;
        tied = 0;
      }
      if (mean == worst) ++tied;
      ++present;
    }
    if (present == 0) return;
    for (std::size_t g = 0; g < sum.size(); ++g) {
      by_group_[g].push_back(n[g] == 0 ? kAbsent : sum[g] / n[g]);
      if (n[g] > 0 && sum[g] / n[g] == worst) worst_count_[g] += 1.0 / static_cast<double>(tied);
    }
    mean_.push_back(all / count);
  }

  // units: independent observations per group and in all (items, or prompts of counts).
  void finish(GroupBootstrap& result, const BootstrapOptions& options,
              std::span<const std::int64_t> units, std::int64_t all_units, const std::string& over,
              const std::string& suffix) {
    options_ = options;
    freedom_ = std::max(0.0, static_cast<double>(result.items) - 1);
    const std::string method = "percentile " + over + suffix;
    result.method = method;
    std::vector<GroupSpread> spread;
    for (std::size_t g = 0; g < by_group_.size(); ++g)
      spread.push_back(spread_of(result, g, units[g]));
    percentile(result.mean, mean_, all_units, method);
    if (!mean_.empty()) {
      bound_groups(spread, units);
      bound_extremes(result, spread, "simultaneous " + over + ", studentised" + suffix);
    }
    for (std::size_t g = 0; g < by_group_.size(); ++g) {
      std::erase_if(by_group_[g], [](double x) { return std::isnan(x); });
      percentile(result.groups[g].mean, by_group_[g], units[g], method);
      if (!mean_.empty()) {
        result.groups[g].worst_share = worst_count_[g] / static_cast<double>(mean_.size());
      }
    }
  }

 private:
  static constexpr double kAbsent = std::numeric_limits<double>::quiet_NaN();

  GroupSpread spread_of(const GroupBootstrap& result, std::size_t g, std::int64_t units) const {
    const Estimate& e = result.groups[g].mean;
    if (!e.value) return {};
    GroupSpread s{.present = true, .mean = *e.value};
    double sum = 0;
    double squares = 0;
    double count = 0;
    for (const double x : by_group_[g]) {
      if (std::isnan(x)) continue;
      sum += x - s.mean;
      squares += (x - s.mean) * (x - s.mean);
      ++count;
    }
    const double variance = count > 0 ? std::max(0.0, squares - sum * sum / count) / count : 0;
    s.se = std::sqrt(variance);
    s.alike = s.se <= kNoWidth * (1 + std::abs(s.mean));
    s.worth = s.alike ? static_cast<double>(units)
                      : std::min(static_cast<double>(e.n), s.mean * (1 - s.mean) / variance);
    if (options_.right_wrong && !s.alike) {
      // Near 0 and 1 few replicates differ; Agresti and Coull's variance keeps the width honest.
      const double n = static_cast<double>(e.n) + 4;
      const double p = (s.mean * static_cast<double>(e.n) + 2) / n;
      s.se = std::max(s.se, std::sqrt(p * (1 - p) / n));
    }
    return s;
  }

  // Percentile interval; without width an exact bound where there is one, else none.
  void percentile(Estimate& e, std::vector<double>& values, std::int64_t units,
                  const std::string& method) const {
    e.level = options_.level;
    e.method = method;
    if (!e.value || values.empty()) return;
    std::ranges::sort(values);
    const double low = sorted_quantile(values, (1 - options_.level) / 2);
    const double high = sorted_quantile(values, (1 + options_.level) / 2);
    if (!no_width(low, high)) {
      e.low = std::min(low, *e.value);
      e.high = std::max(high, *e.value);
      return;
    }
    if (options_.right_wrong && certain(*e.value) && units > 0) {
      const Estimate exact = clopper_pearson(*e.value == 0 ? 0 : units, units, options_.level);
      e.low = exact.low;
      e.high = exact.high;
      e.method = fmt::format("Clopper-Pearson, {} independent observations (all alike)", units);
      return;
    }
    e.reason = kAlike;
  }

  // Bounds that hold for all groups at once.
  void bound_groups(std::vector<GroupSpread>& spread, std::span<const std::int64_t> units) {
    std::vector<double> up, down, range;
    std::size_t present = 0;
    for (const GroupSpread& s : spread) present += s.present ? 1 : 0;
    for (std::size_t b = 0; b < mean_.size(); ++b) {
      double highest = 0;
      double lowest = 0;
      for (std::size_t g = 0; g < spread.size(); ++g) {
        const double x = by_group_[g][b];
        if (!spread[g].present || spread[g].alike || std::isnan(x)) continue;
        const double z = (x - spread[g].mean) / spread[g].se;
        highest = std::max(highest, z);
        lowest = std::min(lowest, z);
      }
      up.push_back(highest);
      down.push_back(-lowest);
      range.push_back(highest - lowest);
    }
    for (auto* v : {&up, &down, &range}) std::ranges::sort(*v);
    const double tail = (1 + options_.level) / 2;
    const double reach_down = sorted_quantile(up, tail);
    const double reach_up = sorted_quantile(down, tail);
    range_ = sorted_quantile(range, options_.level);
    const double alpha =
        (1 - options_.level) / static_cast<double>(std::max<std::size_t>(1, present));
    for (std::size_t g = 0; g < spread.size(); ++g) {
      GroupSpread& s = spread[g];
      if (!s.present) continue;
      if (!s.alike) {
        s.low = s.mean - reach_down * s.se;
        s.high = s.mean + reach_up * s.se;
        if (options_.right_wrong) {
          s.low = std::max(0.0, *s.low);
          s.high = std::min(1.0, *s.high);
        }
      } else if (options_.right_wrong && certain(s.mean) && units[g] > 0) {
        s.low = s.mean == 0 ? 0 : *clopper_pearson_lower(units[g], units[g], alpha).low;
        s.high = s.mean == 1 ? 1 : *clopper_pearson_upper(0, units[g], alpha).high;
      }
    }
  }

  // Korn and Graubard (1998): fewer where few items say how much they vary.
  double worth(const GroupSpread& s, double alpha) const {
    if (s.alike || freedom_ < 1) return s.worth;
    const double ratio = normal_quantile(alpha) / student_quantile(alpha, freedom_);
    return s.worth * ratio * ratio;
  }

  void bound_extremes(GroupBootstrap& result, const std::vector<GroupSpread>& spread,
                      const std::string& method) const {
    for (Estimate* e : {&result.worst, &result.best, &result.gap}) {
      e->level = options_.level;
      e->method = method;
    }
    if (options_.right_wrong) {
      for (Estimate* e : {&result.worst, &result.best}) {
        e->method =
            "Clopper-Pearson with the observations that the bootstrap finds the data worth "
            "(Korn and Graubard), all groups at once";
      }
    }
    const auto unbounded =
        std::ranges::find_if(spread, [](const auto& s) { return s.present && !s.low; });
    if (unbounded != spread.end()) {
      const std::string reason = fmt::format("group {}: {}", unbounded - spread.begin(), kAlike);
      for (Estimate* e : {&result.worst, &result.best, &result.gap}) {
        if (e->value) e->reason = reason;
      }
      return;
    }
    std::vector<const GroupSpread*> groups;
    for (const GroupSpread& s : spread) {
      if (s.present) groups.push_back(&s);
    }
    // Where all groups' upper bounds hold together, so does the smallest of them for the worst
    // mean; where the worst group's own lower bound holds, so does the smallest of all.
    const double alpha = (1 - options_.level) / 2;
    const double shared = alpha / static_cast<double>(groups.size());
    const auto low = [&](const GroupSpread* s, double a) {
      return options_.right_wrong ? exact_share_lower(s->mean, worth(*s, a), a) : *s->low;
    };
    const auto high = [&](const GroupSpread* s, double a) {
      return options_.right_wrong ? exact_share_upper(s->mean, worth(*s, a), a) : *s->high;
    };
    for (const GroupSpread* s : groups) {
      const auto least = [](std::optional<double>& x, double y) { x = x ? std::min(*x, y) : y; };
      const auto most = [](std::optional<double>& x, double y) { x = x ? std::max(*x, y) : y; };
      least(result.worst.low, low(s, alpha));
      least(result.worst.high, high(s, shared));
      most(result.best.low, low(s, shared));
      most(result.best.high, high(s, alpha));
    }
    if (!result.gap.value) return;
    double least = 0;
    double most = *result.gap.value;
    const auto pair = [&](const GroupSpread& a, const GroupSpread& b) {
      if (a.alike || b.alike) {
        least = std::max(least, *a.low - *b.high);
        most = std::max(most, *a.high - *b.low);
      } else {
        const double width = range_ * std::max(a.se, b.se);
        least = std::max(least, a.mean - b.mean - width);
        most = std::max(most, a.mean - b.mean + width);
      }
    };
    if (groups.size() <= kMostPairs) {
      for (const GroupSpread* a : groups) {
        for (const GroupSpread* b : groups) {
          if (a != b) pair(*a, *b);
        }
      }
    } else {
      least = std::max(0.0, *result.best.low - *result.worst.high);
      most = *result.best.high - *result.worst.low;
    }
    result.gap.low = least;
    result.gap.high = options_.right_wrong ? std::min(1.0, most) : most;
  }

  static constexpr const char* kAlike =
      "one observation, or all alike: there is no spread to resample";

  BootstrapOptions options_;
  double freedom_ = 0;  // items - 1; 0: of counts, whose variance is known
  double range_ = 0;    // quantile of the range of studentised deviations
  std::vector<double> mean_;
  std::vector<std::vector<double>> by_group_;  // per replicate; NaN: no observation was drawn
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

std::vector<std::int64_t> items_per_group(const ScoreTable& table, std::int64_t modulus) {
  std::vector<std::int64_t> items(static_cast<std::size_t>(modulus), 0);
  std::vector<std::size_t> last(static_cast<std::size_t>(modulus), table.items());
  for (std::size_t i = 0; i < table.items(); ++i) {
    for (const auto p : table.positions_of(i)) {
      const auto g = static_cast<std::size_t>(p % modulus);
      items[g] += last[g] == i ? 0 : 1;
      last[g] = i;
    }
  }
  return items;
}

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
      result, options, items_per_group(table, options.modulus), result.items,
      "bootstrap over items",
      fmt::format(
          "{}, {} replicates{}", blocked ? fmt::format(" in {} random blocks", count) : "",
          result.replicates,
          result.replicates < options.replicates
              ? fmt::format(" ({} asked for; bounded for a large table)", options.replicates)
              : ""));
  return result;
}

GroupBootstrap bootstrap_counts(const ResidueCounts& counts, const BootstrapOptions& wanted) {
  BootstrapOptions options = wanted;
  options.right_wrong = true;
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
  replicates.finish(result, options, counts.n, result.observations,
                    "parametric bootstrap of counts (independent prompts)",
                    fmt::format(", {} replicates", result.replicates));
  return result;
}

}  // namespace kvphase::stats
