#include "stats/large_table.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "base/random.h"
#include "stats/bootstrap.h"
#include "stats/gap.h"
#include "stats/period.h"

namespace kvphase::stats {
namespace {

constexpr std::int64_t kItems = 12000;  // x 24 positions: more than kLargeCells
constexpr std::int64_t kOffsets = 24;

// Right/wrong at consecutive positions from a start of each item's own; chance of the position and
// of the item.
ScoreTable large_table(std::uint64_t seed, const auto& chance) {
  base::Random random(seed);
  ScoreTable table;
  for (std::int64_t i = 0; i < kItems; ++i) {
    const auto start = static_cast<std::int32_t>(random.uniform_index(3000));
    const double ability = 0.2 * (random.uniform() - 0.5);
    table.ids.push_back(i);
    for (std::int32_t p = start; p < start + kOffsets; ++p) {
      table.position.push_back(p);
      table.score.push_back(random.uniform() < chance(p) + ability ? 1 : 0);
    }
    table.first.push_back(table.score.size());
  }
  return table;
}

double flat(std::int64_t) { return 0.5; }

// All permutations of all items: what the sample stands for.
double full_noise(const ScoreTable& table, std::int64_t modulus, int permutations) {
  base::Random random(5);
  ScoreTable shuffled = table;
  double sum = 0;
  for (int b = 0; b < permutations; ++b) {
    for (std::size_t i = 0; i < table.items(); ++i) {
      random.shuffle(std::span(shuffled.score).subspan(table.first[i], kOffsets));
    }
    const GroupTotals totals = group_totals(shuffled, modulus);
    double low = 2;
    double high = -2;
    for (std::size_t g = 0; g < totals.n.size(); ++g) {
      low = std::min(low, *group_mean(totals, g));
      high = std::max(high, *group_mean(totals, g));
    }
    sum += high - low;
  }
  return sum / permutations;
}

TEST(LargeTable, NoiseOfTheGapFromASampleAgreesWithPermutingEveryItem) {
  const ScoreTable table = large_table(1, flat);
  const GapNoise sampled = gap_noise_items(table, {.modulus = kOffsets});
  const double full = full_noise(table, kOffsets, 200);
  std::printf("noise-only gap: %.5f from a sample, %.5f from all items\n", *sampled.noise, full);
  EXPECT_NEAR(*sampled.noise, full, 0.06 * full);
  EXPECT_NE(sampled.method.find("random sample of"), std::string::npos) << sampled.method;
}

TEST(LargeTable, PatternsOfItemsOwnStayInTheNoiseOfTheGap) {
  ScoreTable table = large_table(9, [](std::int64_t) { return 2.0; });  // all right
  base::Random random(1);
  for (std::size_t i = 0; i < table.items(); ++i) {
    const auto weak = static_cast<std::int32_t>(random.uniform_index(8));
    for (std::size_t c = table.first[i]; c < table.first[i + 1]; ++c) {
      if (table.position[c] % 8 == weak) table.score[c] = 0;
    }
  }
  const GapNoise r = gap_noise_items(table, {.modulus = 8});
  // An item is one weak phase of 8, however often it is asked: multinomial, so that two phases
  // differ as independent ones of variance 1/8 would.
  const double expected = studentized_range_mean(8) * std::sqrt(1.0 / 8 / kItems);
  std::printf("gap %.4f, noise %.4f, expected %.4f, p %.3f\n", *r.gap, *r.noise, expected,
              *r.p_value);
  EXPECT_NEAR(*r.noise, expected, 0.05 * expected) << "permuted answers: 0.55 of it";
  EXPECT_GT(*r.p_value, 0.02);
}

TEST(LargeTable, AFewLongItemsAreDealtLikePermutations) {
  // Right/wrong and continuous; two items of more than 25,000 scores together.
  for (const bool continuous : {false, true}) {
    base::Random random(12);
    ScoreTable table;
    for (std::int64_t i = 0; i < 2; ++i) {
      table.ids.push_back(i);
      for (std::int32_t p = 0; p < 14000; ++p) {
        table.position.push_back(p);
        const double x = random.normal();
        table.score.push_back(continuous ? x : x > 0.3 * static_cast<double>(i) ? 1 : 0);
      }
      table.first.push_back(table.score.size());
    }
    const GapNoise dealt = gap_noise_items(table, {.modulus = 8, .replicates = 4000});
    EXPECT_NE(dealt.method.find("moments of permutations"), std::string::npos) << dealt.method;
    const double deviation = continuous ? 1 : 0.49;
    EXPECT_NEAR(*dealt.noise, studentized_range_mean(8) * deviation / std::sqrt(3500.0),
                0.05 * *dealt.noise);
  }
}

TEST(LargeTable, UnevenPositionsStayInTheNullOfTheGap) {
  // Item difficulty that goes with the positions an item happens to have is no gap inside items.
  ScoreTable table = large_table(2, flat);
  for (std::size_t i = 0; i < table.items(); ++i) {
    const bool easy = i % 2 == 0;
    for (std::size_t c = table.first[i]; c < table.first[i + 1]; ++c) {
      // Easy items sit at even positions, hard ones at odd positions.
      table.position[c] = 2 * table.position[c] + (easy ? 0 : 1);
      if (c % 2 == 0) table.score[c] = easy ? 1 : 0;
    }
  }
  const GapNoise r = gap_noise_items(table, {.modulus = 2});
  std::printf("gap %.4f, expected without phases %.4f\n", *r.gap, *r.noise);
  EXPECT_GT(*r.gap, 0.4);
  EXPECT_NEAR(*r.noise, *r.gap, 1e-3);
  EXPECT_GT(*r.p_value, 0.05);
}

TEST(LargeTable, APeriodTooWeakForTheSampleIsFoundInAllItems) {
  const auto dip = [](std::int64_t p) { return p % 4 == 2 ? 0.487 : 0.5; };
  const ScoreTable table = large_table(3, dip);
  const PeriodResult all = find_period(table, {.permutations = 999});
  std::vector<std::size_t> every(table.items());
  std::iota(every.begin(), every.end(), std::size_t{0});
  const PeriodResult some =
      find_period(take_items(table, sample_items(table, every, 1)), {.permutations = 999});
  std::printf("p of %lld cells %.4f, of the sample alone %.4f\n",
              static_cast<long long>(all.observations), *all.p_value, *some.p_value);
  EXPECT_EQ(all.period.value_or(0), 4) << all.reason;
  EXPECT_FALSE(some.period);
  EXPECT_NE(all.method.find("stands for all"), std::string::npos) << all.method;
}

TEST(LargeTable, StrongPeriodsAreNotTakenForTheirMultiplesOrDivisors) {
  for (const std::int64_t period : {2, 3, 4, 6, 8}) {
    const auto dip = [&](std::int64_t p) { return p % period == 1 ? 0.2 : 0.7; };
    const PeriodResult r = find_period(large_table(4, dip), {.permutations = 499});
    EXPECT_EQ(r.period.value_or(0), period) << r.reason;
  }
}

TEST(LargeTable, NoPeriodIsFoundInNoise) {
  int named = 0;
  for (std::uint64_t seed = 10; seed < 16; ++seed) {
    named += find_period(large_table(seed, flat), {.permutations = 199}).period ? 1 : 0;
  }
  EXPECT_LE(named, 1);
}

TEST(LargeTable, BlocksKeepTheWidthOfTheBootstrapOverItems) {
  const ScoreTable table = large_table(6, flat);
  const auto width = [](const Estimate& e) { return *e.high - *e.low; };
  const GroupBootstrap items = bootstrap_items(table, {.modulus = 4, .replicates = 1000});
  // 12,000 items x 4 x 50,000 exceeds the bound on the work.
  const GroupBootstrap blocks = bootstrap_items(table, {.modulus = 4, .replicates = 50000});
  std::printf("width of the mean's interval: %.5f from items, %.5f from blocks\n",
              width(items.mean), width(blocks.mean));
  EXPECT_NEAR(width(blocks.mean), width(items.mean), 0.1 * width(items.mean));
  EXPECT_NE(blocks.method.find("random blocks"), std::string::npos) << blocks.method;
  EXPECT_EQ(*blocks.mean.value, *items.mean.value);
}

TEST(LargeTable, BlocksHoldEveryScoreOnceAndAreOfEqualSize) {
  const ScoreTable table = large_table(7, flat);
  const ClusterSums blocks = sums_per_block(table, 24, 7, 1);
  ASSERT_EQ(blocks.clusters(), 7U);
  const GroupTotals totals = group_totals(table, 24);
  for (std::size_t g = 0; g < 24; ++g) {
    double sum = 0;
    for (std::size_t b = 0; b < 7; ++b) sum += blocks.sum[b * 24 + g];
    EXPECT_EQ(sum, totals.sum[g]) << g;
  }
  for (std::size_t b = 0; b < 7; ++b) {
    double size = 0;
    for (std::size_t g = 0; g < 24; ++g) size += blocks.size[b * 24 + g];
    EXPECT_NEAR(size, static_cast<double>(kItems * kOffsets) / 7, kOffsets);
  }
}

TEST(LargeTable, CrossFittedGapOfBlocksAgreesWithItems) {
  const auto dip = [](std::int64_t p) { return p % 4 == 2 ? 0.4 : 0.5; };
  const ScoreTable table = large_table(8, dip);
  const Estimate items = cross_fitted_gap(table, 4, 200);
  const Estimate blocks = cross_fitted_gap(table, 4, 1500);  // cells x splits beyond the bound
  std::printf("cross-fitted gap: %.4f from items, %.4f from blocks\n", *items.value, *blocks.value);
  EXPECT_NEAR(*blocks.value, *items.value, 0.002);
  EXPECT_NE(blocks.method.find("blocks"), std::string::npos) << blocks.method;
  EXPECT_EQ(items.method.find("blocks"), std::string::npos) << items.method;
}

}  // namespace
}  // namespace kvphase::stats
