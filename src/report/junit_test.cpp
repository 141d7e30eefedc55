#include "report/junit.h"

#include <gmock/gmock.h>

#include "tests/support/example_result.h"

namespace kvphase::report {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

record::Result example() {
  record::Result r;
  r.title = "model <a> on lookup";
  r.design = {.observations = 100, .scored = 97, .missing = 3};
  r.worst = {.estimate = {.value = 0.25}, .group = 3};
  r.gap.estimate.value = 0.5;
  return r;
}

record::GateGroup group(std::int64_t index, const std::string& outcome) {
  return {.index = index,
          .n = 50,
          .correct = 12,
          .missing = 2,
          .low = 0.15,
          .high = 0.4,
          .outcome = outcome};
}

TEST(Junit, HasACasePerRequirementAndPerPhaseThreeWayWithNumbersInNamesAndBodies) {
  record::Result r = example();
  r.requirements = {{.text = "worst>=0.5",
                     .outcome = "fail",
                     .sentence = "phase 3 is below 50%",
                     .group = "phase",
                     .groups = {group(0, "pass"), group(3, "fail"), group(1, "inconclusive")}},
                    {.text = "gap<=0.1", .outcome = "inconclusive", .sentence = "not decided"}};
  const std::string xml = junit_xml(std::vector<JunitSuite>{{.result = r}});
  EXPECT_THAT(xml, HasSubstr("tests=\"6\" failures=\"2\" errors=\"0\" skipped=\"2\""));
  EXPECT_THAT(xml, HasSubstr("name=\"worst&gt;=0.5: worst residue 3 at 25.0%\""));
  EXPECT_THAT(xml, HasSubstr("name=\"worst&gt;=0.5, phase 3: 12 of 48 right, 2 missing\""));
  EXPECT_THAT(xml, HasSubstr("<failure message=\"phase 3 is below 50%\">phase 3 is below 50%<"));
  EXPECT_THAT(xml, HasSubstr("at most 40.0% if it is right</failure>"));
  EXPECT_THAT(xml, HasSubstr("<skipped message=\"not decided\">"));
  EXPECT_THAT(xml, HasSubstr("gap&lt;=0.1: gap 50.0"));
  EXPECT_THAT(xml, AllOf(HasSubstr("replies: 97 of 100 scored, 3 missing"),
                         HasSubstr("model &lt;a&gt; on lookup"), Not(HasSubstr("<a>"))));
}

TEST(Junit, WithoutARequirementTheVerdictIsTheCase) {
  record::Result r = example();
  r.verdict = {.kind = record::VerdictKind::kPeriodic, .sentence = "Period 4"};
  EXPECT_THAT(junit_xml(std::vector<JunitSuite>{{.result = r}}),
              AllOf(HasSubstr("tests=\"2\" failures=\"0\" errors=\"0\" skipped=\"0\""),
                    HasSubstr("verdict: periodic"), HasSubstr("<system-out>Period 4<")));
  r.verdict.kind = record::VerdictKind::kNotLearned;
  EXPECT_THAT(junit_xml(std::vector<JunitSuite>{{.result = r}}), HasSubstr("skipped=\"1\""));
}

TEST(Junit, TooManyMissingRepliesAndAFailedAuditAreErrors) {
  EXPECT_THAT(junit_xml(std::vector<JunitSuite>{{.result = example(), .too_much_missing = true}}),
              AllOf(HasSubstr("errors=\"1\""), HasSubstr("<error message=\"More replies")));
  const std::string xml = junit_error("http://x", "[endpoint] nobody \x01 \"there\" <>&");
  EXPECT_THAT(xml, AllOf(HasSubstr("tests=\"1\" failures=\"0\" errors=\"1\""),
                         HasSubstr("&quot;there&quot; &lt;&gt;&amp;"), Not(HasSubstr("\x01"))));
}

}  // namespace
}  // namespace kvphase::report
