#include "report/findings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kvphase::report {
namespace {

using base::Json;
using record::Figure;
using record::Findings;
using ::testing::HasSubstr;
using ::testing::Not;

Findings example() {
  Findings f{.kind = "knockout", .title = "model <b>", .sentence = "Head 0 costs phase 1."};
  f.tables.push_back(
      {.title = "Heads", .header = {"head", "loss"}, .rows = {{"layer 1 head 0", "-80.7"}}});
  f.figures.push_back({.kind = Figure::Kind::kHeatmap,
                       .id = "map",
                       .title = "Change by head and phase",
                       .x_title = "phase",
                       .y_title = "change, %",
                       .rows = {"layer 1 head 0", "layer 1 head 1"},
                       .columns = {"0", "1"},
                       .cells = {{-3.0, -80.7}, {std::nullopt, 22.1}},
                       .low = -100,
                       .high = 100});
  f.figures.push_back({.kind = Figure::Kind::kPoints,
                       .id = "plane",
                       .title = "Plane",
                       .x_title = "static",
                       .y_title = "per window",
                       .series = {{.name = "keys", .x = {2}, .y = {1.5}, .label = {"layer 0"}}},
                       .diagonal = true});
  return f;
}

TEST(FindingsReport, AMapInTextHasEveryNumberAndADashWhereThereIsNone) {
  const std::string text = findings_text(example());
  EXPECT_THAT(text, HasSubstr("Head 0 costs phase 1."));
  EXPECT_THAT(text, HasSubstr("layer 1 head 0  -3.00  -80.7\n"));
  EXPECT_THAT(text, HasSubstr("layer 1 head 1      -   22.1\n"));
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
  EXPECT_THAT(findings_text(example(), true), HasSubstr("\x1b[97;48;5;160m  -80.7\x1b[0m"));
}

TEST(FindingsReport, FiguresAreCheckedSpecificationsWithTheirCells) {
  const std::vector<Chart> charts = charts_of(example());
  ASSERT_EQ(charts.size(), 2U);
  EXPECT_EQ(charts[0].spec.at("data").at("values").size(), 3U);  // the undefined cell is left out
  EXPECT_EQ(charts[0].spec.at("encoding").at("color").at("scale").at("domainMid"), 0);
  EXPECT_EQ(charts[0].data.rows.at(1).at(1), "-");
  EXPECT_EQ(charts[1].spec.at("layer").size(), 2U);  // the points and the diagonal
}

TEST(FindingsReport, LinesOfOneKindAreNamedOnceAndJoinedInTheirOrderWhereThatIsAskedFor) {
  Findings f = example();
  record::Figure& path = f.figures[1];
  path.kind = Figure::Kind::kLines;
  path.series.push_back({.name = "keys", .x = {3, 2, 4}, .y = {1.0, 2.0, 3.0}});
  path.series.push_back({.name = "values", .role = "boundary", .x = {1}, .y = {1.0}});
  const auto line = [&] { return charts_of(f)[1].spec.at("layer").at(1).at("layer").at(0); };
  EXPECT_EQ(charts_of(f)[1].legend.size(), 3U);  // keys, values, the diagonal
  EXPECT_FALSE(line().at("encoding").contains("order"));
  path.in_order = true;
  EXPECT_EQ(line().at("encoding").at("order").at("field"), "at");
  EXPECT_EQ(charts_of(f)[1].spec.at("layer").at(1).at("data").at("values").at(2).at("at"), 2);
}

TEST(FindingsReport, LogarithmicAxesNamesAndSizesOfMarksAreInTheSpecification) {
  Findings f = example();
  record::Figure& costs = f.figures[1];
  EXPECT_FALSE(charts_of(f)[1].spec.dump().find("\"log\"") != std::string::npos);
  costs.log_x = costs.log_y = costs.named = true;
  costs.series[0].x = {2, 4};
  costs.series[0].y = {1.0, 3.0};
  costs.series[0].label = {"a", "b"};
  costs.series[0].size = {5, 10};
  const Json spec = charts_of(f)[1].spec;
  const Json& points = spec.at("layer").at(0);
  EXPECT_EQ(points.at("encoding").at("x").at("scale").at("base"), 2);
  EXPECT_EQ(points.at("encoding").at("y").at("scale").at("type"), "log");
  EXPECT_EQ(points.at("data").at("values").at(0).at("size"), 0.5);  // of the largest
  const Json& name = points.at("layer").back();
  EXPECT_EQ(name.at("encoding").at("text").at("value"), "keys");
  EXPECT_EQ(name.at("transform").at(0).at("filter"), "datum.at === 1");
}

TEST(FindingsReport, AMapForThePageOnlyIsNotInTheText) {
  Findings f = example();
  f.figures[0].on_page_only = true;
  EXPECT_THAT(findings_text(f), Not(HasSubstr("Change by head and phase")));
  EXPECT_THAT(findings_html(f), HasSubstr("<figure id=\"map\""));
}

TEST(FindingsReport, ThePageEscapesNamesAndHoldsItsFigures) {
  const std::string html = findings_html(example());
  EXPECT_THAT(html, HasSubstr("<h1>Head 0 costs phase 1.</h1>"));
  EXPECT_THAT(html, HasSubstr("model &lt;b&gt;"));
  EXPECT_THAT(html, Not(HasSubstr("model <b>")));
  EXPECT_THAT(html, HasSubstr("<figure id=\"map\""));
  EXPECT_THAT(html, HasSubstr("Figure 2. Plane."));
}

}  // namespace
}  // namespace kvphase::report
