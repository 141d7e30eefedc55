#include "guard/normalise.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace kvphase::guard {
namespace {

TEST(Normalise, WhiteSpaceQuotesEmphasisAndAFinalPeriodAreNoDifference) {
  for (const char* answer :
       {"K-7731", " K-7731\n", "\"K-7731\"", "`K-7731`.", "**K-7731**", "'K-7731.'",
        "*\"K-7731\".*", "_K-7731_", "__K-7731__.", "***K-7731***", "```\nK-7731\n```",
        " ```text\n K-7731\n```\n", "~~~\nK-7731.\n~~~", "```K-7731```", "\u201cK-7731\u201d",
        "\u00a0K-7731\u00a0"}) {
    EXPECT_EQ(normalised(answer), "K-7731") << answer;
  }
  EXPECT_EQ(normalised("caf\u0065\u0301"), normalised("caf\u00e9"));
  EXPECT_EQ(normalised("_the code_"), "the code");
  EXPECT_EQ(normalised("the  code\n\tis 7"), "the code is 7");
}

TEST(Normalise, EverythingElseIsADifference) {
  for (const char* answer : {"K-7737", "k-7731", "K 7731", "K-7731!", "K-77 31", "\"K-7731", ""}) {
    EXPECT_NE(normalised(answer), "K-7731") << answer;
  }
  for (const char* answer : {"__init__", "_x_", "_snake_case_", "__a b__c__", "``````",
                             "```\na\n```\nb\n```", "```two words\na\n```"}) {
    EXPECT_EQ(normalised(answer).substr(0, 2), std::string(answer).substr(0, 2)) << answer;
  }
  EXPECT_EQ(normalised("wait..."), "wait...");
  EXPECT_EQ(normalised("\"a\" or \"b\""), "\"a\" or \"b\"") << "two quotations are no pair";
  EXPECT_EQ(normalised("."), ".");
  EXPECT_EQ(normalised("''"), "''");
}

TEST(Normalise, CaseGoesOnlyWhenAsked) {
  EXPECT_EQ(normalised("YES", {.ignore_case = true}), "yes");
  EXPECT_EQ(normalised("\u00c4", {.ignore_case = true}), "\u00c4");
}

TEST(Normalise, AnExpressionKeepsItsGroupOrItsMatchAndNoMatchIsAnAnswerOfItsOwn) {
  EXPECT_EQ(normalised("I think it is 42, surely.", {.extract = "[0-9]+"}), "42");
  EXPECT_EQ(normalised("answer: 42 of 50", {.extract = "answer: ([0-9]+)"}), "42");
  EXPECT_EQ(normalised("none", {.extract = "[0-9]+"}), kNoMatch);
  EXPECT_NE(normalised("", {.extract = "[0-9]+"}), normalised(""));
  EXPECT_THROW(check_extract({.extract = "("}, "retest"), base::Error);
  // Far longer than what is searched: no deep recursion.
  EXPECT_EQ(normalised(std::string(1 << 20, 'x') + "7", {.extract = "(x|y)*7"}), kNoMatch);
}

}  // namespace
}  // namespace kvphase::guard
