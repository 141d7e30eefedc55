#include "base/nearest.h"

#include <gtest/gtest.h>

#include <vector>

namespace kvphase::base {
namespace {

TEST(Nearest, FindsTheSmallestEdit) {
  const std::vector<std::string> names = {"window", "stride", "gate_bias"};
  EXPECT_EQ(nearest_name("windwo", names), "window");
  EXPECT_EQ(nearest_name("strid", names), "stride");
  EXPECT_EQ(nearest_name("gatebias", names), "gate_bias");
}

TEST(Nearest, IsEmptyWithoutNames) { EXPECT_EQ(nearest_name("x", {}), ""); }

}  // namespace
}  // namespace kvphase::base
