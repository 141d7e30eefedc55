#include "stats/missing.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace kvphase::stats {
namespace {

TEST(Missing, BoundsAssumeTheWorstAndTheBest) {
  const auto r = bound_missing({.correct = {8, 5}, .n = {10, 8}}, {0, 2});
  EXPECT_DOUBLE_EQ(*r.groups[0].low, 0.8);
  EXPECT_DOUBLE_EQ(*r.groups[0].high, 0.8);
  EXPECT_DOUBLE_EQ(*r.groups[1].low, 0.5);
  EXPECT_DOUBLE_EQ(*r.groups[1].high, 0.7);
  EXPECT_DOUBLE_EQ(*r.mean.low, 13.0 / 20);
  EXPECT_DOUBLE_EQ(*r.mean.high, 15.0 / 20);
  EXPECT_DOUBLE_EQ(*r.worst.low, 0.5);
  EXPECT_DOUBLE_EQ(*r.worst.high, 0.7);
  EXPECT_DOUBLE_EQ(*r.best.low, 0.8);
  EXPECT_NEAR(*r.gap.low, 0.1, 1e-12);
  EXPECT_NEAR(*r.gap.high, 0.3, 1e-12);
}

TEST(Missing, OverlappingBoundsAllowNoGap) {
  const auto r = bound_missing({.correct = {5, 5}, .n = {8, 8}}, {2, 2});
  EXPECT_EQ(*r.gap.low, 0);
  EXPECT_NEAR(*r.gap.high, 0.2, 1e-12);
}

TEST(Missing, TestsWhetherItDependsOnThePhase) {
  const ResidueCounts counts{.correct = {90, 90, 60, 90}, .n = {98, 98, 70, 98}};
  EXPECT_LT(*bound_missing(counts, {2, 2, 30, 2}).p_depends_on_group, 0.001);
  const ResidueCounts even{.correct = {90, 90, 90, 90}, .n = {95, 95, 95, 95}};
  EXPECT_GT(*bound_missing(even, {5, 6, 5, 4}).p_depends_on_group, 0.5);
}

TEST(Missing, IsDefinedOrExplainedAtTheEdges) {
  const auto none = bound_missing({.correct = {1, 2}, .n = {2, 2}}, {0, 0});
  EXPECT_EQ(none.reason, "nothing is missing");
  EXPECT_FALSE(none.p_depends_on_group);
  EXPECT_DOUBLE_EQ(*none.gap.low, 0.5);
  EXPECT_DOUBLE_EQ(*none.gap.high, 0.5);
  const auto all = bound_missing({.correct = {0, 0}, .n = {0, 0}}, {3, 3});
  EXPECT_EQ(*all.mean.low, 0);
  EXPECT_EQ(*all.mean.high, 1);
  EXPECT_EQ(all.reason, "everything is missing");
  const auto empty = bound_missing({.correct = {0}, .n = {0}}, {0});
  EXPECT_FALSE(empty.mean.low || empty.gap.low);
  const auto one = bound_missing({.correct = {0, 3}, .n = {0, 4}}, {0, 1});
  EXPECT_FALSE(one.groups[0].low) << "nothing was planned there";
  EXPECT_EQ(*one.gap.high, 0) << "one group has no gap";
  EXPECT_THROW(bound_missing({.correct = {1}, .n = {1}}, {-1}), base::Error);
  EXPECT_THROW(bound_missing({.correct = {1}, .n = {1}}, {}), base::Error);
}

}  // namespace
}  // namespace kvphase::stats
