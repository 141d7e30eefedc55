#include "task/grade.h"

#include <gtest/gtest.h>

namespace kvphase::task {
namespace {

struct Case {
  const char* text;
  const char* expected;
  const char* reply_class;
  bool cut = false;
};

void check(const std::vector<Case>& cases, const std::vector<std::string>& others = {}) {
  for (const Case& c : cases) {
    const Grade grade = grade_text(c.text, c.expected, others, {.cut = c.cut});
    EXPECT_EQ(grade.reply_class, c.reply_class)
        << "'" << c.text << "' for '" << c.expected << "'" << (c.cut ? " (cut)" : "");
    const std::string name = grade.reply_class;
    EXPECT_EQ(grade.correct.has_value(), name != "truncated") << c.text;
    EXPECT_EQ(grade.correct.value_or(false), name == "exact") << c.text;
  }
}

TEST(Grade, ForgivesSentencesQuotesMarkdownAndLetterCase) {
  check({{" apple", "apple", "exact"},
         {"apple.", "apple", "exact"},
         {"The value is **Apple**.", "apple", "exact"},
         {"\"apple\"", "apple", "exact"},
         {"`kv-482-10936-57`", "KV-482-10936-57", "exact"},
         {"river stone is apple\n lamp door is chair", "apple", "exact"},
         {"Answer:apple", "apple", "exact"},
         {"(apple)", "apple", "exact"},
         {"- apple", "apple", "exact"},
         {"It is /srv/data7/batch/run-482100.log.", "/srv/data7/batch/run-482100.log", "exact"},
         {"12.", "12", "exact"},
         {"= 12, as asked", "12", "exact"},
         {"$12$", "12", "exact"}},
        {"chair", "pear"});
}

TEST(Grade, NeverAcceptsAPartOfALongerWordNumberOrIdentifier) {
  check({{"123", "12", "wrong"},
         {"312", "12", "wrong"},
         {"12.5", "12", "wrong"},
         {"1,200", "200", "wrong"},
         {"12-34", "12", "wrong"},
         {"-12", "12", "wrong"},
         {"12:30", "12", "wrong"},
         {"KV-482-10936-57-9", "KV-482-10936-57", "wrong"},
         {"AKV-482-10936-57", "KV-482-10936-57", "near_miss"},
         {"pineapple", "apple", "wrong"},
         {"apple-pie", "apple", "wrong"},
         {"apple_pie", "apple", "wrong"},
         {"home/srv/data7/run.log", "/srv/data7/run.log", "wrong"},
         {"/srv/data7/run.log.gz", "/srv/data7/run.log", "wrong"},
         {"apples", "apple", "near_miss"}});
}

TEST(Grade, AnotherRecordsValueIsNeverRight) {
  check({{"pear", "apple", "other_record"},
         {"pear, or maybe apple", "apple", "other_record"},
         {"The value is Pear.", "apple", "other_record"},
         {"apple, not pear", "apple", "exact"},
         {"pears", "apple", "wrong"}},
        {"pear", "apple"});
}

TEST(Grade, ClassesEmptyAndCutRepliesAndCallsNothingWrongThatMayGoOn) {
  check({{"", "apple", "empty"},
         {" \n ", "apple", "empty"},
         {"", "apple", "truncated", true},
         {"Let me look through the list", "apple", "truncated", true},
         {"Let me look through the list", "apple", "wrong"},
         {"I found nothing.\nSorry, but", "apple", "wrong", true},
         {"The value is app", "apple", "truncated", true},
         {"The value is apple", "apple", "truncated", true},
         {"The value is apple.", "apple", "exact", true},
         {"12", "12", "truncated", true},
         {"12", "12", "exact"}});
}

TEST(Grade, TellsWhichCharacterOfAnIdentifierIsWrong) {
  const std::string right = "KV-482-10936-57";
  const auto miss = [&](const char* text) { return find_near_miss(text, right); };
  const auto expect = [&](const char* text, std::size_t position, const char* kind) {
    const auto found = miss(text);
    ASSERT_TRUE(found) << text;
    EXPECT_EQ(found->position, position) << text;
    EXPECT_EQ(found->kind, kind) << text;
    EXPECT_EQ(grade_text(text, right, {}).reply_class, "near_miss") << text;
  };
  expect("KV-482-10936-58", 14, "replaced");
  expect("The number is KV-482-10936-5.", 14, "missing");
  expect("`KV-482-110936-57`", 8, "extra");
  expect("KV-482-19036-57", 8, "swapped");
  EXPECT_FALSE(miss("KV-482-10936-57")) << "equal is no miss";
  EXPECT_FALSE(miss("KV-482-10936-99")) << "two characters";
  EXPECT_FALSE(find_near_miss("13", "12")) << "too short to be told from another value";
  const auto words = find_near_miss("It is river stove, I think", "river stone");
  ASSERT_TRUE(words);
  EXPECT_EQ(words->said, "river stove");
}

TEST(Grade, ExactGradingTakesTheWholeTextOnly) {
  const GradeOptions exact{.grading = Grading::kExact};
  EXPECT_EQ(grade_text("\"Yes.\"", "yes", {}, exact).correct, true);
  EXPECT_EQ(grade_text("yes, of course", "yes", {}, exact).correct, false);
  const std::vector<std::string> others = {"no"};
  EXPECT_EQ(grade_text("No", "yes", others, exact).reply_class, "other_record");
}

TEST(Grade, CandidatesAreComparedByProbabilityElseByTheTextsStart) {
  const std::vector<std::string> candidates = {"8", "32"};
  const auto grade = [&](std::optional<double> right, std::optional<double> wrong,
                         const char* text = "") {
    return grade_candidates(candidates, {.text = text, .candidate_logprobs = {right, wrong}});
  };
  EXPECT_EQ(grade(-0.1, -2.0).correct, true);
  EXPECT_EQ(grade(-2.0, -0.1).reply_class, "other_record");
  EXPECT_EQ(grade(-2.0, -2.0).correct, false) << "a tie is not likelier";
  EXPECT_EQ(grade(-5.0, {}).correct, true) << "the other is not even listed";
  EXPECT_EQ(grade({}, -5.0).correct, false);
  EXPECT_EQ(grade({}, {}, "8_E4M3").correct, true);
  EXPECT_EQ(grade({}, {}, " 32").reply_class, "other_record");
  EXPECT_EQ(grade({}, {}, "80").reply_class, "wrong");
  EXPECT_EQ(grade({}, {}, "").reply_class, "empty");
}

}  // namespace
}  // namespace kvphase::task
