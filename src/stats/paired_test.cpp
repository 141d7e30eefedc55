#include "stats/paired.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <utility>

#include "base/error.h"
#include "base/random.h"

namespace kvphase::stats {
namespace {

TEST(Paired, PhaseMatrixAveragesCellsAndDropsItemsThatMissAPhase) {
  const auto m = phase_matrix(
      make_score_table(
          {{0, 0, 1}, {0, 1, 0}, {0, 2, 0}, {0, 3, 0}, {1, 4, 1}, {2, 4, 1}, {2, 5, 1}}),
      2);
  EXPECT_EQ(m.dropped, 1);
  EXPECT_THAT(m.cell, testing::ElementsAre(0.5, 0, 1, 1));
}

TEST(Paired, ClusteredStandardErrorFollowsItsFormula) {
  // Items of sums of deviations -1, 0, 1 around the mean 0.5: SE = sqrt(3/2 * 2) / 6.
  const auto r = clustered_mean(
      make_score_table({{0, 0, 0}, {0, 1, 0}, {1, 0, 1}, {1, 1, 0}, {2, 0, 1}, {2, 1, 1}}));
  EXPECT_DOUBLE_EQ(*r.estimate.value, 0.5);
  EXPECT_NEAR(*r.standard_error, std::sqrt(3.0) / 6, 1e-12);
  // One observation per item: the ordinary standard error of a mean.
  const auto plain = clustered_mean(make_score_table({{0, 0, 1}, {1, 0, 2}, {2, 0, 6}}));
  EXPECT_NEAR(*plain.standard_error, std::sqrt(7.0 / 3), 1e-12);
  EXPECT_FALSE(clustered_mean(make_score_table({{0, 0, 1}})).standard_error);
  EXPECT_FALSE(clustered_mean(make_score_table({})).estimate.value);
}

TEST(Paired, McNemarMidPAgreesWithTheTable) {
  struct Row {
    std::int64_t b, c;
    double p;
  };
  for (const Row& r : {Row{0, 5, .0313}, Row{0, 6, .0156}, Row{1, 7, .0391}, Row{2, 10, .0225},
                       Row{0, 8, .0039}}) {
    EXPECT_NEAR(mcnemar_mid_p(r.b, r.c), r.p, 6e-5) << r.b << "/" << r.c;
    EXPECT_EQ(mcnemar_mid_p(r.b, r.c), mcnemar_mid_p(r.c, r.b));
  }
  EXPECT_EQ(mcnemar_mid_p(0, 0), 1);
  EXPECT_NEAR(mcnemar_mid_p(1, 1), 0.75, 1e-12);
  EXPECT_THROW(mcnemar_mid_p(-1, 2), base::Error);
}

TEST(Paired, McNemarEValueAgreesWithTheTable) {
  EXPECT_NEAR(mcnemar_e_value(0, 5), 7.9, 0.05);
  EXPECT_NEAR(mcnemar_e_value(0, 6), 14.4, 0.05);
  EXPECT_NEAR(mcnemar_e_value(0, 7), 26.8, 0.05);
  EXPECT_NEAR(mcnemar_e_value(1, 10), 16.4, 0.05);
  EXPECT_DOUBLE_EQ(mcnemar_e_value(0, 0), 1);
}

TEST(Paired, HolmStepsDownAndKeepsTheOrder) {
  EXPECT_THAT(holm(std::vector<double>{0.04, 0.01, 0.03}),
              testing::ElementsAre(testing::DoubleEq(0.06), testing::DoubleEq(0.03),
                                   testing::DoubleEq(0.06)));
  EXPECT_THAT(holm(std::vector<double>{0.9, 0.8}), testing::ElementsAre(1, 1));
  EXPECT_TRUE(holm({}).empty());
}

TEST(Paired, DifferencesFollowTheirFormulas) {
  const Estimate bp = bonett_price_difference(12, 4, 50);
  EXPECT_DOUBLE_EQ(*bp.value, 0.16);
  EXPECT_NEAR((*bp.low + *bp.high) / 2, 8.0 / 52, 1e-12) << "centred on the adjusted counts";
  const double se = std::sqrt(18 - 64.0 / 52) / 52;
  EXPECT_NEAR(*bp.high - *bp.low, 2 * 1.959964 * se, 1e-6);
  const Estimate flat = bonett_price_difference(0, 0, 10);
  EXPECT_EQ(*flat.value, 0);
  EXPECT_LT(*flat.low, 0) << "no discordant pair is no proof of equality";
  EXPECT_FALSE(bonett_price_difference(0, 0, 0).value);
  EXPECT_THROW(bonett_price_difference(3, 3, 5), base::Error);
}

TEST(Paired, PhaseDifferencePairsInsideItems) {
  const auto t = make_score_table(
      {{0, 0, 5}, {0, 1, 4}, {1, 0, 105}, {1, 1, 102}, {2, 0, -3}, {2, 1, -5}, {3, 0, 1}});
  const Estimate d = phase_difference(t, 2, 0, 1);
  EXPECT_EQ(d.n, 3) << "item 3 has no partner";
  EXPECT_DOUBLE_EQ(*d.value, 2);
  EXPECT_NEAR(*d.high - *d.low, 2 * 4.302653 * std::sqrt(1.0 / 3), 1e-5);
  EXPECT_FALSE(phase_difference(t, 4, 2, 3).value);
  EXPECT_THROW(phase_difference(t, 2, 0, 2), base::Error);
}

TEST(Paired, CochranEqualsItsTextbookForm) {
  base::Random random(3);
  PhaseMatrix m{.phases = 4, .cell = {}};
  for (int i = 0; i < 40; ++i) {
    for (int p = 0; p < 4; ++p) m.cell.push_back(random.uniform() < 0.5 + 0.1 * p ? 1.0 : 0.0);
  }
  std::vector<double> t(4);
  double rows = 0;
  double squares = 0;
  for (std::size_t i = 0; i < m.items(); ++i) {
    double row = 0;
    for (std::size_t p = 0; p < 4; ++p) {
      t[p] += m.row(i)[p];
      row += m.row(i)[p];
    }
    rows += row;
    squares += row * row;
  }
  double between = 0;
  for (const double x : t) between += (x - rows / 4) * (x - rows / 4);
  const auto r = cochran_q(m, 4000);
  EXPECT_NEAR(*r.q, 4 * 3 * between / (4 * rows - squares), 1e-9);
  EXPECT_NEAR(*r.p_permutation, *r.p_chi_squared, 0.03);
}

// Of 400 sets without common phases, how often each p is at most 0.05: items with patterns of their
// own that repeat three times inside the phases.
std::pair<int, int> cochran_rejects(int items) {
  int chi_squared = 0;
  int shifted = 0;
  for (std::uint64_t run = 0; run < 400; ++run) {
    base::Random random(base::derive_seed(4, "run", {run}));
    PhaseMatrix m{.phases = 24, .cell = {}};
    for (int i = 0; i < items; ++i) {
      const auto weak = random.uniform_index(8);
      for (std::size_t p = 0; p < m.phases; ++p) {
        m.cell.push_back(random.uniform() < (p % 8 == weak ? 0.05 : 0.95) ? 1.0 : 0.0);
      }
    }
    const auto r = cochran_q(m, 199, run);
    chi_squared += *r.p_chi_squared <= 0.05 ? 1 : 0;
    shifted += *r.p_permutation <= 0.05 ? 1 : 0;
  }
  std::printf("%d items: chi-squared rejects in %.3f, shifted items in %.3f\n", items,
              chi_squared / 400.0, shifted / 400.0);
  return {chi_squared, shifted};
}

TEST(Paired, CochransQTakesItemsAsUnits) {
  const auto [chi_squared, shifted] = cochran_rejects(30);
  EXPECT_GT(chi_squared, 40) << "10 %: answers a cycle apart go together";
  EXPECT_LE(shifted, 34) << "8.5 %";
}

TEST(Paired, CochransQSaysWhatItDraws) {
  PhaseMatrix m{.phases = 4, .cell = {}};
  const auto add = [&](int rows) {
    for (int i = 0; i < rows; ++i) {
      m.cell.insert(m.cell.end(), {1, i % 3 == 0 ? 1.0 : 0.0, 0, 1});
    }
  };
  add(8);
  EXPECT_EQ(cochran_q(m, 50).method,
            "Cochran's Q over 4 phases, 50 permutations inside items (8 that vary: too few to "
            "shift)");
  add(1);
  EXPECT_EQ(cochran_q(m, 50).method, "Cochran's Q over 4 phases, 50 random shifts of whole items");
}

TEST(Paired, CochransQOfManyItemsDrawsFromASample) {
  // 32,000 rows of 8 phases, every other one right: two phases in truth, so that chi-squared is
  // wrong, however many items there are.
  int chi_squared = 0;
  int sampled = 0;
  for (std::uint64_t run = 0; run < 100; ++run) {
    base::Random random(base::derive_seed(5, "run", {run}));
    PhaseMatrix m{.phases = 8, .cell = {}};
    for (int i = 0; i < 32'000; ++i) {
      const double even = random.uniform() < 0.5 ? 1 : 0;
      for (int g = 0; g < 8; ++g) m.cell.push_back(g % 2 == 0 ? even : 1 - even);
    }
    const auto r = cochran_q(m, 199, run);
    EXPECT_THAT(r.method, testing::HasSubstr("random sample of"));
    chi_squared += *r.p_chi_squared <= 0.05 ? 1 : 0;
    sampled += *r.p_permutation <= 0.05 ? 1 : 0;
  }
  std::printf("of 100: chi-squared rejects in %d, shifted items in %d\n", chi_squared, sampled);
  EXPECT_GT(chi_squared, 8);
  EXPECT_LE(sampled, 11);
}

TEST(Paired, CochranOfTwoPhasesIsMcNemar) {
  // 7 items right only at phase 1, 1 only at phase 0, 5 concordant: Q = (7-1)^2/8.
  PhaseMatrix m{.phases = 2, .cell = {}};
  for (int i = 0; i < 7; ++i) m.cell.insert(m.cell.end(), {0, 1});
  m.cell.insert(m.cell.end(), {1, 0});
  for (int i = 0; i < 5; ++i) m.cell.insert(m.cell.end(), {1, 1});
  const auto r = cochran_q(m, 20000);
  EXPECT_DOUBLE_EQ(*r.q, 4.5);
  EXPECT_EQ(r.informative, 8);
  EXPECT_NEAR(*r.p_permutation, 18.0 / 256, 0.006) << "2 P(at most 1 of 8)";
  const auto unpermuted = cochran_q(m, 0);
  EXPECT_EQ(unpermuted.q, r.q);
  EXPECT_FALSE(unpermuted.p_permutation);
}

TEST(Paired, CochranWithoutDiscordantItemsSaysSo) {
  const auto r = cochran_q({.phases = 2, .cell = {1, 1, 0, 0}});
  EXPECT_EQ(*r.p_permutation, 1);
  EXPECT_FALSE(r.q);
  EXPECT_EQ(r.reason, "no discordant item");
  EXPECT_FALSE(cochran_q({.phases = 2, .cell = {}}).p_permutation);
  EXPECT_FALSE(cochran_q({.phases = 1, .cell = {1, 0}}).p_permutation);
}

TEST(Paired, NewcombeEqualsThePublishedExamples) {
  // Newcombe (1998), table II, method 10: 56/70 against 48/80, and 10/10 against 0/10.
  const auto a = newcombe_difference(56, 70, 48, 80);
  EXPECT_NEAR(*a.low, 0.0524, 5e-5);
  EXPECT_NEAR(*a.high, 0.3339, 5e-5);
  const auto b = newcombe_difference(10, 10, 0, 10);
  EXPECT_NEAR(*b.low, 0.6075, 5e-5);
  EXPECT_NEAR(*b.high, 1.0, 5e-5);
  EXPECT_FALSE(newcombe_difference(0, 0, 1, 2).value);
}

TEST(Paired, NoDifferenceHasAnIntervalWithoutWidth) {
  std::vector<ScoreRow> right, split, margins;
  for (std::int64_t i = 0; i < 6; ++i) {
    for (std::int64_t k = 0; k < 2; ++k) {
      right.push_back({i, k, 1});
      split.push_back({i, k, k == 0 ? 1.0 : 0.0});
      margins.push_back({i, k, 0.25 * static_cast<double>(k)});
    }
  }
  for (const auto& rows : {right, split}) {
    const auto e = phase_difference(make_score_table(rows), 2, 0, 1);
    EXPECT_LT(*e.low, *e.high) << e.method;
    EXPECT_LE(*e.low, *e.value);
    EXPECT_GE(*e.high, *e.value);
    const auto u = unpaired_difference(make_score_table(rows), 2, 0, 1);
    EXPECT_LT(*u.low, *u.high) << u.method;
  }
  const auto same = phase_difference(make_score_table(margins), 2, 1, 0);
  EXPECT_EQ(*same.value, 0.25);
  EXPECT_FALSE(same.low) << same.method;
  EXPECT_FALSE(same.reason.empty());
  EXPECT_FALSE(unpaired_difference(make_score_table(margins), 2, 1, 0).low);
  EXPECT_FALSE(clustered_mean(make_score_table(right)).estimate.low);
  EXPECT_FALSE(clustered_mean(make_score_table(right)).standard_error);
}

}  // namespace
}  // namespace kvphase::stats
