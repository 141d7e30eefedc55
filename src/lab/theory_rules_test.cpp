// Theorem 1, small; and that the search would find a better rule where there is one.
#include "lab/theory_rules.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

namespace kvphase::lab {
namespace {

TEST(TheoryRules, BestOneHotAssignmentGivesEveryHeadAPositionOfItsOwn) {
  for (const std::int64_t heads : {1, 3, 5}) {
    const TheorySetting s = {.stride = 6, .heads = heads, .vocabulary = 256};
    std::vector<std::int64_t> distinct(static_cast<std::size_t>(heads));
    std::iota(distinct.begin(), distinct.end(), 0);
    const OneHotRange range = one_hot_range(s);
    EXPECT_EQ(range.best, distinct);
    const std::vector<std::int64_t> same(static_cast<std::size_t>(heads), 0);
    EXPECT_NEAR(range.worst_loss, static_loss(s, one_hot(s, same)), 1e-14);
    const bool alike = range.best_loss == range.worst_loss;
    EXPECT_EQ(alike, heads == 1);
  }
}

TEST(TheoryRules, RandomRulesLieOnTheSimplexWithTheMeanOfTheirDistribution) {
  base::Random random(1);
  const TheorySetting s = {.stride = 4, .heads = 1};
  for (const double concentration : {0.05, 1.0, 5.0}) {
    double squares = 0;
    constexpr int kDraws = 4000;
    for (int i = 0; i < kDraws; ++i) {
      const Coefficients p = random_rule(s, 1, concentration, random);
      EXPECT_NEAR(p[0] + p[1] + p[2] + p[3], 1, 1e-12);
      squares += (p[0] - 0.25) * (p[0] - 0.25) / kDraws;
    }
    const double variance = 0.25 * 0.75 / (4 * concentration + 1);  // of a Dirichlet coordinate
    fmt::print("concentration {}: variance {:.5f}, expected {:.5f}\n", concentration, squares,
               variance);
    EXPECT_NEAR(squares, variance, 0.1 * variance);
  }
}

TEST(TheoryRules, ProjectionIsTheNearestPointOfTheSimplex) {
  std::vector<double> rows = {0.5, 0.5, 0.5, 2, 0, -1, 0.2, 0.3, 0.5};
  project_rows(rows, 3);
  const std::vector<double> expected = {1.0 / 3, 1.0 / 3, 1.0 / 3, 1, 0, 0, 0.2, 0.3, 0.5};
  for (std::size_t i = 0; i < rows.size(); ++i) EXPECT_NEAR(rows[i], expected[i], 1e-15) << i;
}

TEST(TheoryRules, NoRandomOrOptimisedRuleIsBelowTheBestOneHotAssignment) {
  std::int64_t rules = 0, minima = 0;
  for (const std::int64_t stride : {3, 5, 8}) {
    for (const std::int64_t heads : {std::int64_t{1}, stride - 1}) {
      const TheorySetting s = {.stride = stride, .heads = heads, .chunks = 4, .vocabulary = 256};
      const RuleSearch search = search_rules(s, {.random = 200, .optimised = 4, .seed = 3});
      EXPECT_EQ(search.below, 0) << "S " << stride << ", m " << heads;
      EXPECT_GE(search.lowest_optimised, -1e-12);
      EXPECT_EQ(search.optimised_one_hot, search.optimised);
      EXPECT_GE(search.at_best, heads == 1 ? search.optimised : 0);
      rules += search.random;
      minima += search.optimised;
    }
  }
  fmt::print("{} random rules, {} local minima\n", rules, minima);
}

TEST(TheoryRules, WithLogitsTooLargeForTheVocabularyTheSearchFindsRulesBelowOneHot) {
  // Outside the theorem: beta A(1/2) above log N, so a head may serve two positions by halves.
  const TheorySetting s = {
      .stride = 4, .heads = 1, .chunks = 4, .vocabulary = 256, .beta = 12, .gamma = 8};
  const RuleSearch search = search_rules(s, {.random = 2, .optimised = 8, .seed = 3});
  fmt::print("lowest of {} local minima: {:.3f} nats from one-hot\n", search.optimised,
             search.lowest_optimised);
  EXPECT_LT(search.lowest_optimised, -0.1);
  EXPECT_GT(search.below, 0);
}

TEST(TheoryRules, OneHotStopsBeingALocalMinimumWhereTheDerivationSays) {
  // One head: where moving value mass from its own position's successor to another's gains, at the
  // query for the other, what it costs at its own (docs/theory.md).
  for (const std::int64_t vocabulary : {256, 4096, 65'536}) {
    const TheorySetting s = {.stride = 6, .heads = 1, .chunks = 8, .vocabulary = vocabulary};
    const std::optional<double> found = largest_beta(s);
    ASSERT_TRUE(found);
    const double beta = *found, a = 1 / (1 + 7 * std::exp(-s.gamma)), b = (1 - a) / 7;
    const double rest = static_cast<double>(vocabulary) - 8;
    const double own = rest + std::exp(beta * a) + 7 * std::exp(beta * b);
    const double other = rest + 8 * std::exp(beta / 8);
    const double cost = a - (a * std::expm1(beta * a) + (1 - a) * std::expm1(beta * b)) / own;
    const double gain = 1.0 / 8 + 4 * std::expm1(beta / 8) / other;
    EXPECT_NEAR(cost, gain, 1e-9);
    const double simple = std::log(static_cast<double>(vocabulary) * (8 * a - 1)) / a;
    fmt::print("N {}: largest beta {:.4f}; for a large vocabulary {:.4f}\n", vocabulary, beta,
               simple);
    EXPECT_LT(beta, simple);
    EXPECT_NEAR(beta, simple, 0.25 * std::pow(256.0 / static_cast<double>(vocabulary), 0.7));
    TheorySetting beyond = s;
    beyond.beta = *found + 0.5;
    EXPECT_LT(
        search_rules(beyond, {.random = 2, .optimised = 8, .chunkwise = false}).lowest_optimised,
        -1e-6);
  }
}

}  // namespace
}  // namespace kvphase::lab
