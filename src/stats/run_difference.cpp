#include "stats/run_difference.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <limits>
#include <map>
#include <vector>

#include "base/error.h"
#include "stats/paired.h"

namespace kvphase::stats {
namespace {

using StudentsT = boost::math::students_t_distribution<>;

// One model's mean in one group, and what each item adds to its deviation.
struct GroupMean {
  double mean = 0;
  double prompts = 0;
  std::vector<double> influence;  // items; sums to 0
};

// Bonett and Price's, of pairs without a discordant one.
double least_variance(double means, double prompts) {
  return means / ((prompts + 2) * (prompts + 2));
}

// Means of both models' groups with their covariance over items.
class Means {
 public:
  Means(std::vector<GroupMean> a, std::vector<GroupMean> b, std::size_t items)
      : groups_(a.size()), items_(static_cast<double>(items)) {
    prompts_ = a.empty() ? 0 : a.front().prompts;
    for (const auto* side : {&a, &b}) {
      for (const GroupMean& mean : *side) prompts_ = std::min(prompts_, mean.prompts);
    }
    std::vector<GroupMean> all = std::move(a);
    all.insert(all.end(), b.begin(), b.end());
    const std::size_t m = all.size();
    covariance_.resize(m * m);
    const double correction = items_ / (items_ - 1);
    for (std::size_t i = 0; i < m; ++i) {
      mean_.push_back(all[i].mean);
      for (std::size_t j = 0; j <= i; ++j) {
        double sum = 0;
        for (std::size_t k = 0; k < items; ++k) sum += all[i].influence[k] * all[j].influence[k];
        covariance_[i * m + j] = covariance_[j * m + i] = correction * sum;
      }
    }
  }

  std::size_t groups() const { return groups_; }
  double items() const { return items_; }

  struct Contrast {
    double value = 0;
    double error = 0;
  };
  // A_g - B_h.
  Contrast difference(std::size_t g, std::size_t h) const {
    const std::size_t b = groups_ + h;
    const double variance = at(g, g) + at(b, b) - 2 * at(g, b);
    return {mean_[g] - mean_[b], root(variance, 2)};
  }
  // (A_g1 - A_g2) - (B_h1 - B_h2).
  Contrast difference(std::size_t g1, std::size_t g2, std::size_t h1, std::size_t h2) const {
    const std::size_t b1 = groups_ + h1;
    const std::size_t b2 = groups_ + h2;
    const double variance =
        at(g1, g1) + at(g2, g2) + at(b1, b1) + at(b2, b2) +
        2 * (at(g1, b2) + at(g2, b1) - at(g1, g2) - at(g1, b1) - at(g2, b2) - at(b1, b2));
    return {(mean_[g1] - mean_[g2]) - (mean_[b1] - mean_[b2]), root(variance, 4)};
  }

 private:
  double at(std::size_t i, std::size_t j) const { return covariance_[i * mean_.size() + j]; }
  double root(double variance, double means) const {
    return std::sqrt(std::max(variance, least_variance(means, prompts_)));
  }

  std::size_t groups_;
  double items_;
  double prompts_ = 0;  // of the smallest group
  std::vector<double> mean_;
  std::vector<double> covariance_;
};

double t_quantile(double items, double tail) {
  return boost::math::quantile(boost::math::complement(StudentsT(items - 1), tail));
}

double upper_tail(double items, double t) {
  return boost::math::cdf(boost::math::complement(StudentsT(items - 1), t));
}

// At most 1, and not 0 where the tail is smaller than any number.
double p_value(double p) { return std::clamp(p, std::numeric_limits<double>::min(), 1.0); }

// Of min_g max_h d_gh = max_h min_g d_gh, the value bounded from above by the best g and from below
// by the best h. `contrast(g, h)` for g, h in 0..size-1.
template <typename ContrastOf>
void bound_extreme(DifferenceTest& test, std::size_t size, double items, double level,
                   const ContrastOf& contrast) {
  const auto corrected = static_cast<double>(size);
  const double reach = t_quantile(items, (1 - level) / (2 * corrected));
  std::vector<double> most(size, -INFINITY);    // over h, of the upper bounds: one per g
  std::vector<double> least(size, INFINITY);    // over g, of the lower bounds: one per h
  std::vector<double> high_z(size, -INFINITY);  // likewise of d / se
  std::vector<double> low_z(size, INFINITY);
  for (std::size_t g = 0; g < size; ++g) {
    for (std::size_t h = 0; h < size; ++h) {
      const Means::Contrast c = contrast(g, h);
      most[g] = std::max(most[g], c.value + reach * c.error);
      least[h] = std::min(least[h], c.value - reach * c.error);
      high_z[g] = std::max(high_z[g], c.value / c.error);
      low_z[h] = std::min(low_z[h], c.value / c.error);
    }
  }
  test.estimate.low = *std::ranges::max_element(least);
  test.estimate.high = *std::ranges::min_element(most);
  // The best g speaks for "below 0", the best h for "above".
  const double z = std::max(-*std::ranges::min_element(high_z), *std::ranges::max_element(low_z));
  test.p = p_value(2 * corrected * upper_tail(items, z));
}

std::vector<GroupMean> means_of(const std::vector<double>& sum, const std::vector<double>& n,
                                const std::vector<std::size_t>& groups, std::size_t stride,
                                std::size_t items) {
  std::vector<GroupMean> means;
  for (const std::size_t g : groups) {
    double total = 0;
    double count = 0;
    for (std::size_t i = 0; i < items; ++i) {
      total += sum[i * stride + g];
      count += n[i * stride + g];
    }
    GroupMean mean{
        .mean = total / count, .prompts = count, .influence = std::vector<double>(items)};
    for (std::size_t i = 0; i < items; ++i) {
      mean.influence[i] = (sum[i * stride + g] - mean.mean * n[i * stride + g]) / count;
    }
    means.push_back(std::move(mean));
  }
  return means;
}

}  // namespace

RunDifference run_difference(std::span<const PromptPair> pairs, std::int64_t groups, double level) {
  if (groups < 1) throw base::usage_error("stats", "expected at least 1 group, got {}", groups);
  RunDifference result{.prompts = static_cast<std::int64_t>(pairs.size())};
  std::map<std::int64_t, std::size_t> index;
  for (const PromptPair& pair : pairs) {
    if (std::min(pair.group_a, pair.group_b) < 0 ||
        std::max(pair.group_a, pair.group_b) >= groups) {
      throw base::usage_error("stats", "expected groups 0..{}, got {} and {}", groups - 1,
                              pair.group_a, pair.group_b);
    }
    index.emplace(pair.item, 0);
  }
  for (std::size_t next = 0; auto& [item, at] : index) at = next++;
  const std::size_t items = index.size();
  const auto m = static_cast<std::size_t>(groups);
  result.items = static_cast<std::int64_t>(items);
  std::vector<double> sum_a(items * m), sum_b(items * m), n_a(items * m), n_b(items * m);
  std::vector<double> difference(items), count(items);
  for (const PromptPair& pair : pairs) {
    const std::size_t i = index.at(pair.item);
    const std::size_t a = i * m + static_cast<std::size_t>(pair.group_a);
    const std::size_t b = i * m + static_cast<std::size_t>(pair.group_b);
    sum_a[a] += pair.a;
    n_a[a] += 1;
    sum_b[b] += pair.b;
    n_b[b] += 1;
    difference[i] += pair.a - pair.b;
    count[i] += 1;
  }
  std::vector<std::size_t> present;
  for (std::size_t g = 0; g < m; ++g) {
    double of_a = 0;
    double of_b = 0;
    for (std::size_t i = 0; i < items; ++i) {
      of_a += n_a[i * m + g];
      of_b += n_b[i * m + g];
    }
    if (of_a > 0 && of_b > 0) present.push_back(g);
  }
  result.groups = static_cast<std::int64_t>(present.size());
  for (DifferenceTest* test : {&result.mean, &result.worst, &result.gap}) {
    test->estimate.n = result.prompts;
    test->estimate.level = level;
    if (pairs.empty()) test->estimate.reason = "no prompt has a usable reply of both";
  }
  if (pairs.empty()) return result;

  const auto a = means_of(sum_a, n_a, present, m, items);
  const auto b = means_of(sum_b, n_b, present, m, items);
  const auto range = [](const std::vector<GroupMean>& means) {
    const auto [low, high] = std::ranges::minmax_element(means, {}, &GroupMean::mean);
    return std::pair(low->mean, high->mean);
  };
  double all = 0;
  for (const double d : difference) all += d;
  const auto prompts = static_cast<double>(pairs.size());
  const double mean = all / prompts;
  result.mean.estimate.value = mean;
  if (!present.empty()) {
    const auto [low_a, high_a] = range(a);
    const auto [low_b, high_b] = range(b);
    result.worst.estimate.value = low_a - low_b;
    if (present.size() > 1) result.gap.estimate.value = (high_a - low_a) - (high_b - low_b);
  }
  if (present.empty()) result.worst.estimate.reason = "no group has prompts of both";
  if (present.size() < 2) result.gap.estimate.reason = "a gap needs two groups";
  if (items < 2) {
    for (DifferenceTest* test : {&result.mean, &result.worst, &result.gap}) {
      if (test->estimate.value) test->estimate.reason = "one item: no variance between items";
    }
    return result;
  }

  const auto clusters = static_cast<double>(items);
  double squares = 0;
  for (std::size_t i = 0; i < items; ++i) {
    const double deviation = (difference[i] - mean * count[i]) / prompts;
    squares += deviation * deviation;
  }
  const double error =
      std::sqrt(std::max(clusters / (clusters - 1) * squares, least_variance(2, prompts)));
  const double half = t_quantile(clusters, (1 - level) / 2) * error;
  result.mean.estimate.low = std::max(-1.0, mean - half);
  result.mean.estimate.high = std::min(1.0, mean + half);
  result.mean.estimate.method = "mean paired difference, Student's t over items";
  result.mean.p = p_value(2 * upper_tail(clusters, std::abs(mean) / error));
  for (const double d : difference) {
    result.items_for_a += d > 0 ? 1 : 0;
    result.items_for_b += d < 0 ? 1 : 0;
  }
  result.p_items = mcnemar_mid_p(result.items_for_a, result.items_for_b);

  const Means means(a, b, items);
  if (!present.empty()) {
    result.worst.estimate.method = fmt::format(
        "bounds for fixed groups, Student's t over items, Bonferroni over {}", present.size());
    bound_extreme(result.worst, present.size(), clusters, level,
                  [&](std::size_t g, std::size_t h) { return means.difference(g, h); });
  }
  if (present.size() > 1) {
    struct Ordered {
      std::size_t best;
      std::size_t worst;
    };
    std::vector<Ordered> ordered;
    for (std::size_t g = 0; g < present.size(); ++g) {
      for (std::size_t h = 0; h < present.size(); ++h) {
        if (g != h) ordered.push_back({g, h});
      }
    }
    result.gap.estimate.method =
        fmt::format("bounds for fixed pairs of groups, Student's t over items, Bonferroni over {}",
                    ordered.size());
    // gap A - gap B = max over A's pairs of min over B's: the roles of g and h are exchanged.
    bound_extreme(result.gap, ordered.size(), clusters, level, [&](std::size_t h, std::size_t g) {
      return means.difference(ordered[g].best, ordered[g].worst, ordered[h].best, ordered[h].worst);
    });
  }
  return result;
}

}  // namespace kvphase::stats
