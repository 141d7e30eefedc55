#include <fmt/format.h>

#include <algorithm>

#include "base/random.h"
#include "stats/columns.h"
#include "stats/count_tables.h"
#include "stats/min_p.h"
#include "stats/period.h"
#include "stats/period_choice.h"
#include "stats/period_fit.h"
#include "stats/sampling.h"

namespace kvphase::stats {
namespace {

// Shares of the residues that have observations.
std::vector<double> shares_of(const ResidueCounts& counts, const ColumnFolder& folder) {
  std::vector<double> y;
  for (const auto r : folder.positions()) {
    const auto at = static_cast<std::size_t>(r);
    y.push_back(static_cast<double>(counts.correct[at]) / static_cast<double>(counts.n[at]));
  }
  return y;
}

// Shares after dealing the right answers anew inside every residue class mod `classes`.
std::vector<double> dealt(const ResidueCounts& counts, const ColumnFolder& folder,
                          std::int64_t classes, base::Random& random) {
  const auto& residues = folder.positions();
  std::vector<double> y(residues.size());
  for (std::int64_t g = 0; g < classes; ++g) {
    std::int64_t total = 0;
    std::int64_t good = 0;
    for (const auto r : residues) {
      if (r % classes != g) continue;
      total += counts.n[static_cast<std::size_t>(r)];
      good += counts.correct[static_cast<std::size_t>(r)];
    }
    for (std::size_t j = 0; j < residues.size(); ++j) {
      if (residues[j] % classes != g) continue;
      const std::int64_t n = counts.n[static_cast<std::size_t>(residues[j])];
      const std::int64_t drawn = draw_hypergeometric(total, good, n, random);
      y[j] = static_cast<double>(drawn) / static_cast<double>(n);
      total -= n;
      good -= drawn;
    }
  }
  return y;
}

ColumnFolder folder_for(const ResidueCounts& counts, const std::vector<std::int64_t>& candidates) {
  std::vector<std::int64_t> residues;
  std::vector<double> weights;
  for (std::size_t r = 0; r < counts.n.size(); ++r) {
    if (counts.n[r] == 0) continue;
    residues.push_back(static_cast<std::int64_t>(r));
    weights.push_back(static_cast<double>(counts.n[r]));
  }
  return {std::move(residues), std::move(weights), candidates};
}

NestedP probe_multiples(const ResidueCounts& counts, const ColumnFolder& folder, std::int64_t from,
                        const std::vector<std::int64_t>& to, std::int64_t draws,
                        std::uint64_t seed) {
  const AddedPhases added(folder, from, to);
  std::vector<double> observed;
  added.gains(shares_of(counts, folder), observed);
  base::Random random(
      base::derive_seed(seed, "stats.period.counts_nested", {static_cast<std::uint64_t>(from)}));
  std::vector<double> null;
  for (std::int64_t b = 0; b < draws; ++b) added.gains(dealt(counts, folder, from, random), null);
  return nested_p(observed, null, added.terms());
}

std::vector<std::int64_t> candidates_for(const ResidueCounts& counts,
                                         const PeriodOptions& options) {
  const std::int64_t r = counts.modulus();
  const std::int64_t top = options.max_period > 0 ? std::min(options.max_period, r / 2) : r / 2;
  std::vector<std::int64_t> candidates;
  for (std::int64_t s = options.min_period; s <= top; ++s) {
    if (r % s != 0) continue;
    // A phase counts as repeated only where two of its residues have observations.
    std::int64_t repeated = 0;
    for (std::int64_t g = 0; g < s; ++g) {
      std::int64_t seen = 0;
      for (std::int64_t k = g; k < r; k += s) seen += counts.n[static_cast<std::size_t>(k)] > 0;
      repeated += seen >= 2 ? 1 : 0;
    }
    if (repeated >= 2) candidates.push_back(s);
  }
  return candidates;
}

// The first null: all prompts exchangeable.
struct First {
  MinP p;
  std::vector<double> mean;  // per candidate
  double p_any = 1;          // that residues differ as much, whatever the pattern
  std::int64_t draws = 0;    // or tables, when exact
  bool exact = false;
};

constexpr double kMostTables = 100000;  // enumerated: about 0.2 s

First first_null(const ResidueCounts& counts, const ColumnFolder& folder, const FoldSums& observed,
                 const PeriodOptions& options) {
  const std::size_t candidates = folder.candidates().size();
  First first{.mean = std::vector<double>(candidates)};
  const double as_much = observed.total * (1 - 1e-9);
  std::vector<double> null;
  if (number_of_tables(counts) <= kMostTables) {
    ResidueCounts table = counts;
    std::vector<double> probability;
    double p_any = 0;
    for_each_table(counts, [&](std::span<const std::int64_t> correct, double p) {
      table.correct.assign(correct.begin(), correct.end());
      const FoldSums sums = folder.fold(shares_of(table, folder));
      null.insert(null.end(), sums.between.begin(), sums.between.end());
      probability.push_back(p);
      for (std::size_t c = 0; c < candidates; ++c) first.mean[c] += p * sums.between[c];
      p_any += sums.total >= as_much ? p : 0;
    });
    first.p = min_p_exact(observed.between, null, probability);
    first.p_any = std::min(1.0, p_any);
    first.draws = std::ssize(probability);
    first.exact = true;
    return first;
  }
  base::Random random(base::derive_seed(options.seed, "stats.period.counts"));
  std::int64_t as_spread = 0;
  std::int64_t wanted = options.permutations;
  for (;;) {
    for (; first.draws < wanted; ++first.draws) {
      const FoldSums sums = folder.fold(dealt(counts, folder, 1, random));
      null.insert(null.end(), sums.between.begin(), sums.between.end());
      as_spread += sums.total >= as_much ? 1 : 0;
      for (std::size_t c = 0; c < candidates; ++c) first.mean[c] += sums.between[c];
    }
    first.p = min_p(observed.between, null);
    if (options.permutations < kFewestToSettle || wanted >= kMostTimes * options.permutations ||
        !undecided(std::ranges::min(first.p.adjusted), first.draws, options.level)) {
      break;
    }
    wanted *= 2;
  }
  for (double& mean : first.mean) mean /= static_cast<double>(first.draws);
  first.p_any = (1 + static_cast<double>(as_spread)) / (1 + static_cast<double>(first.draws));
  return first;
}

// The period must stand out from residues that merely differ (period_fit.h); withdrawn else.
void judge(PeriodResult& result, const ResidueCounts& counts, const ColumnFolder& folder,
           const std::vector<double>& shares, const PeriodOptions& options) {
  result.p_misfit = probe_multiples(counts, folder, *result.period, {counts.modulus()},
                                    options.other_permutations, options.seed)
                        .p.raw[0];
  const PeriodFit fit = fit_period(folder, shares, *result.period, folder.candidates());
  std::optional<double> p_order;
  if (folder.columns() < kColumnsToRearrange) {
    result.second_null = "residues of one phase that differ (F test)";
    result.p_second = fit.p;
  } else if (*result.p_misfit <= misfit_level(options.level)) {
    p_order = result.p_second;
  }
  apply_fit(result, fit, p_order, "residues");
}

}  // namespace

PeriodResult find_period(const ResidueCounts& counts, const PeriodOptions& options) {
  check_options(options);
  check_counts(counts, "stats.period");
  PeriodResult result{
      .level = options.level, .observations = total_n(counts), .data_kind = "counts"};
  const std::int64_t right = total_correct(counts);
  const std::int64_t modulus = counts.modulus();
  result.columns = std::ranges::count_if(counts.n, [](std::int64_t n) { return n > 0; });
  if (result.observations == 0) {
    result.reason = "no observations";
    return result;
  }
  if (right == 0 || right == result.observations) {
    result.reason = fmt::format("every answer is {}: nothing varies with phase",
                                right == 0 ? "wrong" : "right");
    return result;
  }
  const auto candidates = candidates_for(counts, options);
  if (candidates.empty()) {
    result.reason = fmt::format(
        "residues mod {} hold no period that is seen twice; count by a larger modulus (a multiple "
        "of "
        "the suspected stride, at least twice as large)",
        modulus);
    return result;
  }
  const ColumnFolder folder = folder_for(counts, candidates);
  const std::vector<double> shares = shares_of(counts, folder);
  const FoldSums observed = folder.fold(shares);
  const First null = first_null(counts, folder, observed, options);
  result.permutations = null.draws;
  result.exact = null.exact;
  const MinP& first = null.p;
  const double p_any = null.p_any;
  std::vector<double> log_p;
  for (std::size_t c = 0; c < candidates.size(); ++c) {
    const double statistic = null.mean[c] > 0 ? observed.between[c] / null.mean[c] : 0;
    const double df = static_cast<double>(folder.groups(candidates[c])) - 1;
    log_p.push_back(df > 0 ? log_upper_chi_squared(df * statistic, df) : 0);
    result.candidates.push_back({.period = candidates[c],
                                 .statistic = statistic,
                                 .p_raw = first.raw[c],
                                 .p_adjusted = first.adjusted[c]});
  }

  const double smallest = std::ranges::min(first.adjusted);
  if (folder.columns() >= kColumnsToRearrange &&
      (options.always_second || smallest <= options.level)) {
    result.second_null = "the residues' shares in any order";
    base::Random orders(base::derive_seed(options.seed, "stats.period.rearrange"));
    result.p_second = folder.rearranged_p(shares, options.other_permutations, orders);
  }
  result.method = fmt::format(
      "counts only: epoch folding of residues mod {}, {}, {} (independent prompts; conservative "
      "when "
      "paired), min-p over {} candidates",
      modulus, describe_trend(folder.degree()),
      null.exact ? fmt::format("all {} tables of as many right answers, exact", null.draws)
                 : fmt::format("{} hypergeometric draws{}", null.draws,
                               null.draws > options.permutations ? kMoreDraws : ""),
      candidates.size());
  const std::string unknown =
      fmt::format("counts mod {} can only show periods that divide it and are at most {}", modulus,
                  modulus / 2);

  result.p_value = smallest;
  if (smallest > options.level) {
    result.reason = p_any <= options.level
                        ? fmt::format(
                              "residues differ beyond noise (p = {:.2g}), but no period "
                              "repeats; {}",
                              p_any, unknown)
                        : fmt::format("no candidate stands out from noise; {}", unknown);
    return result;
  }
  result.reason = unknown;
  name_period(
      result, log_p,
      [&](std::int64_t from, const std::vector<std::size_t>& to) {
        const auto periods = periods_at(candidates, to);
        NestedP added = probe_multiples(counts, folder, from, periods, options.other_permutations,
                                        options.seed);
        must_fit(added, fit_multiples(folder, shares, from, periods, options.level));
        return added;
      },
      [&] { judge(result, counts, folder, shares, options); },
      [&] { return best_fitting(folder, shares, result.candidates, options.level); });
  return result;
}

}  // namespace kvphase::stats
