#include "stats/period_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <numeric>
#include <optional>

#include "base/error.h"

namespace kvphase::stats {

double own_squares(double observed, double mean, std::size_t items) {
  const auto n = static_cast<double>(items);
  // Items of unequal lengths can exceed the bound a little.
  return std::max(n * mean - observed, 1e-3 * mean) / (n - 1);
}

NestedP nested_p(std::span<const double> gains, std::span<const double> null,
                 std::span<const double> df, std::size_t items) {
  NestedP result{.p = min_p(gains, null), .log_p = {}};
  const std::size_t count = gains.size();
  for (std::size_t k = 0; k < count; ++k) {
    double sum = 0;
    for (std::size_t b = k; b < null.size(); b += count) sum += null[b];
    const double mean = sum / static_cast<double>(null.size() / count);
    const double noise = items > 1 && mean > 0 ? own_squares(gains[k], mean, items) : mean;
    const double ratio = noise > 0 ? gains[k] / noise : 0;
    result.log_p.push_back(df[k] > 0 ? log_upper_chi_squared(df[k] * ratio, df[k]) : 0);
  }
  return result;
}

void must_fit(NestedP& added, std::span<const double> fit) {
  for (std::size_t k = 0; k < fit.size(); ++k) {
    added.p.adjusted[k] = std::max(added.p.adjusted[k], nested_level(fit[k]));
  }
}

namespace {

// The strongest candidate may owe its rank to what it shares with the true period: 12 to the 4 that
// it has in common with 8. So it is compared with every significant candidate by what each adds to
// their greatest common divisor, when that is significant too. Empty: none adds more.
std::optional<std::size_t> stronger_rival(std::span<const PeriodCandidate> candidates,
                                          std::size_t strongest, double level,
                                          const NestedProbe& probe,
                                          std::vector<NestedTest>& tests) {
  const std::int64_t period = candidates[strongest].period;
  std::optional<std::size_t> best;
  double best_log_p = 0;  // over that of the strongest
  for (const PeriodCandidate& shared : candidates) {
    if (shared.period >= period) break;
    if (period % shared.period != 0 || shared.p_adjusted > level) continue;
    std::vector<std::size_t> compared = {strongest};
    for (std::size_t r = 0; r < candidates.size(); ++r) {
      const std::int64_t other = candidates[r].period;
      if (candidates[r].p_adjusted > level || std::gcd(other, period) != shared.period) continue;
      if (other != shared.period) compared.push_back(r);
    }
    if (compared.size() == 1) continue;
    const NestedP added = probe(shared.period, compared);
    for (std::size_t k = 1; k < compared.size(); ++k) {
      const double p = added.p.adjusted[k];
      tests.push_back({.from = shared.period, .to = candidates[compared[k]].period, .p = p});
      const double gained = added.log_p[k] - added.log_p[0];
      if (p > nested_level(level) || gained >= best_log_p) continue;
      best = compared[k];
      best_log_p = gained;
    }
  }
  return best;
}

}  // namespace

std::size_t choose_period(std::span<const PeriodCandidate> candidates,
                          std::span<const double> log_p, double level, const NestedProbe& probe,
                          std::vector<NestedTest>& tests) {
  std::optional<std::size_t> current;
  for (std::size_t c = 0; c < candidates.size(); ++c) {
    if (candidates[c].p_adjusted <= level && (!current || log_p[c] < log_p[*current])) current = c;
  }
  assert(current);
  const std::int64_t strongest = candidates[*current].period;
  bool explained = false;
  for (std::size_t d = 0; d < *current && !explained; ++d) {
    if (strongest % candidates[d].period != 0 || candidates[d].p_adjusted > level) continue;
    const double p = probe(candidates[d].period, {*current}).p.adjusted[0];
    tests.push_back({.from = candidates[d].period, .to = strongest, .p = p});
    explained = p > nested_level(level);
    if (explained) current = d;
  }
  if (!explained) {
    if (const auto rival = stronger_rival(candidates, *current, level, probe, tests)) {
      current = rival;
    }
  }
  for (;;) {
    std::vector<std::size_t> multiples;
    for (std::size_t m = *current + 1; m < candidates.size(); ++m) {
      if (candidates[m].period % candidates[*current].period == 0) multiples.push_back(m);
    }
    if (multiples.empty()) return *current;
    const std::int64_t from = candidates[*current].period;
    const NestedP added = probe(from, multiples);
    std::optional<std::size_t> next;
    for (std::size_t k = 0; k < multiples.size(); ++k) {
      const double p = added.p.adjusted[k];
      tests.push_back({.from = from, .to = candidates[multiples[k]].period, .p = p});
      if (p <= nested_level(level) && (!next || added.log_p[k] < added.log_p[*next])) next = k;
    }
    if (!next) return *current;
    current = multiples[*next];
  }
}

void name_period(PeriodResult& result, std::span<const double> log_p, const NestedProbe& probe,
                 const std::function<void()>& judge,
                 const std::function<std::optional<std::size_t>()>& other) {
  const std::string reason = result.reason;
  const auto name = [&](std::size_t candidate) {
    result.period = result.candidates[candidate].period;
    result.p_value = result.candidates[candidate].p_adjusted;
    result.reason = reason;
    judge();
  };
  const std::size_t chosen =
      choose_period(result.candidates, log_p, result.level, probe, result.nested);
  name(chosen);
  if (result.period) return;
  if (const auto next = other(); next && *next != chosen) name(*next);
}

std::vector<std::int64_t> periods_at(std::span<const std::int64_t> candidates,
                                     std::span<const std::size_t> indices) {
  std::vector<std::int64_t> periods;
  for (const std::size_t at : indices) periods.push_back(candidates[at]);
  return periods;
}

std::string describe_trend(int degree) {
  switch (degree) {
    case 0:
      return "too few positions to remove a trend";
    case 1:
      return "linear trend removed";
    case 2:
      return "quadratic trend removed";
    default:
      return "cubic trend removed";
  }
}

std::string invisible(std::int64_t period, double p) {
  return fmt::format(
      "period {} shows only after a curved trend over the positions is taken out: the scores "
      "themselves differ no more between its phases than by chance (p = {:.2g})",
      period, p);
}

void check_options(const PeriodOptions& options) {
  if (options.permutations < 1 || options.other_permutations < 1 ||
      !(options.level > 0 && options.level < 1) || options.min_period < 2 ||
      options.max_period < 0 || options.max_period > 4096) {
    throw base::usage_error(
        "stats.period",
        "expected permutations >= 1, a level between 0 and 1 and periods 2..4096, got {} and {} "
        "permutations, level {}, periods {}..{}",
        options.permutations, options.other_permutations, options.level, options.min_period,
        options.max_period);
  }
}

}  // namespace kvphase::stats
