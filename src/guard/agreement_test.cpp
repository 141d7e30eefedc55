#include "guard/agreement.h"

#include <gmock/gmock.h>

namespace kvphase::guard {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<Reply> replies_of(const std::vector<std::vector<std::string>>& by_offset) {
  std::vector<Reply> replies;
  for (std::size_t o = 0; o < by_offset.size(); ++o) {
    for (std::size_t r = 0; r < by_offset[o].size(); ++r) {
      const bool missing = by_offset[o][r] == "!";
      replies.push_back({.offset = static_cast<std::int64_t>(o),
                         .repeat = static_cast<std::int64_t>(r),
                         .answer = missing ? "" : by_offset[o][r],
                         .missing = missing ? "timeout" : ""});
    }
  }
  return replies;
}

TEST(Agreement, OneAnswerAtEveryOffsetAgrees) {
  const Agreement a = find_agreement(replies_of({{"7", "7"}, {" 7"}, {"'7'"}, {"7."}}), {});
  EXPECT_EQ(a.verdict, VerdictKind::kAgree);
  EXPECT_EQ(a.groups.size(), 1U);
  EXPECT_EQ(a.share, 1.0);
  EXPECT_THAT(a.differ, IsEmpty());
  EXPECT_NEAR(*a.may_differ, 1 - std::pow(0.05, 1.0 / 5), 1e-9);
  EXPECT_EQ(sentence_of(a, {}), "All 5 replies at 4 offsets give one answer.");
}

TEST(Agreement, AnOffsetWithAnAnswerOfItsOwnEveryTimeIsNamed) {
  const std::vector<std::string> right(4, "7731"), wrong(4, "7781");
  const Agreement a = find_agreement(replies_of({right, right, wrong, right}), {});
  EXPECT_EQ(a.verdict, VerdictKind::kDepends);
  EXPECT_NEAR(*a.test.p, 4.0 / 1820, 1e-12);
  EXPECT_THAT(a.differ, ElementsAre(2));
  EXPECT_EQ(a.groups[0].answer, "7731");
  EXPECT_THAT(a.groups[1].offsets, ElementsAre(2));
  EXPECT_EQ(a.share, 0.75);
  EXPECT_EQ(a.unsteady, 0);
  EXPECT_FALSE(a.may_differ);
  EXPECT_THAT(sentence_of(a, {}), HasSubstr("offset 2 gives another answer"));
}

TEST(Agreement, RepeatsThatDifferAreRandomNotSensitive) {
  const Agreement a = find_agreement(
      replies_of(
          {{"a", "b", "a", "a"}, {"a", "a", "b", "a"}, {"b", "a", "a", "b"}, {"a", "b", "a", "a"}}),
      {});
  EXPECT_EQ(a.verdict, VerdictKind::kRandom);
  EXPECT_EQ(a.unsteady, 4);
  EXPECT_THAT(sentence_of(a, {}), HasSubstr("random"));
}

TEST(Agreement, DifferentAnswersWithoutRepeatsAreUndecided) {
  const Agreement a = find_agreement(replies_of({{"a"}, {"b"}, {"a"}, {"a"}}), {});
  EXPECT_EQ(a.verdict, VerdictKind::kUndecided);
  EXPECT_FALSE(a.test.p);
  EXPECT_THAT(sentence_of(a, {}), HasSubstr("too few"));
}

TEST(Agreement, AnOffsetWithoutAReplyLeavesAgreementUndecided) {
  const Agreement a = find_agreement(replies_of({{"a", "a"}, {"!"}, {"a"}, {"a"}}), {});
  EXPECT_EQ(a.verdict, VerdictKind::kUndecided);
  EXPECT_EQ(a.missing, 1);
  EXPECT_THAT(a.unanswered, ElementsAre(1));
  EXPECT_THAT(sentence_of(a, {}), HasSubstr("offset 1 gave none"));
}

TEST(Agreement, NothingAtAllIsNothing) {
  for (const auto& replies : {std::vector<Reply>{}, replies_of({{"!"}, {"!"}, {}, {}})}) {
    const Agreement a = find_agreement(replies, {});
    EXPECT_EQ(a.verdict, VerdictKind::kUndecided);
    EXPECT_FALSE(a.share);
    EXPECT_EQ(a.unanswered.size(), 4U);
    EXPECT_EQ(sentence_of(a, {}), "No reply came: nothing is known.");
  }
}

TEST(Agreement, ATieAtAnOffsetDiffersFromTheRest) {
  const Agreement a =
      find_agreement(replies_of({{"a", "a"}, {"a", "b"}, {"a", "a"}, {"a", "a"}}), {});
  EXPECT_THAT(a.differ, ElementsAre(1));
  EXPECT_FALSE(a.offsets[1].most_frequent);
  EXPECT_FALSE(a.offsets[1].steady);
}

TEST(Agreement, TheAccusationFollowsTheLevel) {
  const std::vector<std::string> right(3, "x"), wrong(3, "y");
  const auto replies = replies_of({right, wrong, right, right});  // p = 4/220 = 0.018
  EXPECT_EQ(find_agreement(replies, {.level = 0.05}).verdict, VerdictKind::kDepends);
  EXPECT_EQ(find_agreement(replies, {.level = 0.01}).verdict, VerdictKind::kUndecided);
}

}  // namespace
}  // namespace kvphase::guard
