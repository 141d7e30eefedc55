#include "audit/votes.h"

#include <gtest/gtest.h>

namespace kvphase::audit {
namespace {

using record::Observation;

// Version v of prompt 0 at residue 6 of 8.
Observation version(std::int64_t v, std::string answer, std::optional<bool> correct) {
  return {.item = v,
          .residue = (6 + v) % 8,
          .target_position = 22 + v,
          .answer = std::move(answer),
          .reply_class = correct ? "exact" : "timeout",
          .correct = correct};
}

TEST(Votes, TheMostFrequentAnswerCountsAndOfEqualsTheFirst) {
  const struct {
    std::vector<Observation> versions;
    const char* answer;
    std::optional<bool> correct;
  } cases[] = {
      {{version(0, "b", false), version(1, "a", true), version(2, " A.", true)}, "a", true},
      {{version(0, "b", false), version(1, "a", true)}, "b", false},
      {{version(0, "", {}), version(1, "a", true), version(2, "", {})}, "a", true},
      {{version(0, "b", false), version(1, "c", false), version(2, "a", true)}, "b", false},
      {{version(0, "", {}), version(1, "", {})}, "", {}},
  };
  for (const auto& [versions, answer, correct] : cases) {
    const auto decided = majority(versions, 3, 8);
    ASSERT_EQ(decided.size(), 1U);
    EXPECT_EQ(decided[0].answer, answer);
    EXPECT_EQ(decided[0].correct, correct);
    EXPECT_EQ(decided[0].item, 0);
    EXPECT_EQ(decided[0].residue, 6);
    EXPECT_EQ(decided[0].target_position, 22);
  }
}

TEST(Votes, PromptsAreKeptApartByItemAndResidueInAnyOrder) {
  std::vector<Observation> all;
  for (std::int64_t item = 2; item >= 0; --item) {
    for (std::int64_t v = 1; v >= 0; --v) {
      for (std::int64_t r = 0; r < 4; ++r) {
        all.push_back({.item = item * 2 + v,
                       .residue = (r + v) % 4,
                       .answer = std::to_string(10 * item + r),
                       .correct = true});
      }
    }
  }
  const auto decided = majority(all, 2, 4);
  ASSERT_EQ(decided.size(), 12U);
  for (std::size_t n = 0; n < decided.size(); ++n) {
    EXPECT_EQ(decided[n].answer, std::to_string(10 * decided[n].item + decided[n].residue));
    EXPECT_EQ(decided[n].item * 4 + decided[n].residue, static_cast<std::int64_t>(n));
  }
}

TEST(Votes, NothingIsNothing) { EXPECT_TRUE(majority({}, 4, 8).empty()); }

}  // namespace
}  // namespace kvphase::audit
