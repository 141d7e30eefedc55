#include "stats/bootstrap.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "base/random.h"
#include "stats/published_counts.h"

namespace kvphase::stats {
namespace {

TEST(Bootstrap, QuantilesInterpolate) {
  const std::vector<double> v = {0, 10, 20};
  EXPECT_EQ(sorted_quantile(v, 0), 0);
  EXPECT_EQ(sorted_quantile(v, 1), 20);
  EXPECT_EQ(sorted_quantile(v, 0.25), 5);
  EXPECT_EQ(sorted_quantile(std::vector<double>{3}, 0.4), 3);
}

TEST(Bootstrap, PointValuesAreThoseOfTheData) {
  const auto t =
      make_score_table({{0, 4, 1}, {0, 5, 0}, {0, 6, 1}, {1, 8, 1}, {1, 9, 1}, {1, 10, 0}});
  const auto r = bootstrap_items(t, {.modulus = 4, .replicates = 50});
  EXPECT_DOUBLE_EQ(*r.mean.value, 4.0 / 6);
  EXPECT_DOUBLE_EQ(*r.groups[0].mean.value, 1);
  EXPECT_EQ(*r.worst.value, 0.5);
  EXPECT_EQ(*r.worst_group, 1) << "the first of equals";
  EXPECT_EQ(*r.best_group, 0);
  EXPECT_EQ(*r.gap.value, 0.5);
  EXPECT_FALSE(r.groups[3].mean.value) << "phase 3 is missing";
  EXPECT_EQ(r.groups[3].mean.reason, "no observations in this group");
}

TEST(Bootstrap, TakesItemsAsAWhole) {
  // 50 items, all right or all wrong: 24 observations each say no more than one.
  std::vector<ScoreRow> rows;
  for (std::int64_t i = 0; i < 50; ++i) {
    for (std::int64_t k = 0; k < 24; ++k) rows.push_back({i, k, i % 2 == 0 ? 1.0 : 0.0});
  }
  const auto r = bootstrap_items(make_score_table(rows), {.modulus = 4});
  const double half = 1.96 * std::sqrt(0.25 / 50);
  EXPECT_NEAR(*r.mean.low, 0.5 - half, 0.025);
  EXPECT_NEAR(*r.mean.high, 0.5 + half, 0.025);
  EXPECT_NEAR(*r.gap.high, 0, 1e-12) << "every replicate keeps the phases equal";
  for (const auto& g : r.groups) EXPECT_NEAR(*g.worst_share, 0.25, 1e-9) << "ties share";
}

TEST(Bootstrap, FindsTheWorstPhaseInMostReplicates) {
  std::vector<ScoreRow> rows;
  base::Random random(2);
  for (std::int64_t i = 0; i < 100; ++i) {
    for (std::int64_t k = 0; k < 8; ++k) {
      rows.push_back({i, k, random.uniform() < (k % 4 == 3 ? 0.5 : 0.8) ? 1.0 : 0.0});
    }
  }
  const auto r = bootstrap_items(make_score_table(rows), {.modulus = 4});
  EXPECT_EQ(*r.worst_group, 3);
  EXPECT_GT(*r.groups[3].worst_share, 0.99);
  double total = 0;
  for (const auto& g : r.groups) total += *g.worst_share;
  EXPECT_NEAR(total, 1, 1e-9);
  EXPECT_LT(*r.gap.low, *r.gap.value);
  EXPECT_GT(*r.gap.high, *r.gap.value);
}

TEST(Bootstrap, SameSeedSameIntervals) {
  const auto t =
      make_score_table({{0, 0, 1}, {0, 1, 0}, {1, 0, 0}, {1, 1, 1}, {2, 0, 1}, {2, 1, 1}});
  const auto a = bootstrap_items(t, {.modulus = 2, .seed = 9});
  const auto b = bootstrap_items(t, {.modulus = 2, .seed = 9});
  EXPECT_EQ(*a.mean.low, *b.mean.low);
  EXPECT_EQ(*a.gap.high, *b.gap.high);
}

TEST(Bootstrap, OneItemOrNoneHasNoInterval) {
  const auto none = bootstrap_items(make_score_table({}), {.modulus = 3});
  EXPECT_FALSE(none.mean.value || none.worst.value || none.gap.value || none.worst_group);
  EXPECT_EQ(none.mean.reason, "no observations");
  const auto one = bootstrap_items(make_score_table({{0, 0, 1}, {0, 1, 0}}), {.modulus = 2});
  EXPECT_EQ(*one.gap.value, 1);
  EXPECT_FALSE(one.gap.low || one.groups[0].worst_share);
  EXPECT_NE(one.gap.reason.find("at least 2"), std::string::npos);
}

TEST(Bootstrap, CountsGiveBinomialIntervals) {
  for (const auto& run : published_runs()) {
    if (run.name != "DeepSeek-V4-Flash-Base") continue;
    const auto r = bootstrap_counts(run.counts, {});
    EXPECT_EQ(*r.worst_group, 3);
    EXPECT_EQ(*r.best_group, 5);
    EXPECT_NEAR(*r.mean.value, 0.526, 0.0005);
    EXPECT_NEAR(*r.groups[0].mean.high - *r.groups[0].mean.low,
                2 * 1.96 * std::sqrt(.4375 * .5625 / 256), 0.01);
    EXPECT_GT(*r.groups[3].worst_share, 0.5);
  }
}

TEST(Bootstrap, CountsWithEmptyGroupsAndConstantsAreDefined) {
  const auto r = bootstrap_counts({.correct = {5, 0, 0}, .n = {5, 0, 5}}, {.replicates = 20});
  EXPECT_EQ(*r.gap.value, 1);
  EXPECT_EQ(*r.gap.low, 1) << "all right and all wrong: a parametric bootstrap cannot doubt it";
  EXPECT_FALSE(r.groups[1].mean.value);
  const auto none = bootstrap_counts({.correct = {0}, .n = {0}}, {});
  EXPECT_FALSE(none.mean.value);
  EXPECT_THROW(bootstrap_counts({.correct = {0}, .n = {1}}, {.replicates = 0}), base::Error);
}

}  // namespace
}  // namespace kvphase::stats
