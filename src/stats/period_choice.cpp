#include "stats/period_choice.h"

#include <fmt/format.h>

#include <cassert>
#include <optional>

#include "base/error.h"

namespace kvphase::stats {

std::size_t choose_period(std::span<const PeriodCandidate> candidates,
                          std::span<const double> log_p, double level, const NestedProbe& probe,
                          std::vector<NestedTest>& tests) {
  std::optional<std::size_t> current;
  for (std::size_t c = 0; c < candidates.size(); ++c) {
    if (candidates[c].p_adjusted <= level && (!current || log_p[c] < log_p[*current])) current = c;
  }
  assert(current);
  const std::int64_t strongest = candidates[*current].period;
  for (std::size_t d = 0; d < *current; ++d) {
    if (strongest % candidates[d].period != 0 || candidates[d].p_adjusted > level) continue;
    const double p = probe(candidates[d].period, {*current}).adjusted[0];
    tests.push_back({.from = candidates[d].period, .to = strongest, .p = p});
    if (p > nested_level(level)) {
      current = d;
      break;
    }
  }
  for (;;) {
    std::vector<std::size_t> multiples;
    for (std::size_t m = *current + 1; m < candidates.size(); ++m) {
      if (candidates[m].period % candidates[*current].period == 0) multiples.push_back(m);
    }
    if (multiples.empty()) return *current;
    const std::int64_t from = candidates[*current].period;
    const MinP p = probe(from, multiples);
    std::optional<std::size_t> next;
    for (std::size_t k = 0; k < multiples.size(); ++k) {
      tests.push_back({.from = from, .to = candidates[multiples[k]].period, .p = p.adjusted[k]});
      if (p.adjusted[k] <= nested_level(level) && (!next || p.adjusted[k] < p.adjusted[*next]))
        next = k;
    }
    if (!next) return *current;
    current = multiples[*next];
  }
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
