#include "stats/paired.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/math/distributions/binomial.hpp>
#include <boost/math/distributions/chi_squared.hpp>
#include <boost/math/special_functions/beta.hpp>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "base/random.h"
#include "stats/interval.h"
#include "stats/item_shift.h"
#include "stats/large_table.h"
#include "stats/sampling.h"

namespace kvphase::stats {
namespace {

double t_quantile(double level, double df) { return student_quantile((1 + level) / 2, df); }

void check_discordant(std::int64_t b, std::int64_t c, std::int64_t n) {
  if (b < 0 || c < 0 || b + c > n) {
    throw base::usage_error("stats.paired",
                            "expected discordant counts >= 0 that add up to at most n, got {} and "
                            "{} of n {}",
                            b, c, n);
  }
}

Estimate difference(double b, double c, double n, double level) {
  const double d = (b - c) / n;
  const double se = std::sqrt(std::max(0.0, b + c - (b - c) * (b - c) / n)) / n;
  const double z = normal_quantile((1 + level) / 2);
  return {.value = d,
          .low = std::max(-1.0, d - z * se),
          .high = std::min(1.0, d + z * se),
          .level = level};
}

// About kSampleCells cells of whole rows, at least kFewestSampled rows. Q has no scale, so that its
// null over many rows is that over some.
ItemShifts sample_rows(const ItemShifts& rows, base::Random& random) {
  const std::size_t count =
      std::min(rows.items(), std::max(kFewestSampled, kSampleCells / rows.groups));
  ItemShifts sample{.groups = rows.groups};
  for (const std::size_t i : random.sample_without_replacement(rows.items(), count)) {
    const auto row = rows.sum.begin() + static_cast<std::ptrdiff_t>(i * rows.groups);
    sample.sum.insert(sample.sum.end(), row, row + static_cast<std::ptrdiff_t>(rows.groups));
  }
  return sample;
}

}  // namespace

PhaseMatrix phase_matrix(const ScoreTable& table, std::int64_t phases) {
  if (phases < 1) throw base::usage_error("stats", "expected at least 1 phase, got {}", phases);
  PhaseMatrix matrix{.phases = static_cast<std::size_t>(phases)};
  matrix.cell.reserve(table.items() * matrix.phases);
  GroupTotals totals{.n = std::vector<std::int64_t>(matrix.phases),
                     .sum = std::vector<double>(matrix.phases)};
  for (std::size_t i = 0; i < table.items(); ++i) {
    item_totals(table, i, totals);
    if (std::ranges::find(totals.n, 0) != totals.n.end()) {
      ++matrix.dropped;
      continue;
    }
    for (std::size_t g = 0; g < matrix.phases; ++g) {
      matrix.cell.push_back(*group_mean(totals, g));
    }
  }
  return matrix;
}

ClusteredMean clustered_mean(const ScoreTable& table, double level) {
  ClusteredMean result{.estimate = {.n = static_cast<std::int64_t>(table.cells()),
                                    .level = level,
                                    .method = "clustered standard error, Student's t over items"},
                       .items = static_cast<std::int64_t>(table.items())};
  if (table.cells() == 0) {
    result.estimate.reason = "no observations";
    return result;
  }
  const double n = static_cast<double>(table.cells());
  const double mean = std::accumulate(table.score.begin(), table.score.end(), 0.0) / n;
  result.estimate.value = mean;
  if (table.items() < 2) {
    result.estimate.reason = "one item: no variance between items";
    return result;
  }
  double squares = 0;
  for (std::size_t i = 0; i < table.items(); ++i) {
    double sum = 0;
    for (const double s : table.scores_of(i)) sum += s - mean;
    squares += sum * sum;
  }
  const double c = static_cast<double>(table.items());
  const double se = std::sqrt(c / (c - 1) * squares) / n;
  if (!(se > 0)) {
    result.estimate.reason = "all items are alike: no spread to measure";
    return result;
  }
  result.standard_error = se;
  const double half = t_quantile(level, c - 1) * se;
  const bool share = is_binary(table);
  result.estimate.low = share ? std::max(0.0, mean - half) : mean - half;
  result.estimate.high = share ? std::min(1.0, mean + half) : mean + half;
  return result;
}

Estimate phase_difference(const ScoreTable& table, std::int64_t phases, std::int64_t a,
                          std::int64_t b, double level) {
  if (a < 0 || b < 0 || a >= phases || b >= phases) {
    throw base::usage_error("stats", "expected phases 0..{}, got {} and {}", phases - 1, a, b);
  }
  Estimate result{.level = level, .method = "mean paired difference, Student's t over items"};
  std::vector<double> differences;
  for (std::size_t i = 0; i < table.items(); ++i) {
    const auto positions = table.positions_of(i);
    const auto scores = table.scores_of(i);
    double sum[2] = {};
    double n[2] = {};
    for (std::size_t j = 0; j < scores.size(); ++j) {
      const std::int64_t g = positions[j] % phases;
      for (int k = 0; k < 2; ++k) {
        if (g != (k == 0 ? a : b)) continue;
        sum[k] += scores[j];
        n[k] += 1;
      }
    }
    if (n[0] > 0 && n[1] > 0) differences.push_back(sum[0] / n[0] - sum[1] / n[1]);
  }
  result.n = static_cast<std::int64_t>(differences.size());
  if (differences.empty()) {
    result.reason = "no item has both phases";
    return result;
  }
  const double n = static_cast<double>(differences.size());
  const double mean = std::accumulate(differences.begin(), differences.end(), 0.0) / n;
  result.value = mean;
  if (differences.size() < 2) {
    result.reason = "one item: no variance between items";
    return result;
  }
  double squares = 0;
  for (const double d : differences) squares += (d - mean) * (d - mean);
  if (!(squares > 1e-20 * n)) {
    // No spread: the t interval would have no width.
    const auto pairs = static_cast<std::int64_t>(differences.size());
    if (is_binary(table) && (mean == 0 || std::abs(mean) == 1)) {
      const Estimate exact =
          bonett_price_difference(mean > 0 ? pairs : 0, mean < 0 ? pairs : 0, pairs, level);
      result.low = std::min(mean, *exact.low);
      result.high = std::max(mean, *exact.high);
      result.method = exact.method + " (all items alike)";
    } else {
      result.reason = "all items differ by the same: no spread to measure";
    }
    return result;
  }
  const double half = t_quantile(level, n - 1) * std::sqrt(squares / (n - 1) / n);
  result.low = mean - half;
  result.high = mean + half;
  return result;
}

Estimate newcombe_difference(std::int64_t correct_a, std::int64_t n_a, std::int64_t correct_b,
                             std::int64_t n_b, double level) {
  const Estimate a = wilson(correct_a, n_a, level);
  const Estimate b = wilson(correct_b, n_b, level);
  Estimate e{.n = n_a + n_b, .level = level, .method = "Newcombe, two independent shares"};
  if (!a.value || !b.value) {
    e.reason = "a group has no observations";
    return e;
  }
  e.value = *a.value - *b.value;
  e.low = *e.value - std::hypot(*a.value - *a.low, *b.high - *b.value);
  e.high = *e.value + std::hypot(*a.high - *a.value, *b.value - *b.low);
  return e;
}

Estimate unpaired_difference(const ScoreTable& table, std::int64_t phases, std::int64_t a,
                             std::int64_t b, double level) {
  if (a < 0 || b < 0 || a >= phases || b >= phases) {
    throw base::usage_error("stats", "expected phases 0..{}, got {} and {}", phases - 1, a, b);
  }
  std::vector<double> scores[2];
  for (std::size_t c = 0; c < table.cells(); ++c) {
    const std::int64_t g = table.position[c] % phases;
    if (g == a || g == b) scores[g == a ? 0 : 1].push_back(table.score[c]);
  }
  double mean[2] = {};
  double variance[2] = {};  // of the mean
  for (int k = 0; k < 2; ++k) {
    const auto n = static_cast<double>(scores[k].size());
    if (scores[k].empty()) {
      return {.level = level, .method = "unpaired", .reason = "a group has no observations"};
    }
    mean[k] = std::accumulate(scores[k].begin(), scores[k].end(), 0.0) / n;
    for (const double x : scores[k]) variance[k] += (x - mean[k]) * (x - mean[k]) / (n - 1) / n;
  }
  if (is_binary(table)) {
    const auto right = [&](int k) { return std::ranges::count(scores[k], 1.0); };
    return newcombe_difference(right(0), std::ssize(scores[0]), right(1), std::ssize(scores[1]),
                               level);
  }
  Estimate e{.value = mean[0] - mean[1],
             .n = std::ssize(scores[0]) + std::ssize(scores[1]),
             .level = level,
             .method = "Welch's t, observations taken as independent"};
  const double total = variance[0] + variance[1];
  if (scores[0].size() < 2 || scores[1].size() < 2 || !(total > 0)) {
    e.reason = "a group has one observation, or there is no spread to measure";
    return e;
  }
  const auto freedom = [&](int k) { return static_cast<double>(scores[k].size()) - 1; };
  const double df =
      total * total /
      (variance[0] * variance[0] / freedom(0) + variance[1] * variance[1] / freedom(1));
  const double half = t_quantile(level, df) * std::sqrt(total);
  e.low = *e.value - half;
  e.high = *e.value + half;
  return e;
}

Estimate bonett_price_difference(std::int64_t n12, std::int64_t n21, std::int64_t n, double level) {
  check_discordant(n12, n21, n);
  if (n == 0) return {.level = level, .method = "Bonett-Price, paired", .reason = "no pairs"};
  Estimate e = difference(static_cast<double>(n12) + 1, static_cast<double>(n21) + 1,
                          static_cast<double>(n) + 2, level);
  e.value = static_cast<double>(n12 - n21) / static_cast<double>(n);
  e.n = n;
  e.method = "Bonett-Price, paired";
  return e;
}

CochranResult cochran_q(const PhaseMatrix& matrix, std::int64_t permutations, std::uint64_t seed) {
  if (permutations < 0) {
    throw base::usage_error("stats.cochran", "expected 0 or more permutations, got {}",
                            permutations);
  }
  CochranResult result{.items = static_cast<std::int64_t>(matrix.items()),
                       .dropped = matrix.dropped,
                       .method = fmt::format("Cochran's Q over {} phases", matrix.phases)};
  if (matrix.items() == 0) {
    result.reason = "no item with all phases";
    return result;
  }
  if (matrix.phases < 2) {
    result.reason = "one phase: nothing to compare";
    return result;
  }
  const std::size_t p = matrix.phases;
  // Rows that carry information, centred; kept only to be drawn from.
  ItemShifts rows{.groups = p};
  std::vector<double> total(p);
  double within = 0;
  for (std::size_t i = 0; i < matrix.items(); ++i) {
    const auto row = matrix.row(i);
    if (std::ranges::all_of(row, [&](double x) { return x == row[0]; })) continue;
    const double mean = std::accumulate(row.begin(), row.end(), 0.0) / static_cast<double>(p);
    for (std::size_t g = 0; g < p; ++g) {
      const double x = row[g] - mean;
      total[g] += x;
      within += x * x;
      if (permutations > 0) rows.sum.push_back(x);
    }
    ++result.informative;
  }
  if (result.informative == 0) {
    result.p_chi_squared = 1;
    if (permutations > 0) result.p_permutation = 1;
    result.reason = "no discordant item";
    return result;
  }
  const auto q_of = [&](double squares) {
    double sum = 0;
    for (const double t : total) sum += t * t;
    return (static_cast<double>(p) - 1) * sum / squares;
  };
  result.q = q_of(within);
  result.p_chi_squared = boost::math::cdf(boost::math::complement(
      boost::math::chi_squared_distribution<>(static_cast<double>(p) - 1), *result.q));
  if (permutations == 0) return result;
  base::Random random(base::derive_seed(seed, "stats.cochran_q"));
  const bool shifts = rows.items() >= kFewestItemsToShift;
  result.method += shifts ? fmt::format(", {} random shifts of whole items", permutations)
                          : fmt::format(
                                ", {} permutations inside items ({} that var{}: too few to "
                                "shift)",
                                permutations, rows.items(), rows.items() == 1 ? "ies" : "y");
  if (shifts && rows.sum.size() > kLargeCells) {
    rows = sample_rows(rows, random);
    within = 0;
    for (const double x : rows.sum) within += x * x;
    result.method += fmt::format(" of a random sample of {} that stands for all", rows.items());
  }
  std::int64_t as_large = 0;
  std::vector<double> no_sizes;
  for (std::int64_t b = 0; b < permutations; ++b) {
    if (shifts) {
      draw_shifts(rows, random, total, no_sizes);
    } else {
      std::ranges::fill(total, 0.0);
      for (std::size_t c = 0; c < rows.sum.size(); c += p) {
        fast_shuffle(std::span(rows.sum).subspan(c, p), random);
        for (std::size_t g = 0; g < p; ++g) total[g] += rows.sum[c + g];
      }
    }
    as_large += q_of(within) >= *result.q * (1 - 1e-9) ? 1 : 0;
  }
  result.p_permutation =
      (1 + static_cast<double>(as_large)) / (1 + static_cast<double>(permutations));
  return result;
}

double mcnemar_mid_p(std::int64_t b, std::int64_t c) {
  check_discordant(b, c, b + c);
  if (b + c == 0) return 1;
  const boost::math::binomial_distribution<> coin(static_cast<double>(b + c), 0.5);
  const double least = static_cast<double>(std::min(b, c));
  const double mass = boost::math::pdf(coin, least);
  if (b == c) return 1 - mass / 2;
  return 2 * boost::math::cdf(coin, least) - mass;
}

double mcnemar_e_value(std::int64_t b, std::int64_t c) {
  check_discordant(b, c, b + c);
  const double x = static_cast<double>(b) + 0.5;
  const double y = static_cast<double>(c) + 0.5;
  const double log_beta = std::lgamma(x) + std::lgamma(y) - std::lgamma(x + y);
  const double log_prior = 2 * std::lgamma(0.5) - std::lgamma(1.0);
  return std::exp(log_beta - log_prior + static_cast<double>(b + c) * std::log(2.0));
}

std::vector<double> holm(std::span<const double> p) {
  std::vector<std::size_t> order(p.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return p[i]; });
  std::vector<double> adjusted(p.size());
  double largest = 0;
  for (std::size_t k = 0; k < order.size(); ++k) {
    const double factor = static_cast<double>(p.size() - k);
    largest = std::max(largest, std::min(1.0, factor * p[order[k]]));
    adjusted[order[k]] = largest;
  }
  return adjusted;
}

}  // namespace kvphase::stats
