#include "lab/theory_rules.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "base/stop.h"

namespace kvphase::lab {
namespace {

constexpr double kRounding = 1e-10;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Marsaglia and Tsang (2000); a shape below 1 by raising a draw of shape + 1 to a uniform power.
double gamma_draw(double shape, base::Random& random) {
  if (shape < 1) {
    return gamma_draw(shape + 1, random) * std::pow(1 - random.uniform(), 1 / shape);
  }
  const double d = shape - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  for (;;) {
    const double x = random.normal();
    const double v = std::pow(1 + c * x, 3);
    if (v <= 0) continue;
    if (std::log(1 - random.uniform()) < x * x / 2 + d - d * v + d * std::log(v)) return d * v;
  }
}

void each_partition(std::int64_t left, std::int64_t parts, std::int64_t largest,
                    std::vector<std::int64_t>& sizes,
                    const std::function<void(const std::vector<std::int64_t>&)>& visit) {
  if (left == 0) return visit(sizes);
  if (parts == 0) return;
  for (std::int64_t size = std::min(left, largest); size >= 1; --size) {
    sizes.push_back(size);
    each_partition(left - size, parts - 1, size, sizes, visit);
    sizes.pop_back();
  }
}

double loss_of(const TheorySetting& s, std::span<const double> rule,
               std::span<double> gradient = {}) {
  return rule.size() == coefficient_count(s) ? static_loss(s, rule, gradient)
                                             : chunkwise_loss(s, rule, gradient);
}

}  // namespace

OneHotRange one_hot_range(const TheorySetting& s) {
  OneHotRange range = {.best = {}, .best_loss = kInfinity, .worst_loss = -kInfinity};
  std::vector<std::int64_t> sizes;
  each_partition(s.heads, s.stride - 1, s.heads, sizes, [&](const auto& parts) {
    std::vector<std::int64_t> positions;
    for (std::size_t r = 0; r < parts.size(); ++r) {
      positions.insert(positions.end(), static_cast<std::size_t>(parts[r]),
                       static_cast<std::int64_t>(r));
    }
    const double loss = static_loss(s, one_hot(s, positions));
    range.worst_loss = std::max(range.worst_loss, loss);
    if (loss < range.best_loss) {
      range.best_loss = loss;
      range.best = positions;
    }
  });
  return range;
}

Coefficients random_rule(const TheorySetting& s, std::int64_t copies, double concentration,
                         base::Random& random) {
  Coefficients rule(static_cast<std::size_t>(copies) * coefficient_count(s));
  const auto S = static_cast<std::size_t>(s.stride);
  for (std::size_t row = 0; row < rule.size(); row += S) {
    double sum = 0;
    for (std::size_t r = row; r < row + S; ++r) sum += rule[r] = gamma_draw(concentration, random);
    for (std::size_t r = row; r < row + S; ++r) {
      rule[r] = sum > 0 ? rule[r] / sum : 1 / static_cast<double>(S);  // all underflowed to 0
    }
  }
  return rule;
}

void project_rows(std::span<double> rows, std::int64_t stride) {
  const auto S = static_cast<std::size_t>(stride);
  std::vector<double> sorted(S);
  for (std::size_t row = 0; row < rows.size(); row += S) {
    const auto p = rows.subspan(row, S);
    std::ranges::copy(p, sorted.begin());
    std::ranges::sort(sorted, std::greater<>());
    double sum = 0, level = 0;
    for (std::size_t k = 0; k < S; ++k) {
      sum += sorted[k];
      const double candidate = (sum - 1) / static_cast<double>(k + 1);
      if (sorted[k] > candidate) level = candidate;
    }
    for (double& x : p) x = std::max(0.0, x - level);
  }
}

LocalMinimum descend_on_simplices(const TheorySetting& s, Coefficients start,
                                  std::int64_t most_steps) {
  constexpr double kEnough = 1e-4;  // Armijo's share of the predicted fall
  LocalMinimum at = {.rule = std::move(start)};
  Coefficients gradient(at.rule.size());
  at.loss = loss_of(s, at.rule, gradient);
  double rate = 1;
  while (at.steps < most_steps) {
    bool moved = false;
    while (rate > 1e-12) {
      Coefficients next = at.rule;
      for (std::size_t i = 0; i < next.size(); ++i) next[i] -= rate * gradient[i];
      project_rows(next, s.stride);
      double fall = 0, distance = 0;
      for (std::size_t i = 0; i < next.size(); ++i) {
        fall += gradient[i] * (at.rule[i] - next[i]);
        distance = std::max(distance, std::abs(next[i] - at.rule[i]));
      }
      if (distance < 1e-14) break;
      const double loss = loss_of(s, next);
      if (loss <= at.loss - kEnough * fall) {
        at.rule = std::move(next);
        moved = loss < at.loss;
        at.loss = loss_of(s, at.rule, gradient);
        rate = std::min(rate * 4, 1e6);
        break;
      }
      rate /= 4;
    }
    ++at.steps;
    if (!moved) break;
  }
  return at;
}

bool is_one_hot(const TheorySetting& s, std::span<const double> rule, double tolerance) {
  const std::size_t size = coefficient_count(s);
  const auto S = static_cast<std::size_t>(s.stride);
  for (std::size_t copy = 0; copy < rule.size(); copy += size) {
    for (std::int64_t h = 0; h < s.heads; ++h) {
      const auto key = rule.subspan(copy + row_of(s, Gate::kKey, h), S);
      const auto value = rule.subspan(copy + row_of(s, Gate::kValue, h), S);
      const auto r = static_cast<std::size_t>(std::ranges::max_element(key) - key.begin());
      if (r + 1 >= S || key[r] < 1 - tolerance || value[r + 1] < 1 - tolerance) return false;
    }
  }
  return true;
}

RuleSearch search_rules(const TheorySetting& s, const RuleSearchOptions& options) {
  RuleSearch search = {.setting = s,
                       .best_one_hot = one_hot_range(s).best_loss,
                       .lowest_random = kInfinity,
                       .lowest_optimised = kInfinity};
  constexpr double kConcentrations[] = {0.05, 0.3, 1, 5};
  const auto start = [&](std::string_view name, std::int64_t i) {
    base::Random random(base::derive_seed(options.seed, name, {static_cast<std::uint64_t>(i)}));
    const std::int64_t copies = options.chunkwise && i % 2 != 0 ? s.chunks : 1;
    return random_rule(s, copies, kConcentrations[(i / 2) % 4], random);
  };
  const auto count = [&](double loss, double& lowest) {
    lowest = std::min(lowest, loss - search.best_one_hot);
    search.below += loss < search.best_one_hot - kRounding;
  };
  for (; search.random < options.random || search.random % 2 != 0; ++search.random) {
    base::stop_if_requested("theory");
    count(loss_of(s, start("random rule", search.random)), search.lowest_random);
  }
  for (; search.optimised < options.optimised || search.optimised % 2 != 0; ++search.optimised) {
    base::stop_if_requested("theory");
    const LocalMinimum end = descend_on_simplices(s, start("optimised rule", search.optimised));
    count(end.loss, search.lowest_optimised);
    search.at_best += std::abs(end.loss - search.best_one_hot) <= 1e-9;
    search.optimised_one_hot += is_one_hot(s, end.rule, 1e-6);
  }
  return search;
}

double one_hot_slack(const TheorySetting& s) {
  const Coefficients rule = one_hot(s, one_hot_range(s).best);
  Coefficients gradient(rule.size());
  static_loss(s, rule, gradient);
  const auto S = static_cast<std::size_t>(s.stride);
  double slack = kInfinity;
  for (std::size_t i = 0; i < rule.size(); ++i) {
    if (rule[i] == 0) continue;
    const std::size_t row = i / S * S;
    for (std::size_t j = row; j < row + S; ++j) {
      if (j != i) slack = std::min(slack, gradient[j] - gradient[i]);
    }
  }
  return slack;
}

std::optional<double> largest_beta(TheorySetting s) {
  const auto stable = [&](double beta) {
    s.beta = beta;
    return one_hot_slack(s) > 0;
  };
  constexpr double kStep = 0.25, kMost = 100;
  double low = kStep;
  while (low <= kMost && stable(low)) low += kStep;
  if (low > kMost) return std::nullopt;
  double high = low;
  low -= kStep;
  for (int i = 0; i < 40; ++i) {
    const double middle = (low + high) / 2;
    (stable(middle) ? low : high) = middle;
  }
  return low;
}

}  // namespace kvphase::lab
