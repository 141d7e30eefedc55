#include "stats/fold_scan.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>

#include "base/random.h"
#include "stats/large_table.h"

namespace kvphase::stats {
namespace {

// Items of 1 to 40 observations: runs, runs with holes, the same holes again, constant items.
ScoreTable mixed_table() {
  base::Random random(3);
  ScoreTable table;
  for (std::int64_t i = 0; i < 400; ++i) {
    const auto n = static_cast<std::int64_t>(1 + random.uniform_index(40));
    const std::int64_t holes = i % 4 == 0 ? 3 : 0;
    auto position = static_cast<std::int32_t>(random.uniform_index(500));
    table.ids.push_back(i);
    for (std::int64_t j = 0; j < n; ++j) {
      table.position.push_back(position);
      table.score.push_back(i % 9 == 0 ? 1 : random.normal());
      position += holes > 0 && j % holes == 1 ? 2 : 1;
    }
    table.first.push_back(table.score.size());
  }
  return table;
}

void expect_same(const Carried& scan, const Carried& plain, const std::string& what) {
  ASSERT_EQ(scan.sum.size(), plain.sum.size());
  double largest = 0;
  for (std::size_t k = 0; k < plain.sum.size(); ++k) {
    ASSERT_EQ(scan.sum[k].size(), plain.sum[k].size());
    for (std::size_t j = 0; j < plain.sum[k].size(); ++j) {
      EXPECT_NEAR(scan.sum[k][j], plain.sum[k][j], 1e-9) << what << " carrier " << k << " at " << j;
      largest = std::max(largest, std::abs(scan.sum[k][j] - plain.sum[k][j]));
    }
  }
  EXPECT_EQ(scan.sizes, plain.sizes) << what;
  EXPECT_NEAR(scan.squares, plain.squares, 1e-8) << what;
  EXPECT_EQ(scan.items, plain.items) << what;
  std::printf("%s: squares %.6f and %.6f, sums differ by %.1e at most\n", what.c_str(),
              scan.squares, plain.squares, largest);
}

TEST(FoldScan, OnePassOverTheItemsGivesTheSumsOfAFolder) {
  const ScoreTable table = mixed_table();
  const std::vector<std::int64_t> candidates = {2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 17, 64};
  Folder folder(table, candidates);
  const FoldScan scan(table, informative_items(table), candidates, folder.carriers());
  expect_same(scan.observed(), folder.carry_observed(), "observed");
  EXPECT_NEAR(scan.observed().total, folder.carry_observed().total, 1e-8);
  for (const std::int64_t classes : {1, 2, 4, 6, 64}) {
    expect_same(scan.expected(classes), folder.carry_expected(classes),
                "expected mod " + std::to_string(classes));
  }
}

}  // namespace
}  // namespace kvphase::stats
