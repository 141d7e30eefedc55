#include "speed/measure.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "model/presets.h"
#include "speed/bytes.h"
#include "speed/rates.h"

namespace kvphase::speed {
namespace {

Cell cell(Operation operation, const std::string& design) {
  return {.operation = operation,
          .design = design,
          .config = model::preset("small/" + design),
          .tokens = 61,
          .batch = operation == Operation::kTrain ? 2 : 1,
          .repeats = 2,
          .decode_steps = operation == Operation::kPrompt ? 4 : 0,
          .seconds = 60};
}

TEST(Measure, RunsEveryOperationOfEveryKindOfDesign) {
  for (const char* design : {"full-1kv", "w4s4-1kv", "w8s8-4kv-staggered", "w8s8-tail-1kv",
                             "w8s8-tied", "deepseek-w8s4"}) {
    for (const Operation operation :
         {Operation::kTrain, Operation::kForward, Operation::kPrompt, Operation::kAttention}) {
      const Measured m = measure(cell(operation, design));
      SCOPED_TRACE(fmt::format("{} of {}", name_of(operation), design));
      ASSERT_TRUE(m.time);
      EXPECT_EQ(m.time->runs, 2);
      EXPECT_TRUE(m.warmed_up);
      EXPECT_LE(0, m.time->low);
      EXPECT_LE(m.time->low, m.time->median);
      EXPECT_LE(m.time->median, m.time->high);
      ASSERT_TRUE(m.resident_peak && m.resident_before);
      EXPECT_GE(*m.resident_peak, *m.resident_before);
      if (operation != Operation::kPrompt) continue;
      ASSERT_TRUE(m.decode);
      EXPECT_EQ(m.decode->runs, 3);  // the first is not counted
      EXPECT_EQ(m.bytes, cache_bytes(cell(operation, design).config, 61));
    }
  }
}

TEST(Measure, CountsTheFirstRunWhereThereIsTimeForNoMore) {
  Cell once = cell(Operation::kForward, "full-1kv");
  once.seconds = 0;
  const Measured m = measure(once);
  EXPECT_FALSE(m.warmed_up);
  EXPECT_EQ(m.time->runs, 1);
}

TEST(Measure, OfTheMachineFindsItsRates) {
  constexpr std::int64_t kBuffer = 1 << 26;
  const Rates rates = measure_rates(2, 0.1, kBuffer);
  EXPECT_GT(rates.mm_flops, 1e8);  // a pocket calculator's processor has more
  EXPECT_GE(rates.flops, rates.mm_flops);
  EXPECT_FALSE(rates.flops_how.empty());
  EXPECT_GT(rates.read_bytes, 1e8);
  EXPECT_GT(rates.triad_bytes, 1e8);
  EXPECT_EQ(rates.buffer, kBuffer);
}

}  // namespace
}  // namespace kvphase::speed
