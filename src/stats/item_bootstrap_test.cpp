#include "stats/item_bootstrap.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/random.h"

namespace kvphase::stats {
namespace {

using Values = std::span<std::optional<double>>;

void ratio(std::span<const double> sums, Values values) {
  if (sums[1] != 0) values[0] = sums[0] / sums[1];
}

TEST(ItemBootstrap, NoItemOneItemAndItemsAlikeHaveReasonsInPlaceOfIntervals) {
  EXPECT_EQ(bootstrap_statistic({}, 2, 1, ratio)[0].reason, "undefined for these items");
  const std::vector<double> one = {1, 2};
  const Estimate single = bootstrap_statistic(one, 2, 1, ratio)[0];
  EXPECT_EQ(single.value, 0.5);
  EXPECT_EQ(single.reason, "fewer than two items");
  const std::vector<double> alike = {1, 2, 1, 2, 1, 2};
  const Estimate same = bootstrap_statistic(alike, 2, 1, ratio)[0];
  EXPECT_EQ(same.value, 0.5);
  EXPECT_FALSE(same.low);
  EXPECT_EQ(same.reason, "the same in all replicates: nothing to doubt it by");
}

TEST(ItemBootstrap, AValueThatManyReplicatesLeaveUndefinedHasNoInterval) {
  const std::vector<double> rows = {1, 1, 0, 0, 2, 0};  // a third of the draws has no denominator
  const Estimate e = bootstrap_statistic(rows, 2, 1, ratio)[0];
  EXPECT_EQ(e.value, 3.0);
  EXPECT_FALSE(e.low);
  EXPECT_NE(e.reason.find("% of the replicates"), std::string::npos) << e.reason;
}

// The interval of a ratio of sums covers the true ratio about as often as it says.
TEST(ItemBootstrap, TheIntervalOfARatioCoversItAboutAsOftenAsItSays) {
  base::Random random(3);
  constexpr int kRuns = 300;
  int covered = 0;
  for (int run = 0; run < kRuns; ++run) {
    std::vector<double> rows;
    for (int item = 0; item < 60; ++item) {
      const double ease = random.normal();
      double after = 0, before = 0;
      for (int k = 0; k < 8; ++k) {
        const bool right = random.normal() < ease + 0.8;
        before += right ? 1 : 0;
        after += right && random.uniform() < 0.7 ? 1 : 0;
      }
      rows.push_back(after);
      rows.push_back(before);
    }
    const Estimate e = bootstrap_statistic(
        rows, 2, 1, ratio, {.replicates = 400, .seed = static_cast<std::uint64_t>(run)})[0];
    ASSERT_TRUE(e.low && e.high);
    ASSERT_LE(*e.low, *e.value);
    ASSERT_GE(*e.high, *e.value);
    covered += *e.low <= 0.7 && 0.7 <= *e.high ? 1 : 0;
  }
  const double share = static_cast<double>(covered) / kRuns;
  EXPECT_GE(share, 0.90);
  EXPECT_LE(share, 0.99);
  RecordProperty("coverage", std::to_string(share));
}

}  // namespace
}  // namespace kvphase::stats
