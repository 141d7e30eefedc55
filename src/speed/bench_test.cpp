#include "speed/bench.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "model/presets.h"
#include "speed/bytes.h"
#include "speed/flops.h"

namespace kvphase::speed {
namespace {

using ::testing::ElementsAre;

NamedDesign design(const std::string& name) { return {name, model::preset("small/" + name)}; }

BenchOptions options() {
  return {.designs = {design("full-1kv"), design("w4s4-1kv")},
          .contexts = {256, 1024},
          .what = {What::kTrain, What::kPrefill, What::kDecode},
          .threads = 2,
          .step_tokens = 2048};
}

Done done(const std::string& name, Operation operation, std::int64_t tokens, double seconds,
          std::int64_t memory = 0) {
  return {
      .cell = {.operation = operation,
               .design = name,
               .config = model::preset("small/" + name),
               .tokens = tokens},
      .measured = {
          .time = spread_of({seconds}), .resident_before = 1000, .resident_peak = 1000 + memory}};
}

TEST(BenchCells, GoThroughTheDesignsSideBySideFromTheShortestContext) {
  std::vector<std::string> order;
  for (const Cell& cell : cells_of(options())) {
    order.push_back(fmt::format("{} {} {} x {}", name_of(cell.operation), cell.design, cell.batch,
                                cell.tokens));
    EXPECT_EQ(cell.decode_steps, cell.operation == Operation::kPrompt ? 33 : 0);
  }
  EXPECT_THAT(order, ElementsAre("train full-1kv 8 x 256", "train w4s4-1kv 8 x 256",
                                 "prompt full-1kv 1 x 256", "prompt w4s4-1kv 1 x 256",
                                 "train full-1kv 2 x 1024", "train w4s4-1kv 2 x 1024",
                                 "prompt full-1kv 1 x 1024", "prompt w4s4-1kv 1 x 1024"));
  BenchOptions memory = options();
  memory.what = {What::kMemory};
  ASSERT_EQ(cells_of(memory).size(), 4U);
  EXPECT_EQ(cells_of(memory)[0].decode_steps, 0);
}

TEST(BenchEstimates, OfTimeFollowTheUsefulWorkAndTheMeasuredGrowth) {
  const Cell cell = done("full-1kv", Operation::kForward, 4096, 0).cell;
  EXPECT_FALSE(estimated_seconds(cell, {}, std::nullopt));
  EXPECT_DOUBLE_EQ(*estimated_seconds(cell, {}, 1e9),
                   forward_flops(cell.config, 4096).total() / 1e8);  // a tenth of the rate
  std::vector<Done> measured = {done("full-1kv", Operation::kForward, 1024, 2),
                                done("w4s4-1kv", Operation::kForward, 2048, 99),
                                done("full-1kv", Operation::kPrompt, 2048, 99),
                                done("full-1kv", Operation::kForward, 8192, 99)};
  const double work =
      forward_flops(cell.config, 4096).total() / forward_flops(cell.config, 1024).total();
  EXPECT_GT(work, 4);
  EXPECT_DOUBLE_EQ(*estimated_seconds(cell, measured, 1e9), 2 * work);
  // From 512 to 1024 tokens time grew fourfold: so it will again, twice.
  measured.push_back(done("full-1kv", Operation::kForward, 512, 0.5));
  EXPECT_DOUBLE_EQ(*estimated_seconds(cell, measured, 1e9), 2 * 16);
}

TEST(BenchEstimates, OfMemoryGrowWithTheTokensAndWithTheirSquareWhereThatWasMeasured) {
  const Cell cell = done("full-1kv", Operation::kForward, 4096, 0).cell;
  std::vector<Done> measured;
  EXPECT_DOUBLE_EQ(*estimated_memory(cell, measured),
                   4096.0 * 4 * static_cast<double>(cell.config.vocab_size))
      << "its logits at least";
  EXPECT_FALSE(estimated_memory(done("full-1kv", Operation::kPrompt, 4096, 0).cell, measured));
  measured.push_back(done("full-1kv", Operation::kForward, 2048, 1, 4000));
  EXPECT_DOUBLE_EQ(*estimated_memory(cell, measured), 8000);
  measured.push_back(done("full-1kv", Operation::kForward, 1024, 1, 1000));
  EXPECT_NEAR(*estimated_memory(cell, measured), 16000, 1e-6);
  measured.back().measured.resident_peak = 1000 + 3900;  // grew less than the tokens
  EXPECT_DOUBLE_EQ(*estimated_memory(cell, measured), 8000);
}

TEST(BenchRows, AreComparedWithTheControlOfAsManyKvHeadsWhereThereIsOne) {
  Bench bench{.threads = 1};
  for (const char* design : {"full-1kv", "full-4kv", "w4s4-1kv", "w8s8-4kv", "w8s8-2kv"}) {
    bench.done.push_back(done(design, Operation::kPrompt, 1024, 1));
  }
  std::vector<std::string> controls;
  for (const Row& row : rows_of(bench)) controls.push_back(row.control_design);
  EXPECT_EQ(controls, (std::vector<std::string>{"", "", "full-1kv", "full-4kv", "full-1kv"}));
}

TEST(BenchRows, StandBesideTheirFloorsAndTheControl) {
  Bench bench{.threads = 2};
  bench.rates = {{.flops = 1e9, .read_bytes = 1e9}, {.flops = 2e9, .read_bytes = 5e8}};
  bench.done = {done("w4s4-1kv", Operation::kPrompt, 1024, 0.5),
                done("full-1kv", Operation::kPrompt, 1024, 2)};
  bench.done[0].measured.decode = spread_of({0.001, 0.002, 0.006});
  const std::vector<Row> rows = rows_of(bench);
  ASSERT_EQ(rows.size(), 3U);
  EXPECT_EQ(rows[0].what, What::kPrefill);
  EXPECT_DOUBLE_EQ(rows[0].rate(), 2048);
  EXPECT_DOUBLE_EQ(*rows[0].control, 4);
  EXPECT_DOUBLE_EQ(*rows[0].floor, prefill_flops(bench.done[0].cell.config, 1024).total() / 2e9);
  EXPECT_DOUBLE_EQ(*rows[0].share, *rows[0].floor / 0.5);
  EXPECT_FALSE(rows[0].bound_by_memory);
  EXPECT_EQ(rows[1].what, What::kDecode);
  EXPECT_DOUBLE_EQ(rows[1].rate(), 500);
  EXPECT_DOUBLE_EQ(*rows[1].floor, decode_bytes(bench.done[0].cell.config, 1024).total() / 1e9);
  EXPECT_TRUE(rows[1].bound_by_memory);
  EXPECT_FALSE(rows[1].control);  // the control did not decode
  EXPECT_FALSE(rows[2].control);  // it is the control
  bench.rates.clear();
  EXPECT_FALSE(rows_of(bench)[0].floor);
}

TEST(Bench, SurvivesTheRoundTripThroughJson) {
  Bench bench{.machine = look_at_machine(), .threads = 2};
  bench.rates = {{.flops = 1e9, .flops_how = "mm", .read_bytes = 1e9, .buffer = 5}};
  bench.done = {done("w4s4-1kv", Operation::kPrompt, 1024, 0.5, 7)};
  bench.left_out = {{.cell = done("full-1kv", Operation::kTrain, 2048, 1).cell,
                     .reason = "too long",
                     .estimate = 99}};
  bench.accuracy = {{.design = "w4s4-1kv", .runs = 3, .worst = 0.5, .low = 0.25, .high = 1}};
  const base::Json json = to_json(bench);
  const Bench read = bench_from_json(json, "test");
  EXPECT_EQ(to_json(read).dump(), json.dump());
  EXPECT_EQ(read.machine, bench.machine);
  EXPECT_EQ(read.left_out[0].reason, "too long");
  EXPECT_EQ(read.left_out[0].estimate, 99);
  EXPECT_EQ(read.accuracy[0].low, 0.25);
  base::Json other = json;
  other["left_out"][0]["resaon"] = "typo";
  EXPECT_THROW(bench_from_json(other, "test"), base::Error);
  other = json;
  other["rates"][0] = nullptr;
  EXPECT_THROW(bench_from_json(other, "test"), base::Error);
}

}  // namespace
}  // namespace kvphase::speed
