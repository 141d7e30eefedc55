#include "stats/item_shift.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace kvphase::stats {
namespace {

TEST(ItemShift, MovesAnItemsSumsAndSizesTogetherToEveryPlaceAlike) {
  const ItemShifts item{.groups = 4, .sum = {1, 2, 3, 4}, .size = {5, 6, 7, 8}};
  base::Random random(1);
  std::vector<double> sum, size;
  std::map<double, int> seen;  // by what group 0 has
  constexpr int kDraws = 4000;
  for (int b = 0; b < kDraws; ++b) {
    draw_shifts(item, random, sum, size);
    ASSERT_EQ(sum.size(), 4U);
    for (std::size_t g = 0; g < 4; ++g) {
      EXPECT_EQ(size[g], sum[g] + 4) << "the sizes went elsewhere";
      EXPECT_EQ(sum[(g + 1) % 4], sum[g] == 4 ? 1 : sum[g] + 1) << "the order changed";
    }
    ++seen[sum[0]];
  }
  ASSERT_EQ(seen.size(), 4U);
  for (const auto& [first, times] : seen) EXPECT_NEAR(times, kDraws / 4, 110) << first;
}

TEST(ItemShift, ItemsMoveIndependently) {
  const ItemShifts items{.groups = 3, .sum = {1, 0, 0, 10, 0, 0, 100, 0, 0}, .size = {}};
  EXPECT_EQ(items.items(), 3U);
  base::Random random(2);
  std::vector<double> sum, size;
  std::map<std::vector<double>, int> seen;
  for (int b = 0; b < 2700; ++b) {
    draw_shifts(items, random, sum, size);
    EXPECT_TRUE(size.empty());
    ++seen[sum];
  }
  ASSERT_EQ(seen.size(), 27U);
  for (const auto& [sums, times] : seen) EXPECT_NEAR(times, 100, 45) << sums[0] << " " << sums[1];
}

}  // namespace
}  // namespace kvphase::stats
