#include "stats/contrasts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "base/random.h"

namespace kvphase::stats {
namespace {

// Right/wrong items with intercepts of SD 1; `repeats` prompts per item and phase of 4.
ScoreTable audit(int items, int repeats, double drop, std::uint64_t seed, double keep = 1) {
  base::Random random(seed);
  std::vector<ScoreRow> rows;
  for (int i = 0; i < items; ++i) {
    const double item = random.normal();
    for (int k = 0; k < 4 * repeats; ++k) {
      const double p = 1 / (1 + std::exp(-1 - item)) - (k % 4 == 3 ? drop : 0);
      const double score = random.uniform() < p ? 1 : 0;
      if (random.uniform() < keep) rows.push_back({i, k, score});
    }
  }
  return make_score_table(std::move(rows));
}

TEST(Contrasts, PairedItemsUseMcNemarBonettPriceAndHolm) {
  // 7 items right only at phase 1, 1 only at phase 0, 5 concordant.
  std::vector<ScoreRow> rows;
  for (std::int64_t i = 0; i < 13; ++i) {
    rows.push_back({i, 0, i == 7 || i > 7 ? 1.0 : 0.0});
    rows.push_back({i, 1, i == 7 ? 0.0 : 1.0});
  }
  const auto c = contrast_items(make_score_table(rows), {.modulus = 2, .reference = 0});
  ASSERT_EQ(c.pairs.size(), 1U);
  EXPECT_EQ(c.pairs[0].group, 1);
  EXPECT_EQ(c.pairs[0].only_group, 7);
  EXPECT_EQ(c.pairs[0].only_reference, 1);
  EXPECT_NEAR(*c.pairs[0].p, .0391, 5e-5);
  EXPECT_EQ(c.pairs[0].p_holm, c.pairs[0].p) << "one pair has no price";
  const Estimate bp = bonett_price_difference(7, 1, 13);
  EXPECT_DOUBLE_EQ(*c.pairs[0].difference.low, *bp.low);
  EXPECT_DOUBLE_EQ(*c.pairs[0].difference.value, 6.0 / 13);
  EXPECT_DOUBLE_EQ(*c.test.statistic, 4.5);
  EXPECT_EQ(c.test.informative, 8);
}

TEST(Contrasts, HolmPaysForAllPairsBecauseTheWorstWasChosen) {
  const auto table = audit(60, 1, 0.4, 3);
  const auto c = contrast_items(table, {.modulus = 4, .reference = 3});
  ASSERT_EQ(c.pairs.size(), 3U);
  for (const Contrast& pair : c.pairs) {
    EXPECT_GE(*pair.p_holm, *pair.p);
    EXPECT_LE(*pair.p_holm, 6 * *pair.p + 1e-15);
    EXPECT_NEAR(pair.difference.level, 1 - 0.05 / 6, 1e-12);
    EXPECT_LT(*pair.difference.low, *pair.difference.value);
  }
  const double least = std::min({*c.pairs[0].p, *c.pairs[1].p, *c.pairs[2].p});
  const double least_holm = std::min({*c.pairs[0].p_holm, *c.pairs[1].p_holm, *c.pairs[2].p_holm});
  EXPECT_NEAR(least_holm, 6 * least, 1e-12) << "6 pairs, not the 3 that are shown";
  EXPECT_THAT(c.pairs_method, testing::HasSubstr("all 6 pairs"));
}

TEST(Contrasts, HoldTheirLevelWhenTheWorstPhaseIsChosenFromEqualOnes) {
  // Any pair of the chosen worst significant after Holm, any interval without 0, and the test over
  // all groups: each in at most 5 % of audits without phases. Paired, repeated and unpaired
  // prompts.
  for (const int kind : {0, 1, 2}) {
    int holm = 0, interval = 0, chi = 0, permuted = 0;
    constexpr int kRuns = 400;
    for (int run = 0; run < kRuns; ++run) {
      const auto table = audit(40, kind == 1 ? 3 : 1, 0, 100 + static_cast<std::uint64_t>(run));
      const auto totals = group_totals(table, 4);
      std::int64_t worst = 0;
      for (std::int64_t g = 1; g < 4; ++g) {
        if (*group_mean(totals, static_cast<std::size_t>(g)) <
            *group_mean(totals, static_cast<std::size_t>(worst))) {
          worst = g;
        }
      }
      const ContrastOptions options{.modulus = 4, .reference = worst, .permutations = 199};
      const auto c = kind == 2 ? contrast_prompts(table, options) : contrast_items(table, options);
      holm += std::ranges::any_of(c.pairs, [](const auto& p) { return p.p_holm <= 0.05; });
      interval +=
          std::ranges::any_of(c.pairs, [](const auto& p) { return p.difference.low > 0.0; });
      chi += c.test.p_chi_squared <= 0.05;
      permuted += c.test.p_permutation <= 0.05;
    }
    EXPECT_LE(holm, 0.075 * kRuns) << kind;
    EXPECT_LE(interval, 0.075 * kRuns) << kind;
    EXPECT_LE(chi, 0.085 * kRuns) << kind;
    EXPECT_LE(permuted, 0.085 * kRuns) << kind;
    if (kind < 2) {
      EXPECT_GE(permuted, 0.02 * kRuns) << kind;
    }
  }
}

TEST(Contrasts, ItemsThatMissAGroupStayInTheirOtherPairs) {
  const auto c = contrast_items(audit(80, 1, 0.4, 5, 0.8), {.modulus = 4, .reference = 3});
  EXPECT_GT(c.test.dropped, 20);
  EXPECT_LE(std::abs(c.test.items + c.test.dropped - 79), 1) << "an item may have no reply at all";
  for (const Contrast& pair : c.pairs) {
    EXPECT_GT(pair.difference.n, c.test.items) << "pairs need two groups, not four";
  }
}

TEST(Contrasts, SeveralPromptsPerPhaseUseThePairedT) {
  const auto table = audit(30, 3, 0.4, 6);
  const auto c = contrast_items(table, {.modulus = 4, .reference = 3, .level = 0.9});
  const Estimate t = phase_difference(table, 4, 1, 3, 1 - 0.1 / 6);
  EXPECT_DOUBLE_EQ(*c.pairs[1].difference.value, *t.value);
  EXPECT_NEAR(*c.pairs[1].difference.low, *t.low, 1e-12);
  EXPECT_FALSE(c.pairs[1].only_group);
  EXPECT_THAT(c.pairs_method, testing::StartsWith("paired t"));
}

TEST(Contrasts, CountsAndUnpairedRightWrongPromptsAgree) {
  const auto table = audit(50, 1, 0.3, 8);
  const ContrastOptions options{.modulus = 4, .reference = 3, .permutations = 500};
  const auto prompts = contrast_prompts(table, options);
  const auto counts = contrast_counts(counts_of(table, 4), options);
  EXPECT_EQ(prompts.test.statistic, counts.test.statistic);
  EXPECT_EQ(prompts.test.p_permutation, counts.test.p_permutation);
  EXPECT_EQ(prompts.spread.sd, counts.spread.sd);
  EXPECT_EQ(prompts.pairs[0].p_holm, counts.pairs[0].p_holm);
  EXPECT_EQ(prompts.pairs[0].difference.low, counts.pairs[0].difference.low);
}

TEST(Contrasts, ChiSquaredOfCountsEqualsPearsons) {
  // 2 x 3 table by hand: expected 10 right of 20 in each group; (4^2 + 2^2 + 6^2) / 10 * 2 = 11.2.
  const ResidueCounts counts{.correct = {14, 12, 4}, .n = {20, 20, 20}};
  const auto c = contrast_counts(counts, {.reference = 2});
  EXPECT_NEAR(*c.test.statistic, 11.2 * 59 / 60, 1e-12);
  EXPECT_EQ(c.test.freedom, 2);
  EXPECT_NEAR(*c.test.p_chi_squared, std::exp(-11.2 * 59 / 120), 1e-12);
  EXPECT_NEAR(*c.test.p_permutation, *c.test.p_chi_squared, 0.004);
  EXPECT_NEAR(*c.standard_error, std::sqrt(0.25 / 59), 1e-12);
}

TEST(Contrasts, FisherMidPAgreesWithTheExactTables) {
  // Tea tasting, 3 of 4 against 1 of 4: P(X >= 3) = 17/70, P(X = 3) = 16/70.
  EXPECT_NEAR(fisher_mid_p(3, 4, 1, 4), 2 * (17.0 - 8) / 70, 1e-12);
  EXPECT_NEAR(fisher_mid_p(2, 4, 2, 4), 1, 1e-12);
  EXPECT_EQ(fisher_mid_p(0, 0, 2, 4), 1);
  EXPECT_EQ(fisher_mid_p(4, 4, 4, 4), 1) << "one possible table only";
  EXPECT_NEAR(fisher_mid_p(4, 4, 0, 4), 1.0 / 70, 1e-12);
  EXPECT_NEAR(fisher_mid_p(1, 9, 5, 7), fisher_mid_p(5, 7, 1, 9), 1e-12);
  // Large samples: the normal approximation of 0.51 against 0.49 at n = 1e6 each, z = 28.3.
  EXPECT_NEAR(std::log10(fisher_mid_p(510'000, 1'000'000, 490'000, 1'000'000)), -175, 2);
  EXPECT_NEAR(fisher_mid_p(500'700, 1'000'000, 499'300, 1'000'000), 0.0477, 0.001);
  EXPECT_THROW(fisher_mid_p(3, 2, 0, 1), base::Error);
}

TEST(Contrasts, ContinuousPromptsUseWelch) {
  base::Random random(9);
  std::vector<ScoreRow> rows;
  for (std::int64_t i = 0; i < 120; ++i)
    rows.push_back({i, i, random.normal() + (i % 3 == 2 ? -1 : 0)});
  const auto table = make_score_table(rows);
  const auto c = contrast_prompts(table, {.modulus = 3, .reference = 2, .permutations = 999});
  const Estimate welch = unpaired_difference(table, 3, 0, 2, 1 - 0.05 / 3);
  EXPECT_NEAR(*c.pairs[0].difference.low, *welch.low, 1e-9);
  EXPECT_NEAR(*c.pairs[0].difference.high, *welch.high, 1e-9);
  EXPECT_LE(*c.test.p_permutation, 0.01);
  EXPECT_NEAR(*c.spread.standard_error, 1 / std::sqrt(40.0), 0.03);
  EXPECT_FALSE(c.spread.shrinkage);
}

TEST(Contrasts, AreDefinedOrExplainedForTinyAndConstantData) {
  const auto explained = [](const Contrasts& c, const std::string& what) {
    EXPECT_TRUE(c.mean.value || !c.mean.reason.empty()) << what;
    EXPECT_TRUE(c.standard_error || !c.mean.reason.empty()) << what;
    EXPECT_TRUE(c.test.statistic || !c.test.reason.empty()) << what;
    EXPECT_TRUE(c.spread.sd || !c.spread.reason.empty()) << what;
    EXPECT_TRUE(!c.pairs.empty() || !c.pairs_reason.empty()) << what;
    for (const Contrast& pair : c.pairs) {
      EXPECT_TRUE((pair.difference.low && pair.p) || !pair.difference.reason.empty()) << what;
      if (pair.difference.low) {
        EXPECT_LT(*pair.difference.low, *pair.difference.high) << what;
      }
      for (const auto& p : {pair.p, pair.p_holm}) EXPECT_FALSE(p && !(*p >= 0 && *p <= 1)) << what;
    }
  };
  for (const int items : {0, 1, 2, 3}) {
    for (const int kind : {0, 1, 2, 3, 4}) {
      std::vector<ScoreRow> rows;
      for (std::int64_t i = 0; i < items; ++i) {
        for (std::int64_t k = 0; k < 4; ++k) {
          if (kind == 3 && k == 2) continue;  // a phase without prompts
          const double score = kind == 0   ? 1
                               : kind == 1 ? (k == 3 ? 0 : 1)
                               : kind == 2 ? 0.25 * static_cast<double>(k)
                                           : static_cast<double>((i + k) % 2);
          rows.push_back({kind == 4 ? 4 * i + k : i, k, score});
        }
      }
      const auto table = make_score_table(rows);
      const ContrastOptions options{.modulus = 4, .reference = 3, .permutations = 50};
      const std::string what = std::to_string(items) + " items, kind " + std::to_string(kind);
      explained(contrast_items(table, options), what + ", paired");
      explained(contrast_prompts(table, options), what + ", unpaired");
      if (is_binary(table)) {
        explained(contrast_counts(counts_of(table, 4), options), what + ", counts");
      }
    }
  }
}

TEST(Contrasts, LargeTablesAreNotPermuted) {
  const auto c =
      contrast_counts({.correct = {200'000, 199'000}, .n = {250'000, 250'000}}, {.reference = 1});
  EXPECT_FALSE(c.test.p_permutation);
  EXPECT_THAT(c.test.reason, testing::HasSubstr("no permutations"));
  EXPECT_LT(*c.test.p_chi_squared, 0.01);
}

TEST(Contrasts, ManyGroupsAreNotPaired) {
  ResidueCounts counts;
  for (int g = 0; g < 70; ++g) {
    counts.correct.push_back(g % 7);
    counts.n.push_back(10);
  }
  EXPECT_THAT(contrast_counts(counts, {.reference = 0}).pairs_reason,
              testing::HasSubstr("70 groups"));
  EXPECT_THROW(contrast_counts(counts, {.reference = 70}), base::Error);
}

}  // namespace
}  // namespace kvphase::stats
