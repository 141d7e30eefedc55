#include "stats/position_folder.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>

#include "base/random.h"
#include "stats/period.h"

namespace kvphase::stats {
namespace {

// Prompts without items at random positions, as one exchangeable item. A phase of 4 is weaker.
ScoreTable pooled(std::int64_t prompts, double dip) {
  base::Random random(5);
  std::vector<ScoreRow> rows;
  for (std::int64_t i = 0; i < prompts; ++i) {
    const auto p = static_cast<std::int64_t>(random.uniform_index(70) + random.uniform_index(70));
    rows.push_back({i, p, random.uniform() < (p % 4 == 2 ? 0.7 - dip : 0.7) ? 1.0 : 0.0});
  }
  return pool_items(make_score_table(std::move(rows)));
}

const std::vector<std::int64_t> kCandidates = {2, 3, 4, 5, 8, 12};

PositionFolder folder_of(const ScoreTable& table) {
  return {position_sums(table, 0), kCandidates, Folder(table, kCandidates).carriers()};
}

TEST(PositionFolder, FoldsSumsOfPositionsAsAFolderFoldsPrompts) {
  const ScoreTable table = pooled(3000, 0.1);
  const FoldSums plain = Folder(table, kCandidates).observed();
  const FoldSums sums = folder_of(table).observed();
  EXPECT_NEAR(sums.total, plain.total, 1e-8);
  for (std::size_t c = 0; c < kCandidates.size(); ++c) {
    std::printf("candidate %lld: %.9f and %.9f\n", static_cast<long long>(kCandidates[c]),
                sums.between[c], plain.between[c]);
    EXPECT_NEAR(sums.between[c], plain.between[c], 1e-8) << kCandidates[c];
  }
}

TEST(PositionFolder, DrawsHaveTheMeanAndSpreadOfPermutations) {
  const ScoreTable table = pooled(3000, 0.1);
  constexpr int kDraws = 4000;
  for (const std::int64_t classes : {1, 2, 4}) {
    Folder plain(table, kCandidates);
    plain.start_permuting(classes);
    base::Random random(8);
    const std::vector<FoldSums> draws = folder_of(table).permuted(classes, kDraws, 8);
    std::vector<double> mean(kCandidates.size());
    std::vector<double> square(kCandidates.size());
    std::vector<double> plain_mean(kCandidates.size());
    std::vector<double> plain_square(kCandidates.size());
    for (const FoldSums& draw : draws) {
      const FoldSums permuted = plain.permuted(random);
      for (std::size_t c = 0; c < kCandidates.size(); ++c) {
        mean[c] += draw.between[c] / kDraws;
        square[c] += draw.between[c] * draw.between[c] / kDraws;
        plain_mean[c] += permuted.between[c] / kDraws;
        plain_square[c] += permuted.between[c] * permuted.between[c] / kDraws;
      }
    }
    for (std::size_t c = 0; c < kCandidates.size(); ++c) {
      const double spread = std::sqrt(square[c] - mean[c] * mean[c]);
      const double plain_spread = std::sqrt(plain_square[c] - plain_mean[c] * plain_mean[c]);
      std::printf("mod %lld, candidate %lld: %.4f +- %.4f drawn, %.4f +- %.4f permuted\n",
                  static_cast<long long>(classes), static_cast<long long>(kCandidates[c]), mean[c],
                  spread, plain_mean[c], plain_spread);
      EXPECT_NEAR(mean[c], plain_mean[c], 0.1 * plain_spread + 1e-9);
      EXPECT_NEAR(spread, plain_spread, 0.1 * plain_spread + 1e-9);
    }
  }
}

TEST(PositionFolder, LargeTablesWithoutItemsAreSearchedByPosition) {
  const PeriodResult weak = find_period(pooled(260'000, 0.02), {.max_period = 12});
  std::printf("%s\n", weak.method.c_str());
  EXPECT_EQ(weak.period.value_or(0), 4) << weak.reason;
  EXPECT_NE(weak.method.find("position by position"), std::string::npos) << weak.method;
  const PeriodResult none = find_period(pooled(260'000, 0), {.max_period = 12});
  EXPECT_FALSE(none.period) << *none.period;
  EXPECT_EQ(none.permutations, 10000);
}

}  // namespace
}  // namespace kvphase::stats
