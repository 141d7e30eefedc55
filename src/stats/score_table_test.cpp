#include "stats/score_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "base/error.h"

namespace kvphase::stats {
namespace {

using testing::ElementsAre;

TEST(ScoreTable, GroupsRowsByItemAndSortsByPosition) {
  const auto t = make_score_table({{7, 12, 1}, {3, 5, 0}, {7, 11, 0.5}, {3, 4, 1}, {9, 0, 2}});
  EXPECT_THAT(t.ids, ElementsAre(3, 7, 9));
  EXPECT_THAT(t.first, ElementsAre(0, 2, 4, 5));
  EXPECT_THAT(t.position, ElementsAre(4, 5, 11, 12, 0));
  EXPECT_THAT(t.score, ElementsAre(1, 0, 0.5, 1, 2));
}

TEST(ScoreTable, MayBeEmpty) {
  const auto t = make_score_table({});
  EXPECT_EQ(t.items(), 0U);
  EXPECT_EQ(t.cells(), 0U);
  EXPECT_EQ(group_totals(t, 3).n, std::vector<std::int64_t>(3));
}

TEST(ScoreTable, RefusesScoresThatAreNotFinite) {
  for (const double bad :
       {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    try {
      make_score_table({{1, 2, 0}, {1, 3, bad}}, "rows.csv");
      FAIL() << "accepted " << bad;
    } catch (const base::Error& e) {
      EXPECT_THAT(e.what(), testing::HasSubstr("[rows.csv] expected a finite score"));
      EXPECT_THAT(e.what(), testing::HasSubstr("row 2"));
    }
  }
}

TEST(ScoreTable, RefusesTwoScoresAtOnePlace) {
  EXPECT_THROW(make_score_table({{1, 2, 0}, {2, 2, 0}, {1, 2, 0}}), base::Error);
  EXPECT_THROW(make_score_table({{1, -2, 0}}), base::Error);
}

TEST(ScoreTable, TotalsAndCountsFoldByPosition) {
  const auto t = make_score_table({{0, 10, 1}, {0, 11, 0}, {0, 12, 1}, {1, 21, 1}, {1, 22, 1}});
  const auto totals = group_totals(t, 3);
  EXPECT_THAT(totals.n, ElementsAre(2, 2, 1));
  EXPECT_THAT(totals.sum, ElementsAre(2, 2, 0));
  EXPECT_THAT(counts_of(t, 4).correct, ElementsAre(1, 1, 2, 0));
  EXPECT_FALSE(group_mean(group_totals(t, 100), 0));
  EXPECT_THROW(counts_of(make_score_table({{0, 0, 0.5}}), 2), base::Error);
}

TEST(ScoreTable, CountsFoldToADivisorOnly) {
  const ResidueCounts c{.correct = {1, 2, 3, 4}, .n = {5, 5, 5, 6}};
  EXPECT_THAT(fold_counts(c, 2).correct, ElementsAre(4, 6));
  EXPECT_THAT(fold_counts(c, 2).n, ElementsAre(10, 11));
  EXPECT_THROW(fold_counts(c, 3), base::Error);
  EXPECT_THROW(check_counts({.correct = {3}, .n = {2}}), base::Error);
  EXPECT_THROW(check_counts({.correct = {3}, .n = {4, 4}}), base::Error);
}

}  // namespace
}  // namespace kvphase::stats
