#include "audit/overlap.h"

#include <algorithm>
#include <bit>
#include <boost/math/distributions/binomial.hpp>
#include <cmath>
#include <numbers>
#include <vector>

namespace kvphase::audit {
namespace {

using record::Dataset;
using record::ScoreRows;

// P(X >= k), X ~ Binomial(n, chance).
double tail(std::int64_t k, std::int64_t n, double chance) {
  if (k <= 0 || chance >= 1) return 1;
  const boost::math::binomial_distribution<> binomial(static_cast<double>(n), chance);
  return boost::math::cdf(boost::math::complement(binomial, static_cast<double>(k - 1)));
}

std::uint64_t mix(std::uint64_t hash, std::uint64_t value) {  // splitmix64
  hash += value + 0x9E3779B97F4A7C15ULL;
  hash = (hash ^ (hash >> 30)) * 0xBF58476D1CE4E5B9ULL;
  hash = (hash ^ (hash >> 27)) * 0x94D049BB133111EBULL;
  return hash ^ (hash >> 31);
}

struct Patterns {
  std::vector<std::uint64_t> telling;  // that one item has, ascending
  std::int64_t items = 0;
  std::int64_t twice = 0;  // patterns of exactly two items
};

// rows must be prepared: item by item, by position.
Patterns patterns_of(const ScoreRows& rows) {
  std::vector<std::uint64_t> all;
  for (std::size_t i = 0; i < rows.size();) {
    const std::size_t start = i;
    std::uint64_t hash = 0;
    for (; i < rows.size() && rows.item[i] == rows.item[start]; ++i) {
      hash = mix(hash, static_cast<std::uint64_t>(rows.position[i] - rows.position[start]));
      hash = mix(hash, static_cast<std::uint64_t>(static_cast<std::int64_t>(rows.reply[i])));
      for (const auto* column : {&rows.score, &rows.logprob, &rows.margin}) {
        if (!column->empty()) hash = mix(hash, std::bit_cast<std::uint32_t>((*column)[i]));
      }
    }
    all.push_back(hash);
  }
  std::ranges::sort(all);
  Patterns patterns{.items = std::ssize(all)};
  for (std::size_t i = 0; i < all.size();) {
    const std::size_t start = i;
    while (i < all.size() && all[i] == all[start]) ++i;
    if (i - start == 1) patterns.telling.push_back(all[start]);
    patterns.twice += i - start == 2 ? 1 : 0;
  }
  return patterns;
}

std::optional<Overlap> of_rows(const ScoreRows& first, const ScoreRows& fresh) {
  const Patterns a = patterns_of(first);
  const Patterns b = patterns_of(fresh);
  std::vector<std::uint64_t> both;
  std::ranges::set_intersection(a.telling, b.telling, std::back_inserter(both));
  if (both.empty()) return std::nullopt;
  const auto chance_of = [](const Patterns& p) {
    return static_cast<double>(2 * p.twice + 1) / static_cast<double>(p.items);
  };
  const double chance = std::min(1.0, std::max(chance_of(a), chance_of(b)));
  return Overlap{.alike = std::ssize(both),
                 .of = b.items,
                 .expected = chance * static_cast<double>(b.items),
                 .p = tail(std::ssize(both), b.items, chance)};
}

std::optional<Overlap> of_counts(const record::CountsTable& first,
                                 const record::CountsTable& fresh) {
  if (first.modulus != fresh.modulus) return std::nullopt;
  Overlap overlap;
  for (std::size_t r = 0; r < first.n.size(); ++r) {
    if (fresh.n[r] == 0) continue;
    ++overlap.of;
    const auto n = static_cast<double>(fresh.n[r]);
    const double p = static_cast<double>(fresh.correct[r]) / n;
    const double sd = std::sqrt(n * p * (1 - p));
    overlap.expected += std::min(1.0, 1 / (2 * std::sqrt(std::numbers::pi) * std::max(sd, 1e-9)));
    overlap.alike += first.n[r] == fresh.n[r] && first.correct[r] == fresh.correct[r] ? 1 : 0;
  }
  if (overlap.alike == 0) return std::nullopt;
  // A sum of unequal chances varies less than a binomial of their mean (Hoeffding 1956).
  overlap.p = tail(overlap.alike, overlap.of, overlap.expected / static_cast<double>(overlap.of));
  return overlap;
}

}  // namespace

std::optional<Overlap> find_overlap(const Dataset& first, const Dataset& fresh) {
  if (first.rows && fresh.rows) return of_rows(*first.rows, *fresh.rows);
  if (first.counts && fresh.counts) return of_counts(*first.counts, *fresh.counts);
  return std::nullopt;
}

}  // namespace kvphase::audit
