#include "report/run_comparison.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "report/cost_chart.h"
#include "report/run_charts.h"
#include "report/run_comparison_html.h"
#include "tests/support/example_runs.h"

namespace kvphase::report {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(RunComparisonReport, DrawsAPanelPerDesignAndALinePerSeed) {
  const record::RunComparison c = test::example_runs();
  const auto sets = run_sets(c);
  ASSERT_EQ(sets.size(), 3U);
  EXPECT_EQ(sets[0].title, "Prefix padding, positions modulo 24");
  std::set<std::string> designs;
  for (const auto& run : c.runs) designs.insert(run.design);
  for (const RunSet& set : sets) {
    const auto figures = figures_of(c, set);
    ASSERT_EQ(figures.size(), 5U);
    const RunFigure& curves = figures[2];
    EXPECT_EQ(curves.panels.size(), designs.size());
    std::size_t drawn = 0;
    std::set<std::string> lines;
    for (const Panel& panel : curves.panels) {
      for (const auto& layer : panel.spec.at("layer")) {
        for (const auto& row : layer.at("data").at("values")) {
          if (!row.contains("s")) continue;  // the band
          ++drawn;
          lines.insert(panel.title + row.at("s").get<std::string>());
        }
      }
    }
    fmt::print("{}: {} panels, {} lines, {} points\n", set.title, curves.panels.size(),
               lines.size(), drawn);
    std::size_t runs = 0;
    for (const auto& run : c.runs) {
      runs += run.result.design.padding == c.runs[set.groups[0].runs[0]].result.design.padding;
    }
    EXPECT_EQ(lines.size(), runs);
    EXPECT_EQ(drawn, 24 * runs);
    // Full attention has no phases.
    EXPECT_EQ(figures[3].panels.size(), designs.size() - 4);
  }
}

TEST(RunComparisonReport, FoldsCurvesByTheRightAnswersOfTheirResidues) {
  record::RunComparison c = test::example_runs();
  const auto run = std::ranges::find_if(c.runs, [](const auto& r) { return r.stride == 8; });
  const auto sets = run_sets(c);
  const auto figure = figures_of(c, sets[0])[3];
  const auto row = std::ranges::find_if(figure.data.rows,
                                        [&](const auto& cells) { return cells[0] == run->name; });
  ASSERT_NE(row, figure.data.rows.end());
  const auto& g = run->result.residues;
  const double share = static_cast<double>(*g[7].correct + *g[15].correct + *g[23].correct) /
                       static_cast<double>(g[7].n + g[15].n + g[23].n);
  EXPECT_EQ((*row)[8], number_text(share));
}

TEST(RunComparisonReport, BandsAreOfFullAttentionAlsoForStaggeredTwins) {
  const record::RunComparison c = test::example_runs();
  const auto sets = run_sets(c);
  for (const RunGroup& group : sets[0].groups) {
    const bool paired = group.name.find("full-") == std::string::npos;
    EXPECT_EQ(group.references.size(), paired ? 3U : 0U) << group.name;
    for (const std::size_t i : group.references) EXPECT_TRUE(c.runs[i].control) << group.name;
  }
}

TEST(RunComparisonReport, PutsNoTextFromOutsideIntoMarkup) {
  record::RunComparison c = test::example_runs();
  c.runs[0].name = "</script><img src=x onerror=alert(1)>";
  c.runs[0].design = "<b>";
  c.notes = {"<i>note</i>"};
  const std::string html = run_comparison_html(c);
  EXPECT_THAT(html, Not(HasSubstr("<img src=x")));
  EXPECT_THAT(html, Not(HasSubstr("<i>note")));
  EXPECT_THAT(html, HasSubstr("default-src 'none'"));
  EXPECT_LT(html.size(), 3'000'000U);
  fmt::print("{} runs: a page of {} bytes\n", c.runs.size(), html.size());
}

TEST(RunComparisonReport, WritesARowPerRunAndQuotesNames) {
  record::RunComparison c = test::example_runs();
  c.runs[0].name = "a,\"b\"";
  const std::string csv = runs_csv(c);
  EXPECT_EQ(static_cast<std::size_t>(std::ranges::count(csv, '\n')), c.runs.size() + 1);
  EXPECT_THAT(csv, HasSubstr("\n\"a,\"\"b\"\"\",0,full-1kv,,42,prefix,,,24,576,accuracy,"));
  const std::string pairs = pairs_csv(c);
  EXPECT_EQ(static_cast<std::size_t>(std::ranges::count(pairs, '\n')), c.pairs.size() + 1);
}

TEST(RunComparisonReport, SaysNothingWhereNothingIsKnown) {
  record::RunComparison c;
  c.sentence = "Nothing to compare.";
  c.runs.resize(1);
  c.runs[0].name = "empty";
  EXPECT_TRUE(run_sets(c).empty());
  EXPECT_TRUE(cost_figure(c, {.groups = {{.name = "empty", .runs = {0}}}}).panels.empty());
  EXPECT_THAT(run_comparison_text(c), HasSubstr("empty       -        -    -      -  unclear"));
  EXPECT_THAT(run_comparison_html(c), HasSubstr("Nothing to compare."));
}

TEST(RunComparisonReport, DrawsWorstAgainstCostADesignANamedMarkAndJoinsTwins) {
  record::RunComparison c = test::example_runs();
  for (auto& run : c.runs) {  // as of a study that changed the window
    if (!run.published && run.design == "w8s8-1kv" && run.seed == 44U) run.variant = "window=16";
    if (!run.published && run.design == "w8s8-4kv")
      run.training.steps = run.seed == 44U ? 900 : 300;
  }
  record::label_runs(c.runs);
  const RunSet set = run_sets(c).front();
  const RunFigure figure = cost_figure(c, set);
  EXPECT_EQ(figure.legend.size(), 3U);
  std::map<std::string, base::Json> rows;
  std::map<std::string, std::string> panel_of;
  std::size_t joined = 0;
  for (const Panel& panel : figure.panels) {
    double before = 0;
    for (const auto& row : panel.spec.at("data").at("values")) {
      const std::string name = row.at("name");
      rows[name] = row;
      panel_of.emplace(name, panel.title);
      EXPECT_THAT(panel.detail,
                  HasSubstr(fmt::format("{} {} (", row.at("number").get<std::string>(), name)))
          << "every mark is named in its key";
      EXPECT_GE(row.at("x").get<double>(), before * 1.005)
          << name << ": marks do not cover another";
      before = row.at("x");
      EXPECT_LE(row.at("from").get<double>(), row.at("low").get<double>());
      EXPECT_GE(row.at("to").get<double>(), row.at("high").get<double>());
    }
    const auto& first = panel.spec.at("layer").at(0);
    if (!first.contains("data")) continue;
    for (const auto& twin : first.at("data").at("values")) {
      EXPECT_GT(twin.at("x2"), twin.at("x")) << "more tokens that wait for their windows to end";
      ++joined;
    }
  }
  EXPECT_EQ(panel_of.at("w8s8-1kv, window=16"), "w8s8-1kv, changed");
  EXPECT_EQ(panel_of.at("w8s8-4kv, 900 steps"), "w8s8-4kv, changed");
  EXPECT_EQ(panel_of.at("w8s8-4kv, 300 steps"), "Aligned and staggered grids, stride 8");
  EXPECT_EQ(panel_of.at("w8s8-4kv-staggered"), "Aligned and staggered grids, stride 8");
  EXPECT_EQ(rows.at("w8s8-1kv, window=16").at("fill"), "var(--paper)") << "one seed: hollow";
  EXPECT_NE(rows.at("w8s8-4kv-staggered").at("fill"), "var(--paper)");
  std::set<std::string> designs;
  for (const auto& run : c.runs) designs.insert(run.design);
  EXPECT_EQ(rows.size(), designs.size() + 2);
  EXPECT_EQ(figure.data.rows.size(), rows.size());
  double sum = 0, low = 1;
  for (const auto& run : c.runs) {
    if (run.published || run.design != "w8s8-1kv" || run.result.design.padding != "prefix")
      continue;
    const double worst = *run.result.worst.estimate.value;
    if (run.variant.empty()) {
      sum += worst;
      low = std::min(low, worst);
    } else {
      EXPECT_EQ(rows.at("w8s8-1kv, window=16").at("y"), worst);
    }
  }
  EXPECT_DOUBLE_EQ(rows.at("w8s8-1kv").at("y").get<double>(), sum / 2);
  EXPECT_EQ(rows.at("w8s8-1kv").at("low"), low);
  std::size_t staggered = 0;
  for (const auto& name : designs) staggered += name.ends_with("-staggered") ? 1 : 0;
  EXPECT_EQ(joined, staggered);
}

TEST(RunComparisonReport, WritesAmountsShort) {
  EXPECT_EQ(amount_text(999), "999");
  EXPECT_EQ(amount_text(78'000), "78K");
  EXPECT_EQ(amount_text(1'234'567), "1.23M");
  EXPECT_EQ(amount_text(std::nullopt), "-");
  EXPECT_EQ(number_text(0.5056), "50.6");
  record::TestedDifference d{.estimate = {.value = -0.453, .low = -0.525, .high = -0.377}};
  EXPECT_EQ(tested_text(d), "-45.3 [-52.5 to -37.7]");
}

}  // namespace
}  // namespace kvphase::report
