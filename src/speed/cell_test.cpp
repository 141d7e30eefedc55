#include "speed/cell.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "model/presets.h"

namespace kvphase::speed {
namespace {

TEST(Spread, IsMedianAndRangeAtAnyNumberOfRuns) {
  const Spread one = spread_of({3});
  EXPECT_EQ(one.median, 3);
  EXPECT_EQ(one.low, 3);
  EXPECT_EQ(one.runs, 1);
  const Spread even = spread_of({4, 1, 2, 8});
  EXPECT_EQ(even.median, 3);
  EXPECT_EQ(even.low, 1);
  EXPECT_EQ(even.high, 8);
  EXPECT_EQ(spread_of({5, 1, 9}).median, 5);
}

TEST(Cell, AndWhatWasMeasuredSurviveTheRoundTripThroughJson) {
  const Cell cell{.operation = Operation::kPrompt,
                  .design = "w4s4-1kv",
                  .config = model::preset("small/w4s4-1kv"),
                  .tokens = 1024,
                  .batch = 2,
                  .threads = 3,
                  .repeats = 4,
                  .decode_steps = 5,
                  .seconds = 0.5};
  const Cell read = cell_from_json(to_json(cell), "test");
  EXPECT_EQ(to_json(read).dump(), to_json(cell).dump());
  EXPECT_EQ(read.config, cell.config);
  const Cell rates{.operation = Operation::kRates};
  EXPECT_EQ(to_json(cell_from_json(to_json(rates), "test")).dump(), to_json(rates).dump());

  Measured measured{.time = spread_of({1, 3, 2}), .warmed_up = false, .resident_peak = 5};
  measured.rates =
      Rates{.flops = 1e9, .flops_how = "x", .mm_flops = 4, .read_bytes = 2, .buffer = 3};
  measured.bytes = 77;
  const base::Json json = to_json(measured);
  const Measured again = measured_from_json(json, "test");
  EXPECT_EQ(to_json(again).dump(), json.dump());
  EXPECT_EQ(again.time->median, 2);
  EXPECT_EQ(again.time->low, 1);
  EXPECT_EQ(again.time->high, 3);
  EXPECT_FALSE(again.warmed_up);
  EXPECT_EQ(again.bytes, 77);
  EXPECT_EQ(again.rates->mm_flops, 4);
  EXPECT_TRUE(json.at("decode").is_null());
  EXPECT_TRUE(json.at("resident_before").is_null());
}

TEST(Cell, OfNoSizeIsRefused) {
  const auto cell = [](auto change) {
    Cell c{.config = model::preset("small/w4s4-1kv"), .tokens = 16};
    change(c);
    return to_json(c);
  };
  EXPECT_NO_THROW(cell_from_json(cell([](Cell&) {}), "test"));
  EXPECT_THROW(cell_from_json(cell([](Cell& c) { c.tokens = 0; }), "test"), base::Error);
  EXPECT_THROW(cell_from_json(cell([](Cell& c) { c.threads = 0; }), "test"), base::Error);
  EXPECT_THROW(cell_from_json(cell([](Cell& c) { c.repeats = 0; }), "test"), base::Error);
}

}  // namespace
}  // namespace kvphase::speed
