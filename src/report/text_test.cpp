#include "report/text.h"

#include <gtest/gtest.h>

#include "tests/support/example_result.h"

namespace kvphase::report {
namespace {

TEST(Text, ShowsDigitsOfSmallAndLargeScores) {
  EXPECT_EQ(value_text(2.5e-5, Unit::kScore), "2.5e-05");
  EXPECT_EQ(difference_text(-1.5e-7, Unit::kNats), "-1.5e-07 nats");
  EXPECT_EQ(interval_text(1e-5, 2e9, Unit::kScore), "1e-05 to 2e+09");
  EXPECT_EQ(value_text(0.0, Unit::kScore), "0.000");
  EXPECT_EQ(value_text(-2.345678, Unit::kNats), "-2.346");
}

TEST(Text, WritesSharesInPercentAndScoresInNats) {
  EXPECT_EQ(value_text(0.8034, Unit::kShare), "80.3%");
  EXPECT_EQ(value_text(-1.5, Unit::kNats), "-1.500");
  EXPECT_EQ(difference_text(0.4, Unit::kShare), "40.0 points");
  EXPECT_EQ(difference_text(0.4, Unit::kNats), "0.400 nats");
  EXPECT_EQ(difference_text(0.4, Unit::kScore), "0.400") << "a scale of its own has no unit";
  EXPECT_EQ(unit_of("score"), Unit::kScore);
  EXPECT_EQ(unit_of("margin"), Unit::kNats);
  EXPECT_EQ(interval_text(0.5, 1.0, Unit::kShare), "50.0 to 100.0%");
  EXPECT_EQ(difference_interval_text(-0.05, 0.3, Unit::kShare), "-5.0 to 30.0 points");
}

TEST(Text, NamesWhatIsUndefinedInsteadOfShowingZero) {
  EXPECT_EQ(value_text(std::nullopt, Unit::kShare), "undefined");
  EXPECT_EQ(interval_text(0.5, std::nullopt, Unit::kShare), "");
  EXPECT_EQ(p_text(std::nullopt), "no p-value");
  record::Estimate none;
  none.reason = "no prompts\nscored";
  EXPECT_EQ(estimate_text(none, Unit::kShare), "undefined: no prompts scored");
  EXPECT_EQ(period_text({}), "not tested");
  record::Period tested;
  tested.p_value = 0.4;
  EXPECT_EQ(period_text(tested), "none found");
}

TEST(Text, WritesLargeScoresShort) {
  EXPECT_EQ(value_text(5.0000000752e28, Unit::kScore), "5e+28");
  EXPECT_EQ(difference_text(-1234567.8, Unit::kNats), "-1.235e+06 nats");
}

TEST(Text, NeverWritesMinusZero) {
  EXPECT_EQ(value_text(-0.00001, Unit::kShare), "0.0%");
  EXPECT_EQ(value_text(-0.0, Unit::kNats), "0.000");
  EXPECT_EQ(value_text(-0.00001, Unit::kNats), "-1e-05");
}

TEST(Text, BoundsSmallPValuesInsteadOfRoundingThemToZero) {
  EXPECT_EQ(p_text(0.034), "p = 0.034");
  EXPECT_EQ(p_text(0.0005), "p = 0.0005");
  EXPECT_EQ(p_text(1e-9), "p < 0.0001");
  EXPECT_EQ(p_text(0.0), "p < 0.0001");
}

TEST(Text, GroupsThousands) {
  EXPECT_EQ(count_text(0), "0");
  EXPECT_EQ(count_text(999), "999");
  EXPECT_EQ(count_text(1000), "1,000");
  EXPECT_EQ(count_text(-1234567), "-1,234,567");
}

TEST(Text, RemovesControlCharactersButKeepsUtf8) {
  EXPECT_EQ(printable("a\x1b[31mb\n\tc"), "a [31mb  c");
  EXPECT_EQ(printable("caf\u00e9 \u6a21\u578b"), "caf\u00e9 \u6a21\u578b");
  EXPECT_EQ(printable("x\xC2\x9By"), "x y");  // a C1 control starts an escape on some terminals
}

TEST(Text, FindsTheBoundaryPhaseAndTheResiduesPhase) {
  const record::Result result = test::example_result();
  EXPECT_EQ(boundary_phase(result), 3);
  EXPECT_EQ(phase_of(result, 23), 3);
  EXPECT_EQ(boundary_phase(test::example_control()), std::nullopt);
  EXPECT_EQ(phase_of(record::Result{}, 23), std::nullopt);
}

}  // namespace
}  // namespace kvphase::report
