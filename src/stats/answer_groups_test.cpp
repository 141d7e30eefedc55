#include "stats/answer_groups.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "base/random.h"

namespace kvphase::stats {
namespace {

using Table = std::vector<std::vector<std::int64_t>>;

std::int64_t same_pairs(std::span<const std::int64_t> group) {
  std::int64_t same = 0;
  for (std::size_t i = 0; i < group.size(); ++i) {
    for (std::size_t k = i + 1; k < group.size(); ++k) same += group[i] == group[k] ? 1 : 0;
  }
  return same;
}

// The plain version: every order of the replies.
double by_all_orders(const Table& table) {
  std::vector<std::int64_t> all;
  std::int64_t observed = 0;
  for (const auto& group : table) {
    all.insert(all.end(), group.begin(), group.end());
    observed += same_pairs(group);
  }
  std::ranges::sort(all);
  double orders = 0, extreme = 0;
  do {  // distinct orders are equally likely
    std::size_t at = 0;
    std::int64_t same = 0;
    for (const auto& group : table) {
      same += same_pairs(std::span(all).subspan(at, group.size()));
      at += group.size();
    }
    orders += 1;
    extreme += same >= observed ? 1 : 0;
  } while (std::ranges::next_permutation(all).found);
  return extreme / orders;
}

TEST(AnswerTest, TheExactProbabilityIsThatOfAllOrders) {
  base::Random random(3);
  for (int run = 0; run < 60; ++run) {
    Table table(2 + random.uniform_index(3));
    std::size_t replies = 0;
    const std::uint64_t answers = 1 + random.uniform_index(4);
    for (auto& group : table) {
      const std::size_t size = std::min<std::size_t>(random.uniform_index(4), 9 - replies);
      replies += size;
      for (std::size_t i = 0; i < size; ++i) {
        group.push_back(static_cast<std::int64_t>(random.uniform_index(answers)));
      }
    }
    const AnswerTest test = test_answers(table);
    if (!test.p) continue;
    EXPECT_TRUE(test.exact);
    EXPECT_NEAR(*test.p, by_all_orders(table), 1e-12) << "run " << run;
  }
}

TEST(AnswerTest, OneGroupWithItsOwnAnswerHasTheProbabilityOfItsFormula) {
  // groups / C(groups * m, m)
  EXPECT_NEAR(*test_answers(Table{{0, 0, 0}, {0, 0, 0}, {1, 1, 1}, {0, 0, 0}}).p, 4.0 / 220, 1e-12);
  const Table four = {{0, 0, 0, 0}, {1, 1, 1, 1}, {0, 0, 0, 0}, {0, 0, 0, 0}};
  EXPECT_NEAR(*test_answers(four).p, 4.0 / 1820, 1e-12);
  EXPECT_NEAR(*test_answers(Table{{0, 0, 0}, {1, 1, 1}}).p, 2.0 / 20, 1e-12);
}

TEST(AnswerTest, WithoutPairsOrWithOneAnswerNothingIsShown) {
  EXPECT_FALSE(test_answers(Table{}).p);
  EXPECT_FALSE(test_answers(Table{{}, {}}).p);
  const AnswerTest once = test_answers(Table{{0}, {1}, {0}});
  EXPECT_FALSE(once.p);
  EXPECT_EQ(once.reason, "no group has two replies");
  EXPECT_NEAR(*test_answers(Table{{5, 5}, {5}, {}}).p, 1, 1e-12);
  // All different: no pair can agree.
  EXPECT_NEAR(*test_answers(Table{{0, 1}, {2, 3}}).p, 1, 1e-12);
}

TEST(AnswerTest, ALargeTableIsDealtAtRandomAndAgreesWithTheExactOne) {
  // 24 groups of 6 with one mixture; then two groups with an answer of their own.
  base::Random random(9);
  Table table(24, std::vector<std::int64_t>(6));
  for (auto& group : table) {
    for (auto& answer : group) answer = static_cast<std::int64_t>(random.uniform_index(6));
  }
  const AnswerTest large = test_answers(table);
  EXPECT_FALSE(large.exact);
  EXPECT_GT(*large.p, 0.001);
  for (auto& answer : table[3]) answer = 77;
  for (auto& answer : table[7]) answer = 78;
  EXPECT_LT(*test_answers(table).p, 0.001);
}

TEST(AnswerTest, FewestRepliesThatDecideAreWhereTheFormulaPassesTheLevel) {
  EXPECT_EQ(replies_to_decide(4, 0.05), 3);
  EXPECT_EQ(replies_to_decide(4, 0.01), 4);
  EXPECT_EQ(replies_to_decide(8, 0.01), 3);
  EXPECT_EQ(replies_to_decide(2, 0.01), 5);
  EXPECT_EQ(replies_to_decide(64, 0.01), 2);
}

TEST(AnswerTest, AModelThatIsOnlyRandomIsAccusedNoMoreOftenThanTheLevel) {
  // Two answers with shares that differ from run to run; 4 groups of 4.
  base::Random random(11);
  int accused = 0;
  constexpr int kRuns = 4000;
  for (int run = 0; run < kRuns; ++run) {
    const double share = random.uniform();
    Table table(4, std::vector<std::int64_t>(4));
    for (auto& group : table) {
      for (auto& answer : group) answer = random.uniform() < share ? 1 : 0;
    }
    accused += *test_answers(table).p <= 0.01 ? 1 : 0;
  }
  std::printf("accused %d of %d random models at level 0.01\n", accused, kRuns);
  EXPECT_LE(accused, 60);  // 40 expected at most, sd 6.3
}

}  // namespace
}  // namespace kvphase::stats
