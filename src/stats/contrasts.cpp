#include "stats/contrasts.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/math/distributions/chi_squared.hpp>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>
#include <utility>

#include "base/error.h"
#include "base/random.h"
#include "stats/interval.h"
#include "stats/large_table.h"
#include "stats/sampling.h"

namespace kvphase::stats {
namespace {

// Permuted cells in all permutations together: about a quarter of a second.
constexpr double kPermutedCells = 5e7;

void check(const ContrastOptions& options, std::int64_t modulus) {
  if (modulus < 1 || options.permutations < 1 || !(options.level > 0 && options.level < 1)) {
    throw base::usage_error("stats.contrasts",
                            "expected a modulus and permutations of at least 1 and a level between "
                            "0 and 1, got {}, {} and {}",
                            modulus, options.permutations, options.level);
  }
  if (options.reference && (*options.reference < 0 || *options.reference >= modulus)) {
    throw base::usage_error("stats.contrasts", "expected a reference group of 0..{}, got {}",
                            modulus - 1, *options.reference);
  }
}

// How often to permute so many cells; 0: so many need no permutations.
std::int64_t affordable(std::int64_t wanted, std::size_t cells) {
  if (cells == 0) return wanted;
  if (cells > kLargeCells) return 0;
  return std::min(wanted,
                  std::max(std::int64_t{200},
                           static_cast<std::int64_t>(kPermutedCells / static_cast<double>(cells))));
}

constexpr const char* kNoPermutations = "no permutations: chi-squared is exact enough for so many";

// Level of each of `pairs` intervals so that all hold together.
double pair_level(double level, std::size_t pairs) {
  return 1 - (1 - level) / static_cast<double>(std::max<std::size_t>(pairs, 1));
}

double two_sided(double t, double freedom) {
  const boost::math::students_t_distribution<> distribution(freedom);
  return 2 * boost::math::cdf(boost::math::complement(distribution, std::abs(t)));
}

double half_width(double level, double freedom, double error) {
  return student_quantile((1 + level) / 2, freedom) * error;
}

// Pairs among the groups that have observations: with the reference's worked out in full, the p of
// all of them for Holm. compare(a, b, level) returns group a minus group b.
template <typename Compare>
void fill_pairs(const std::vector<bool>& seen, const ContrastOptions& options, Compare compare,
                Contrasts& result) {
  std::vector<std::int64_t> groups;
  for (std::size_t g = 0; g < seen.size(); ++g) {
    if (seen[g]) groups.push_back(static_cast<std::int64_t>(g));
  }
  if (groups.size() < 2) {
    result.pairs_reason = "fewer than two groups with observations";
    return;
  }
  if (std::ssize(groups) > kMostContrastGroups) {
    result.pairs_reason =
        fmt::format("{} groups: no pairs beyond {}", groups.size(), kMostContrastGroups);
    return;
  }
  if (!options.reference || !seen[static_cast<std::size_t>(*options.reference)]) {
    result.pairs_reason = "there is no worst group";
    return;
  }
  const std::size_t all = groups.size() * (groups.size() - 1) / 2;
  const double level = pair_level(options.level, all);
  std::vector<double> p;           // that are defined
  std::vector<std::size_t> place;  // of result.pairs, in p
  constexpr auto kNone = std::numeric_limits<std::size_t>::max();
  for (std::size_t i = 0; i < groups.size(); ++i) {
    for (std::size_t j = i + 1; j < groups.size(); ++j) {
      const bool first = groups[i] == *options.reference;
      const bool wanted = first || groups[j] == *options.reference;
      Contrast c =
          first ? compare(groups[j], groups[i], level) : compare(groups[i], groups[j], level);
      if (wanted) place.push_back(c.p ? p.size() : kNone);
      if (c.p) p.push_back(*c.p);
      if (wanted) result.pairs.push_back(std::move(c));
    }
  }
  const std::vector<double> adjusted = holm(p);
  for (std::size_t k = 0; k < result.pairs.size(); ++k) {
    if (place[k] != kNone) result.pairs[k].p_holm = adjusted[place[k]];
  }
  std::ranges::sort(result.pairs, {}, &Contrast::group);
  result.pairs_method += fmt::format(
      "; intervals at {:.4g}% each, so that all {} pairs hold together at {:g}%; Holm over all "
      "pairs",
      100 * level, all, 100 * options.level);
}

// Means of items by group, group after group; NaN where the item misses the group.
struct ItemMeans {
  std::size_t items = 0;
  std::vector<double> cell;  // groups x items
  bool one_each = true;      // no item has two prompts in one group

  std::span<const double> group(std::int64_t g) const {
    return std::span(cell).subspan(static_cast<std::size_t>(g) * items, items);
  }
};

ItemMeans item_means(const ScoreTable& table, std::int64_t modulus) {
  ItemMeans means{.items = table.items()};
  const auto groups = static_cast<std::size_t>(modulus);
  means.cell.assign(table.items() * groups, 0);
  GroupTotals totals{.n = std::vector<std::int64_t>(groups), .sum = std::vector<double>(groups)};
  for (std::size_t i = 0; i < table.items(); ++i) {
    item_totals(table, i, totals);
    for (std::size_t g = 0; g < groups; ++g) {
      means.cell[g * means.items + i] =
          group_mean(totals, g).value_or(std::numeric_limits<double>::quiet_NaN());
      means.one_each = means.one_each && totals.n[g] <= 1;
    }
  }
  return means;
}

Contrast compare_items(const ItemMeans& means, bool discordant, std::int64_t a, std::int64_t b,
                       double level) {
  std::int64_t n = 0, only_a = 0, only_b = 0;
  double sum = 0, squares = 0, scale = 0;
  const std::span<const double> left = means.group(a);
  const std::span<const double> right = means.group(b);
  const auto each = [&](auto visit) {
    for (std::size_t i = 0; i < means.items; ++i) {
      if (!std::isnan(left[i]) && !std::isnan(right[i])) visit(left[i], right[i]);
    }
  };
  each([&](double x, double y) {
    ++n;
    only_a += x > y ? 1 : 0;
    only_b += y > x ? 1 : 0;
    sum += x - y;
    scale += x * x + y * y;
  });
  Contrast c{.group = a};
  if (n == 0) {
    c.difference = {.level = level, .reason = "no item has both groups"};
    return c;
  }
  if (discordant) {
    c.difference = bonett_price_difference(only_a, only_b, n, level);
    c.only_group = only_a;
    c.only_reference = only_b;
    c.p = mcnemar_mid_p(only_a, only_b);
    return c;
  }
  const double count = static_cast<double>(n);
  const double mean = sum / count;
  c.difference = {.value = mean, .n = n, .level = level, .method = "paired t over items"};
  each([&](double x, double y) { squares += (x - y - mean) * (x - y - mean); });
  if (n < 2) {
    c.difference.reason = "one item has both groups: no variance between items";
  } else if (!(squares > 1e-20 * scale)) {
    c.difference.reason = "all items differ by the same: no spread to measure";
    if (mean == 0) c.p = 1;
  } else {
    const double error = std::sqrt(squares / (count - 1) / count);
    const double half = half_width(level, count - 1, error);
    c.difference.low = mean - half;
    c.difference.high = mean + half;
    c.p = two_sided(mean / error, count - 1);
  }
  return c;
}

// (N-1) SSB/SST from totals per group.
struct Totals {
  std::vector<double> n;
  double mean = 0;
  double squares = 0;  // SST
  double count = 0;
  double groups = 0;

  template <typename Sums>
  double statistic(const Sums& sums) const {
    double between = 0;
    for (std::size_t g = 0; g < n.size(); ++g) {
      if (n[g] == 0) continue;
      const double d = static_cast<double>(sums[g]) - n[g] * mean;
      between += d * d / n[g];
    }
    return (count - 1) * between / squares;
  }
};

// deal(random): new totals per group under the null.
template <typename Deal>
void test_groups(const Totals& totals, double observed, std::int64_t permutations, Deal deal,
                 std::uint64_t seed, GroupTest& test) {
  test.statistic = observed;
  test.freedom = static_cast<std::int64_t>(totals.groups) - 1;
  const boost::math::chi_squared_distribution<> chi(static_cast<double>(*test.freedom));
  test.p_chi_squared = boost::math::cdf(boost::math::complement(chi, observed));
  if (permutations == 0) {
    test.reason = kNoPermutations;
    return;
  }
  base::Random random(base::derive_seed(seed, "stats.contrasts"));
  std::int64_t as_large = 0;
  for (std::int64_t b = 0; b < permutations; ++b) {
    as_large += totals.statistic(deal(random)) >= observed * (1 - 1e-9) ? 1 : 0;
  }
  test.p_permutation =
      (1 + static_cast<double>(as_large)) / (1 + static_cast<double>(permutations));
}

// True when there is something to test; else says why not.
bool testable(const Totals& totals, GroupTest& test) {
  if (totals.groups < 2) {
    test.reason = "fewer than two groups with observations";
    return false;
  }
  if (!(totals.squares > 0)) {
    test.p_chi_squared = test.p_permutation = 1;
    test.reason = "all replies are alike";
    return false;
  }
  return true;
}

std::string deals(std::int64_t permutations) {
  return permutations == 0 ? "" : fmt::format(", {} random deals", permutations);
}

GroupMoments moments_of_share(std::int64_t correct, std::int64_t n) {
  if (n == 0) return {};
  const double count = static_cast<double>(n);
  const double p = static_cast<double>(correct) / count;
  return {.n = n, .mean = p, .variance = n > 1 ? p * (1 - p) * count / (count - 1) : 0};
}

// Contrasts of right/wrong counts, whatever they came from.
void fill_counts(const ResidueCounts& counts, const ContrastOptions& options, Contrasts& result) {
  Totals totals;
  const std::int64_t right = total_correct(counts);
  const std::int64_t all = total_n(counts);
  std::vector<GroupMoments> moments;
  std::vector<bool> seen;
  totals.count = static_cast<double>(all);
  totals.mean = all > 0 ? static_cast<double>(right) / totals.count : 0;
  totals.squares = totals.count * totals.mean * (1 - totals.mean);
  for (std::size_t g = 0; g < counts.n.size(); ++g) {
    totals.n.push_back(static_cast<double>(counts.n[g]));
    totals.groups += counts.n[g] > 0 ? 1 : 0;
    moments.push_back(moments_of_share(counts.correct[g], counts.n[g]));
    seen.push_back(counts.n[g] > 0);
  }
  const std::int64_t permutations = all > static_cast<std::int64_t>(kLargeCells)
                                        ? 0
                                        : affordable(options.permutations, 10 * counts.n.size());
  result.test.method = "Pearson's chi-squared of equal shares, times (N-1)/N" + deals(permutations);
  if (testable(totals, result.test)) {
    std::vector<std::int64_t> dealt(counts.n.size());
    const auto deal = [&](base::Random& random) -> const std::vector<std::int64_t>& {
      std::int64_t left = all;
      std::int64_t good = right;
      for (std::size_t g = 0; g < dealt.size(); ++g) {
        dealt[g] = draw_hypergeometric(left, good, counts.n[g], random);
        left -= counts.n[g];
        good -= dealt[g];
      }
      return dealt;
    };
    test_groups(totals, totals.statistic(counts.correct), permutations, deal, options.seed,
                result.test);
  }
  result.spread = phase_spread(moments);
  result.pairs_method = "Newcombe's interval and Fisher's mid-p of two independent shares";
  fill_pairs(
      seen, options,
      [&](std::int64_t a, std::int64_t b, double level) {
        const auto i = static_cast<std::size_t>(a);
        const auto j = static_cast<std::size_t>(b);
        return Contrast{
            .group = a,
            .difference = newcombe_difference(counts.correct[i], counts.n[i], counts.correct[j],
                                              counts.n[j], level),
            .p = fisher_mid_p(counts.correct[i], counts.n[i], counts.correct[j], counts.n[j])};
      },
      result);
}

// Welch's t of two groups from their moments.
Contrast compare_moments(const GroupMoments& a, const GroupMoments& b, std::int64_t group,
                         double level) {
  Contrast c{.group = group,
             .difference = {.value = a.mean - b.mean,
                            .n = a.n + b.n,
                            .level = level,
                            .method = "Welch's t, observations taken as independent"}};
  const double na = static_cast<double>(a.n);
  const double nb = static_cast<double>(b.n);
  const double va = a.variance / na;
  const double vb = b.variance / nb;
  if (a.n < 2 || b.n < 2 || !(va + vb > 0)) {
    c.difference.reason = "a group has one observation, or there is no spread to measure";
    return c;
  }
  const double freedom = (va + vb) * (va + vb) / (va * va / (na - 1) + vb * vb / (nb - 1));
  const double error = std::sqrt(va + vb);
  const double half = half_width(level, freedom, error);
  c.difference.low = *c.difference.value - half;
  c.difference.high = *c.difference.value + half;
  c.p = two_sided(*c.difference.value / error, freedom);
  return c;
}

void fill_scores(const ScoreTable& table, const ContrastOptions& options, Contrasts& result) {
  const auto groups = static_cast<std::size_t>(options.modulus);
  const GroupTotals sums = group_totals(table, options.modulus);
  std::vector<GroupMoments> moments(groups);
  Totals totals{.count = static_cast<double>(table.cells())};
  std::vector<bool> seen;
  for (std::size_t g = 0; g < groups; ++g) {
    moments[g] = {.n = sums.n[g], .mean = group_mean(sums, g).value_or(0)};
    totals.n.push_back(static_cast<double>(sums.n[g]));
    totals.groups += sums.n[g] > 0 ? 1 : 0;
    totals.mean += sums.sum[g] / std::max(1.0, totals.count);
    seen.push_back(sums.n[g] > 0);
  }
  std::vector<double> score = table.score;
  double scale = 0;
  for (std::size_t c = 0; c < score.size(); ++c) {
    GroupMoments& m = moments[static_cast<std::size_t>(table.position[c] % options.modulus)];
    m.variance += (score[c] - m.mean) * (score[c] - m.mean) / static_cast<double>(m.n - 1);
    score[c] -= totals.mean;
    totals.squares += score[c] * score[c];
    scale += table.score[c] * table.score[c];
  }
  if (!(totals.squares > 1e-20 * scale)) totals.squares = 0;
  for (GroupMoments& m : moments) {
    if (m.n < 2) m.variance = 0;
  }
  const std::int64_t permutations = affordable(options.permutations, score.size());
  result.test.method = "(N-1) SSB/SST of the group means" + deals(permutations);
  totals.mean = 0;  // of the centred scores
  if (testable(totals, result.test)) {
    std::vector<double> dealt(groups);
    const auto add_up = [&]() -> const std::vector<double>& {
      std::ranges::fill(dealt, 0.0);
      for (std::size_t c = 0; c < score.size(); ++c) {
        dealt[static_cast<std::size_t>(table.position[c] % options.modulus)] += score[c];
      }
      return dealt;
    };
    const double observed = totals.statistic(add_up());
    const auto deal = [&](base::Random& random) -> const std::vector<double>& {
      fast_shuffle(score, random);
      return add_up();
    };
    test_groups(totals, observed, permutations, deal, options.seed, result.test);
  }
  result.spread = phase_spread(moments);
  result.pairs_method = "Welch's t of two independent groups";
  fill_pairs(
      seen, options,
      [&](std::int64_t a, std::int64_t b, double level) {
        return compare_moments(moments[static_cast<std::size_t>(a)],
                               moments[static_cast<std::size_t>(b)], a, level);
      },
      result);
}

void take_mean(const ClusteredMean& mean, Contrasts& result) {
  result.mean = mean.estimate;
  result.standard_error = mean.standard_error;
}

void test_items(const ScoreTable& table, const ContrastOptions& options, Contrasts& result) {
  const PhaseMatrix matrix = phase_matrix(table, options.modulus);
  const std::int64_t permutations =
      affordable(options.permutations, std::min(matrix.cell.size(), kLargeCells));
  const CochranResult q = cochran_q(matrix, permutations, options.seed);
  result.test = {.statistic = q.q,
                 .p_chi_squared = q.p_chi_squared,
                 .p_permutation = q.p_permutation,
                 .items = q.items,
                 .informative = q.informative,
                 .dropped = q.dropped,
                 .method = q.method,
                 .reason = q.reason};
  if (q.q) result.test.freedom = options.modulus - 1;
  result.spread = phase_spread(matrix);
}

}  // namespace

Contrasts contrast_items(const ScoreTable& table, const ContrastOptions& options) {
  check(options, options.modulus);
  Contrasts result;
  take_mean(clustered_mean(table, options.level), result);
  test_items(table, options, result);  // its table is gone before the next one is made
  const ItemMeans means = item_means(table, options.modulus);
  const bool discordant = means.one_each && is_binary(table);
  std::vector<bool> seen;
  for (const std::int64_t n : group_totals(table, options.modulus).n) seen.push_back(n > 0);
  result.pairs_method = discordant
                            ? "Bonett and Price's interval and McNemar's mid-p of paired items"
                            : "paired t over the items' group means";
  fill_pairs(
      seen, options,
      [&](std::int64_t a, std::int64_t b, double level) {
        return compare_items(means, discordant, a, b, level);
      },
      result);
  return result;
}

Contrasts contrast_prompts(const ScoreTable& table, const ContrastOptions& options) {
  check(options, options.modulus);
  Contrasts result;
  take_mean(clustered_mean(table, options.level), result);
  if (is_binary(table)) {
    fill_counts(counts_of(table, options.modulus), options, result);
  } else {
    fill_scores(table, options, result);
  }
  return result;
}

Contrasts contrast_counts(const ResidueCounts& counts, const ContrastOptions& options) {
  check_counts(counts, "stats.contrasts");
  check(options, counts.modulus());
  Contrasts result;
  const std::int64_t n = total_n(counts);
  result.mean = wilson(total_correct(counts), n, options.level);
  result.mean.method = "Wilson, prompts taken as independent";
  const GroupMoments all = moments_of_share(total_correct(counts), n);
  if (n > 1 && all.variance > 0) {
    result.standard_error = std::sqrt(all.variance / static_cast<double>(n));
  } else if (n > 0) {
    result.mean.reason =
        n == 1 ? "one prompt: no standard error" : "all replies are alike: no standard error";
  }
  fill_counts(counts, options, result);
  return result;
}

double fisher_mid_p(std::int64_t correct_a, std::int64_t n_a, std::int64_t correct_b,
                    std::int64_t n_b) {
  if (correct_a < 0 || correct_b < 0 || correct_a > n_a || correct_b > n_b) {
    throw base::usage_error("stats.contrasts", "expected 0 <= correct <= n, got {} of {}, {} of {}",
                            correct_a, n_a, correct_b, n_b);
  }
  if (n_a == 0 || n_b == 0) return 1;
  const std::int64_t right = correct_a + correct_b;
  const std::int64_t low = std::max<std::int64_t>(0, right - n_b);
  const std::int64_t high = std::min(n_a, right);
  const auto choose = [](std::int64_t n, std::int64_t k) {
    const auto f = [](std::int64_t x) { return std::lgamma(static_cast<double>(x) + 1); };
    return f(n) - f(k) - f(n - k);
  };
  const double mass =
      std::exp(choose(n_a, correct_a) + choose(n_b, correct_b) - choose(n_a + n_b, right));
  // Chance of k + 1 right in a, over that of k.
  const auto ratio = [&](std::int64_t k) {
    return static_cast<double>(n_a - k) * static_cast<double>(right - k) /
           (static_cast<double>(k + 1) * static_cast<double>(n_b - right + k + 1));
  };
  double above = 0;
  double term = mass;
  for (std::int64_t k = correct_a; k < high && term > 1e-17 * mass; ++k) {
    term *= ratio(k);
    above += term;
  }
  double below = 0;
  term = mass;
  for (std::int64_t k = correct_a; k > low && term > 1e-17 * mass; --k) {
    term /= ratio(k - 1);
    below += term;
  }
  return std::min(1.0, 2 * (std::min(above, below) + mass / 2));
}

}  // namespace kvphase::stats
