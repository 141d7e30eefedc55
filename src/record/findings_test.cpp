#include "record/findings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace kvphase::record {
namespace {

using ::testing::HasSubstr;

Findings example() {
  Findings f{.kind = "knockout", .title = "a title", .sentence = "A sentence."};
  f.options = {{"items", 3}};
  f.data = {{"x", 1.5}};
  f.tables.push_back({.title = "t", .header = {"a", "b"}, .rows = {{"1", "2"}}, .note = "n"});
  f.figures.push_back({.kind = Figure::Kind::kHeatmap,
                       .id = "map",
                       .title = "Map",
                       .rows = {"r"},
                       .columns = {"0", "1"},
                       .cells = {{0.5, std::nullopt}},
                       .low = -1,
                       .on_page_only = true});
  f.figures.push_back({.kind = Figure::Kind::kPoints,
                       .id = "plane",
                       .series = {{.name = "s", .x = {1}, .y = {2.0}, .label = {"p"}, .size = {3}}},
                       .diagonal = true,
                       .in_order = true,
                       .log_x = true,
                       .log_y = true,
                       .named = true});
  f.notes = {"note"};
  return f;
}

TEST(Findings, SurviveTheRoundTripThroughJson) {
  const base::Json json = to_json(example());
  EXPECT_EQ(json.at("schema"), "kvphase.knockout/1");
  const Findings read = findings_from_json(json, "knockout", "test");
  EXPECT_EQ(to_json(read).dump(), json.dump());
  EXPECT_TRUE(read.figures[0].on_page_only);
  const Figure& plane = read.figures[1];
  EXPECT_TRUE(plane.in_order && plane.log_x && plane.log_y && plane.named);
  EXPECT_EQ(plane.series[0].size, std::vector<double>{3});
}

TEST(Findings, OfAnotherKindOrWithCellsMissingAreRefusedByName) {
  const auto error = [](const base::Json& json) {
    try {
      findings_from_json(json, "knockout", "test");
    } catch (const base::Error& e) {
      return std::string(e.what());
    }
    return std::string("accepted");
  };
  base::Json other = to_json(example());
  other["schema"] = "kvphase.gates/1";
  EXPECT_THAT(error(other),
              HasSubstr("expected schema 'kvphase.knockout/1', got 'kvphase.gates/1'"));
  base::Json cut = to_json(example());
  cut["figures"][0]["cells"][0].erase(0);
  EXPECT_THAT(error(cut), HasSubstr("expected 2 cells per row, got 1"));
  base::Json uneven = to_json(example());
  uneven["figures"][1]["series"][0]["y"].push_back(1);
  EXPECT_THAT(error(uneven), HasSubstr("expected lists of 1 values in series 's'"));
}

}  // namespace
}  // namespace kvphase::record
