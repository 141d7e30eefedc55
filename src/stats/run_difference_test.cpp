#include "stats/run_difference.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/random.h"
#include "stats/paired.h"

namespace kvphase::stats {
namespace {

// Items x positions prompts; right with the group's chance, moved by what the item and the prompt
// share between the models.
std::vector<PromptPair> simulate(const std::vector<double>& a, const std::vector<double>& b,
                                 std::int64_t items, std::int64_t positions, base::Random& random) {
  std::vector<PromptPair> pairs;
  const auto groups = static_cast<std::int64_t>(a.size());
  for (std::int64_t i = 0; i < items; ++i) {
    const double item = random.normal();
    for (std::int64_t p = 0; p < positions; ++p) {
      const std::int64_t g = p % groups;
      const double prompt = random.normal();
      const auto right = [&](double chance) {
        const double u = 0.5 * std::erfc((item + prompt + random.normal()) / std::sqrt(6.0));
        return u < chance ? 1.0 : 0.0;
      };
      pairs.push_back({.item = i,
                       .group_a = g,
                       .group_b = g,
                       .a = right(a[static_cast<std::size_t>(g)]),
                       .b = right(b[static_cast<std::size_t>(g)])});
    }
  }
  return pairs;
}

double worst(const std::vector<double>& p) { return *std::ranges::min_element(p); }
double gap(const std::vector<double>& p) { return *std::ranges::max_element(p) - worst(p); }

TEST(RunDifference, MeanIsTheClusteredMeanOfTheDifferences) {
  base::Random random(3);
  const auto pairs = simulate({0.9, 0.6, 0.3}, {0.5, 0.5, 0.5}, 40, 6, random);
  const RunDifference found = run_difference(pairs, 3);
  std::vector<ScoreRow> rows;
  std::int64_t position = 0;
  for (const PromptPair& pair : pairs) rows.push_back({pair.item, position++ % 6, pair.a - pair.b});
  const ClusteredMean plain = clustered_mean(make_score_table(std::move(rows)));
  EXPECT_NEAR(*found.mean.estimate.value, *plain.estimate.value, 1e-12);
  EXPECT_NEAR(*found.mean.estimate.low, *plain.estimate.low, 1e-12);
  EXPECT_NEAR(*found.mean.estimate.high, *plain.estimate.high, 1e-12);
  EXPECT_EQ(found.items, 40);
  EXPECT_EQ(found.prompts, 240);
  EXPECT_DOUBLE_EQ(*found.p_items, mcnemar_mid_p(found.items_for_a, found.items_for_b));
}

TEST(RunDifference, SeparatesAWeakPhaseFromAFlatControlOfTheSameMean) {
  base::Random random(5);
  const auto pairs = simulate({0.7, 0.7, 0.7, 0.1}, {0.55, 0.55, 0.55, 0.55}, 200, 8, random);
  const RunDifference found = run_difference(pairs, 4);
  fmt::print("worst {:.3f} [{:.3f}, {:.3f}] p {:.2g}; gap {:.3f} [{:.3f}, {:.3f}] p {:.2g}\n",
             *found.worst.estimate.value, *found.worst.estimate.low, *found.worst.estimate.high,
             *found.worst.p, *found.gap.estimate.value, *found.gap.estimate.low,
             *found.gap.estimate.high, *found.gap.p);
  EXPECT_GT(*found.mean.p, 0.05);
  EXPECT_LT(*found.worst.estimate.high, 0);
  EXPECT_GT(*found.gap.estimate.low, 0);
  // Small enough to survive Holm's correction over a family of hundreds.
  EXPECT_LT(*found.worst.p, 1e-6);
  EXPECT_LT(*found.gap.p, 1e-6);
}

TEST(RunDifference, ExchangingTheModelsTurnsTheSigns) {
  base::Random random(7);
  auto pairs = simulate({0.8, 0.4, 0.6}, {0.5, 0.7, 0.6}, 30, 6, random);
  const RunDifference one = run_difference(pairs, 3);
  for (PromptPair& pair : pairs) std::swap(pair.a, pair.b);
  const RunDifference other = run_difference(pairs, 3);
  for (const auto test : {&RunDifference::mean, &RunDifference::worst, &RunDifference::gap}) {
    EXPECT_NEAR(*(one.*test).estimate.value, -*(other.*test).estimate.value, 1e-12);
    EXPECT_NEAR(*(one.*test).estimate.low, -*(other.*test).estimate.high, 1e-12);
    EXPECT_NEAR(*(one.*test).p, *(other.*test).p, 1e-12);
  }
  EXPECT_EQ(one.items_for_a, other.items_for_b);
}

TEST(RunDifference, IntervalsCoverAndNullTestsHoldTheirLevelAlsoWhereGroupsTie) {
  struct Case {
    const char* name;
    std::vector<double> a, b;
    std::int64_t items;
  };
  const std::vector<double> flat(8, 0.6);
  const std::vector<double> weak = {0.7, 0.7, 0.6, 0.7, 0.6, 0.7, 0.7, 0.1};
  const std::vector<double> turned = {0.1, 0.7, 0.7, 0.6, 0.7, 0.6, 0.7, 0.7};
  constexpr int kRuns = 300;
  for (const Case& c :
       std::vector<Case>{{"flat against flat", flat, flat, 64},
                         {"weak against flat", weak, flat, 64},
                         {"weak against weak elsewhere", weak, turned, 64},
                         {"near 0", std::vector<double>(8, 0.02), std::vector<double>(8, 0.02), 64},
                         {"few items", flat, weak, 12}}) {
    base::Random random(11);
    int covered[3] = {};
    int rejected[3] = {};
    for (int run = 0; run < kRuns; ++run) {
      const auto pairs = simulate(c.a, c.b, c.items, 24, random);
      const RunDifference found = run_difference(pairs, 8);
      double mean = 0;
      for (std::size_t g = 0; g < 8; ++g) mean += (c.a[g] - c.b[g]) / 8;
      const double truth[3] = {mean, worst(c.a) - worst(c.b), gap(c.a) - gap(c.b)};
      const DifferenceTest* tests[3] = {&found.mean, &found.worst, &found.gap};
      for (int k = 0; k < 3; ++k) {
        const Estimate& e = tests[k]->estimate;
        covered[k] += *e.low <= truth[k] + 1e-12 && truth[k] - 1e-12 <= *e.high ? 1 : 0;
        rejected[k] += *tests[k]->p <= 0.05 ? 1 : 0;
        EXPECT_EQ(*tests[k]->p <= 0.05, *e.low > 0 || *e.high < 0) << c.name << " " << k;
        EXPECT_LE(*e.low, *e.value);
        EXPECT_LE(*e.value, *e.high);
        EXPECT_LT(*e.low, *e.high);
      }
    }
    fmt::print(
        "{:<28} covered mean {:.1f}% worst {:.1f}% gap {:.1f}%; p <= 0.05 in {:.1f}, {:.1f}, "
        "{:.1f}%\n",
        c.name, covered[0] / 3.0, covered[1] / 3.0, covered[2] / 3.0, rejected[0] / 3.0,
        rejected[1] / 3.0, rejected[2] / 3.0);
    // 95% less three standard errors of 300 runs.
    for (const int count : covered) EXPECT_GE(count, 274) << c.name;
  }
}

TEST(RunDifference, TheSameAnswersTwiceAreNoDifference) {
  std::vector<PromptPair> pairs;
  for (std::int64_t i = 0; i < 10; ++i) {
    for (std::int64_t g = 0; g < 4; ++g)
      pairs.push_back({i, g, g, g == 3 ? 0.0 : 1.0, g == 3 ? 0.0 : 1.0});
  }
  const RunDifference found = run_difference(pairs, 4);
  for (const DifferenceTest& test : {found.mean, found.worst, found.gap}) {
    EXPECT_EQ(*test.estimate.value, 0);
    EXPECT_EQ(*test.p, 1);
    EXPECT_LT(*test.estimate.low, 0);
    EXPECT_GT(*test.estimate.high, 0);
  }
  EXPECT_EQ(*found.p_items, 1);
}

TEST(RunDifference, SaysWhyThereIsNoTest) {
  const RunDifference none = run_difference({}, 4);
  EXPECT_FALSE(none.mean.estimate.value);
  EXPECT_NE(none.gap.estimate.reason, "");
  const RunDifference one = run_difference(std::vector<PromptPair>{{0, 0, 0, 1, 0}}, 4);
  EXPECT_EQ(*one.mean.estimate.value, 1);
  EXPECT_FALSE(one.mean.p);
  EXPECT_NE(one.mean.estimate.reason, "");
  EXPECT_FALSE(one.gap.estimate.value);
  EXPECT_THROW(run_difference(std::vector<PromptPair>{{0, 4, 0, 1, 0}}, 4), base::Error);
}

}  // namespace
}  // namespace kvphase::stats
