#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/random.h"
#include "stats/fold.h"
#include "stats/min_p.h"
#include "stats/period.h"
#include "stats/period_choice.h"
#include "stats/sampling.h"

namespace kvphase::stats {
namespace {

constexpr std::size_t kResiduesToRearrange = 12;  // below it too few distinct orders exist

// Residues with observations, their shares detrended, folded by every candidate.
class CountFolder {
 public:
  CountFolder(const ResidueCounts& counts, std::vector<std::int64_t> candidates)
      : counts_(counts), candidates_(std::move(candidates)) {
    std::vector<double> offsets;
    std::vector<double> weights;
    for (std::size_t r = 0; r < counts.n.size(); ++r) {
      if (counts.n[r] == 0) continue;
      residues_.push_back(r);
      offsets.push_back(static_cast<double>(r));
      weights.push_back(static_cast<double>(counts.n[r]));
    }
    weights_ = weights;
    degree_ = trend_degree(residues_.size());
    basis_ = trend_basis(offsets, weights, degree_);
  }

  int degree() const { return degree_; }
  const std::vector<std::int64_t>& candidates() const { return candidates_; }

  std::vector<double> shares() const {
    std::vector<double> y;
    for (const std::size_t r : residues_) {
      y.push_back(static_cast<double>(counts_.correct[r]) / static_cast<double>(counts_.n[r]));
    }
    return y;
  }

  // Sums of squares in units of counts; total is over residues.
  FoldSums fold(const std::vector<double>& y) const {
    const std::size_t n = y.size();
    double mean = 0;
    double weight = 0;
    for (std::size_t j = 0; j < n; ++j) {
      mean += weights_[j] * y[j];
      weight += weights_[j];
    }
    mean /= weight;
    std::vector<double> z(n);
    for (std::size_t j = 0; j < n; ++j) z[j] = std::sqrt(weights_[j]) * (y[j] - mean);
    for (int d = 0; d < degree_; ++d) {
      const double* q = basis_.data() + static_cast<std::size_t>(d) * n;
      double c = 0;
      for (std::size_t j = 0; j < n; ++j) c += q[j] * z[j];
      for (std::size_t j = 0; j < n; ++j) z[j] -= c * q[j];
    }
    FoldSums sums;
    for (const double x : z) sums.total += x * x;
    for (const auto candidate : candidates_) {
      const auto s = static_cast<std::size_t>(candidate);
      std::vector<double> t(s);
      std::vector<double> size(s);
      for (std::size_t j = 0; j < n; ++j) {
        t[residues_[j] % s] += std::sqrt(weights_[j]) * z[j];
        size[residues_[j] % s] += weights_[j];
      }
      double between = 0;
      for (std::size_t g = 0; g < s; ++g) {
        if (size[g] > 0) between += t[g] * t[g] / size[g];
      }
      sums.between.push_back(between);
    }
    return sums;
  }

  // Shares after dealing the right answers anew inside every residue class mod `classes`.
  std::vector<double> dealt(std::int64_t classes, base::Random& random) const {
    std::vector<double> y(residues_.size());
    for (std::int64_t g = 0; g < classes; ++g) {
      std::int64_t total = 0;
      std::int64_t good = 0;
      for (const std::size_t r : residues_) {
        if (static_cast<std::int64_t>(r) % classes != g) continue;
        total += counts_.n[r];
        good += counts_.correct[r];
      }
      for (std::size_t j = 0; j < residues_.size(); ++j) {
        const std::size_t r = residues_[j];
        if (static_cast<std::int64_t>(r) % classes != g) continue;
        const std::int64_t drawn = draw_hypergeometric(total, good, counts_.n[r], random);
        y[j] = static_cast<double>(drawn) / static_cast<double>(counts_.n[r]);
        total -= counts_.n[r];
        good -= drawn;
      }
    }
    return y;
  }

  std::size_t residues() const { return residues_.size(); }
  std::size_t groups(std::int64_t s) const {
    std::vector<bool> seen(static_cast<std::size_t>(s));
    for (const std::size_t r : residues_) seen[r % static_cast<std::size_t>(s)] = true;
    return static_cast<std::size_t>(std::ranges::count(seen, true));
  }

 private:
  const ResidueCounts& counts_;
  std::vector<std::int64_t> candidates_;
  std::vector<std::size_t> residues_;
  std::vector<double> weights_;
  int degree_ = 0;
  std::vector<double> basis_;
};

MinP probe_multiples(const CountFolder& folder, std::int64_t from,
                     const std::vector<std::size_t>& to, std::int64_t draws, std::uint64_t seed) {
  const auto& candidates = folder.candidates();
  const auto base =
      static_cast<std::size_t>(std::ranges::find(candidates, from) - candidates.begin());
  const auto gains = [&](const FoldSums& sums, std::vector<double>& out) {
    for (const std::size_t m : to) out.push_back(sums.between[m] - sums.between[base]);
  };
  std::vector<double> observed;
  gains(folder.fold(folder.shares()), observed);
  base::Random random(
      base::derive_seed(seed, "stats.period.counts_nested", {static_cast<std::uint64_t>(from)}));
  std::vector<double> null;
  for (std::int64_t b = 0; b < draws; ++b) gains(folder.fold(folder.dealt(from, random)), null);
  return min_p(observed, null);
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

}  // namespace

PeriodResult find_period(const ResidueCounts& counts, const PeriodOptions& options) {
  check_options(options);
  check_counts(counts, "stats.period");
  PeriodResult result{
      .level = options.level, .observations = total_n(counts), .data_kind = "counts"};
  const std::int64_t right = total_correct(counts);
  const std::int64_t modulus = counts.modulus();
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
  const CountFolder folder(counts, candidates);
  const std::vector<double> shares = folder.shares();
  const FoldSums observed = folder.fold(shares);
  result.permutations = options.permutations;
  base::Random random(base::derive_seed(options.seed, "stats.period.counts"));
  std::vector<double> null;
  std::int64_t as_spread = 0;  // draws whose residues differ as much, whatever the pattern
  for (std::int64_t b = 0; b < result.permutations; ++b) {
    const FoldSums sums = folder.fold(folder.dealt(1, random));
    null.insert(null.end(), sums.between.begin(), sums.between.end());
    as_spread += sums.total >= observed.total * (1 - 1e-9) ? 1 : 0;
  }
  const MinP first = min_p(observed.between, null);
  const double p_any =
      (1 + static_cast<double>(as_spread)) / (1 + static_cast<double>(result.permutations));
  std::vector<double> log_p;
  for (std::size_t c = 0; c < candidates.size(); ++c) {
    double mean = 0;
    for (std::size_t b = c; b < null.size(); b += candidates.size()) mean += null[b];
    mean /= static_cast<double>(result.permutations);
    const double statistic = mean > 0 ? observed.between[c] / mean : 0;
    const double df = static_cast<double>(folder.groups(candidates[c])) - 1;
    log_p.push_back(df > 0 ? log_upper_chi_squared(df * statistic, df) : 0);
    result.candidates.push_back({.period = candidates[c],
                                 .statistic = statistic,
                                 .p_raw = first.raw[c],
                                 .p_adjusted = first.adjusted[c]});
  }

  if (folder.residues() >= kResiduesToRearrange) {
    result.second_null = "the residues' shares in any order";
    base::Random orders(base::derive_seed(options.seed, "stats.period.rearrange"));
    const auto ratios = [&](const FoldSums& sums, std::vector<double>& out) {
      for (const double x : sums.between) out.push_back(sums.total > 0 ? x / sums.total : 0);
    };
    std::vector<double> real;
    ratios(observed, real);
    std::vector<double> rearranged;
    std::vector<double> y = shares;
    for (std::int64_t b = 0; b < options.other_permutations; ++b) {
      orders.shuffle(std::span(y));
      ratios(folder.fold(y), rearranged);
    }
    result.p_second = std::ranges::min(min_p(real, rearranged).adjusted);
  }
  result.method = fmt::format(
      "counts only: epoch folding of residues mod {}{}, {} hypergeometric draws (independent "
      "prompts; conservative when paired), min-p over {} candidates",
      modulus,
      folder.degree() == 2   ? ", quadratic trend removed"
      : folder.degree() == 1 ? ", linear trend removed"
                             : "",
      result.permutations, candidates.size());
  const std::string unknown =
      fmt::format("counts mod {} can only show periods that divide it and are at most {}", modulus,
                  modulus / 2);

  const double smallest = std::ranges::min(first.adjusted);
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
  if (result.p_second && *result.p_second > options.level) {
    result.reason = fmt::format(
        "residues differ beyond noise, but their order is no more periodic than a random one; {}",
        unknown);
    return result;
  }
  const std::size_t chosen = choose_period(
      result.candidates, log_p, options.level,
      [&](std::int64_t from, const std::vector<std::size_t>& to) {
        return probe_multiples(folder, from, to, options.other_permutations, options.seed);
      },
      result.nested);
  result.period = candidates[chosen];
  result.p_value = result.candidates[chosen].p_adjusted;
  result.reason = unknown;
  return result;
}

}  // namespace kvphase::stats
