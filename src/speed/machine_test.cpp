#include "speed/machine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace kvphase::speed {
namespace {

using ::testing::HasSubstr;

TEST(Machine, IsDescribedAndSurvivesTheRoundTripThroughJson) {
  const Machine machine = look_at_machine();
  EXPECT_GE(machine.cores, 1);
  EXPECT_FALSE(machine.processor.empty());
  ASSERT_TRUE(machine.memory && machine.available && machine.load);
  EXPECT_LT(*machine.available, *machine.memory);
  EXPECT_GT(*machine.memory, 1 << 28);
  EXPECT_EQ(machine_from_json(to_json(machine), "test"), machine);
  Machine unknown;
  EXPECT_EQ(machine_from_json(to_json(unknown), "test"), unknown);
}

TEST(Machine, WarnsWhenItIsBusyOrHasTooFewCores) {
  Machine machine{.cores = 2, .load = 0.1};
  EXPECT_TRUE(load_warnings(machine, 2).empty());
  machine.load = 1.1;
  EXPECT_TRUE(load_warnings(machine, 1).empty());  // a core is left for the other program
  ASSERT_EQ(load_warnings(machine, 2).size(), 1U);
  EXPECT_THAT(load_warnings(machine, 2)[0], HasSubstr("1.10 processes wanted to run"));
  machine.load.reset();
  ASSERT_EQ(load_warnings(machine, 3).size(), 1U);
  EXPECT_THAT(load_warnings(machine, 3)[0], HasSubstr("3 threads on 2 cores"));
}

TEST(Memory, PeakSeesWhatWasTouchedAndGivenBack) {
  constexpr std::size_t kBytes = 64 << 20;
  const bool anew = reset_peak();
  const auto before = memory_of_process();
  ASSERT_TRUE(before);
  {
    std::vector<char> touched(kBytes, 1);
    EXPECT_EQ(touched[kBytes / 2], 1);
  }
  const auto after = memory_of_process();
  ASSERT_TRUE(after);
  EXPECT_GE(after->peak - before->resident, static_cast<std::int64_t>(0.95 * kBytes));
  if (!anew) GTEST_SKIP() << "this system does not let the peak begin anew";
  ASSERT_TRUE(reset_peak());
  const auto again = memory_of_process();
  EXPECT_LT(again->peak - before->resident, static_cast<std::int64_t>(0.5 * kBytes));
}

}  // namespace
}  // namespace kvphase::speed
