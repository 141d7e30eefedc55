#include "guard/retest_findings.h"

#include <gmock/gmock.h>

#include <algorithm>

namespace kvphase::guard {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

RetestRun run_of(const std::function<std::string(std::int64_t)>& model, std::int64_t offsets,
                 std::int64_t repeats) {
  RetestRun run;
  for (std::int64_t r = 0; r < repeats; ++r) {
    for (std::int64_t o = 0; o < offsets; ++o) {
      run.replies.push_back({.offset = o, .repeat = r, .answer = model(o)});
    }
  }
  run.agreement = find_agreement(run.replies, {.offsets = offsets});
  return run;
}

record::Findings findings(const RetestRun& run, const RetestSubject& subject) {
  return retest_findings(run, {.agreement = {.offsets = std::ssize(run.agreement.offsets)}},
                         subject, {.model_name = "m"});
}

TEST(RetestFindings, ShowTheDisputedCharactersTheOffsetsAndTheirResidues) {
  const auto run =
      run_of([](std::int64_t o) { return o % 4 == 1 ? "code K-7781" : "code K-7731"; }, 8, 3);
  const record::Findings f =
      findings(run, {.prompt_name = "p.txt", .expected = "K-7731", .position = 10, .stride = 4});
  EXPECT_THAT(f.sentence, HasSubstr("offsets 1, 5 give another answer"));
  EXPECT_EQ(f.data["verdict"], "depends_on_offset");
  EXPECT_EQ(f.data["follows_stride"], true);
  EXPECT_EQ(f.data["answers"][1]["against_first"]["this"], "code K-77[8]1");
  EXPECT_EQ(f.data["answers"][1]["against_first"]["first"], "code K-77[3]1");
  EXPECT_EQ(f.data["offsets"][5]["position"], 15);
  EXPECT_EQ(f.data["offsets"][5]["residue"], 7);
  EXPECT_EQ(f.data["offsets"][5]["phase"], 3);
  EXPECT_THAT(f.notes, Contains(HasSubstr("expected answer stands in A")));
  EXPECT_THAT(f.notes, Contains(HasSubstr("Offsets 4 apart")));
  EXPECT_EQ(std::ranges::count(f.answers, '\n'), 25);
  // What is written can be read again.
  const record::Findings again = record::findings_from_json(record::to_json(f), "retest", "test");
  EXPECT_EQ(again.data, f.data);
}

TEST(RetestFindings, UnknownPositionsAreNullAndNoPhaseIsNamed) {
  const auto run = run_of([](std::int64_t) { return "a"; }, 4, 2);
  const record::Findings f = findings(run, {.prompt_name = "p.txt", .stride = 4});
  EXPECT_EQ(f.data["verdict"], "agree");
  EXPECT_TRUE(f.data["offsets"][0]["position"].is_null());
  EXPECT_TRUE(f.data["offsets"][0]["phase"].is_null());
  EXPECT_TRUE(f.data["follows_stride"].is_null());
  EXPECT_TRUE(f.figures.empty());
  EXPECT_THAT(f.notes, Contains(HasSubstr("6% of stride 64")));
}

TEST(RetestFindings, ARetestWithoutReplyIsARecordToo) {
  const record::Findings f =
      findings({.agreement = find_agreement({}, {.offsets = 2})}, {.prompt_name = "p.txt"});
  EXPECT_EQ(f.data["verdict"], "undecided");
  EXPECT_TRUE(f.data["agreement"].is_null());
  EXPECT_TRUE(f.data["test"]["p"].is_null());
}

}  // namespace
}  // namespace kvphase::guard
