#include "report/charts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/example_result.h"

namespace kvphase::report {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> ids(const std::vector<Chart>& charts) {
  std::vector<std::string> names;
  for (const Chart& chart : charts) names.push_back(chart.id);
  return names;
}

TEST(Charts, ThereIsOnePerKindOfDataPresent) {
  EXPECT_THAT(ids(charts_of(test::example_result(), std::nullopt)),
              ElementsAre("curve", "phases", "periodogram", "score-margin"));
  record::Result bare = test::example_result();
  bare.folded.reset();
  bare.period.candidates.clear();
  bare.scores.clear();
  EXPECT_THAT(ids(charts_of(bare, std::nullopt)), ElementsAre("curve"));
  for (record::Group& g : bare.residues) g.accuracy.reset();
  EXPECT_THAT(ids(charts_of(bare, std::nullopt)), ElementsAre());
  EXPECT_THAT(ids(charts_of({}, std::nullopt)), ElementsAre());
}

TEST(Charts, TheCurveHoldsEveryResidueAndTheControlBesideIt) {
  const record::Result result = test::example_result();
  const Chart alone = charts_of(result, std::nullopt)[0];
  ASSERT_EQ(alone.spec["layer"].size(), 1);
  const base::Json& rows = alone.spec["layer"][0]["data"]["values"];
  ASSERT_EQ(rows.size(), 24);
  EXPECT_EQ(rows[3]["y"], *result.residues[3].accuracy);
  EXPECT_EQ(rows[3]["low"], *result.residues[3].low);
  EXPECT_EQ(rows[3]["boundary"], true);
  EXPECT_EQ(rows[4]["boundary"], false);
  const Chart both = charts_of(result, test::example_control())[0];
  EXPECT_EQ(both.spec["layer"].size(), 2);
  EXPECT_THAT(both.description, HasSubstr("Control: lowest"));
}

TEST(Charts, AControlOfAnotherDesignIsNotDrawn) {
  record::Result control = test::example_control();
  control.design.modulus = 8;
  for (const Chart& chart : charts_of(test::example_result(), control)) {
    for (const LegendEntry& entry : chart.legend) EXPECT_NE(entry.kind, "control") << chart.id;
  }
  control = test::example_control();
  control.folded->stride = 6;
  const auto charts = charts_of(test::example_result(), control);
  EXPECT_EQ(charts[0].legend.back().kind, "control");
  EXPECT_NE(charts[1].legend.back().kind, "control");
}

TEST(Charts, AResidueWithoutRepliesIsNullInTheChartAndNamedInTheTable) {
  record::Result result = test::example_control();
  result.residues[5] = {.index = 5, .planned = 50};
  const Chart chart = charts_of(result, std::nullopt)[0];
  EXPECT_TRUE(chart.spec["layer"][0]["data"]["values"][5]["y"].is_null());
  EXPECT_EQ(chart.data.rows[5][3], "undefined");
}

TEST(Charts, APValueOfZeroStaysFinite) {
  record::Result result = test::example_result();
  for (record::PeriodCandidate& c : result.period.candidates) c.p_adjusted = 0;
  for (const Chart& chart : charts_of(result, std::nullopt)) {
    if (chart.id != "periodogram") continue;
    EXPECT_EQ(chart.spec["layer"][0]["data"]["values"][0]["y"], 16.0);
  }
}

TEST(Charts, EveryFigureHasWordsAndATable) {
  for (const Chart& chart : charts_of(test::example_result(), test::example_control())) {
    EXPECT_FALSE(chart.description.empty()) << chart.id;
    EXPECT_EQ(chart.spec["description"], chart.description);
    ASSERT_FALSE(chart.data.rows.empty()) << chart.id;
    for (const auto& row : chart.data.rows) EXPECT_EQ(row.size(), chart.data.header.size());
  }
}

TEST(Charts, LongNamesAreCutBetweenCharacters) {
  record::Result result;
  result.context.model_name = std::string(59, 'a') + "\u00e9\u00e9\u00e9";
  EXPECT_EQ(series_name(result), std::string(59, 'a') + "\u2026");
  result.context.model_name = "";
  EXPECT_EQ(series_name(result), "model");
}

}  // namespace
}  // namespace kvphase::report
