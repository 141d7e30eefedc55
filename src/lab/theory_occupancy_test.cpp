#include "lab/theory_occupancy.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <numeric>

namespace kvphase::lab {
namespace {

TEST(TheoryOccupancy, EqualsTheCountOfAllWaysToThrow) {
  for (const auto& [balls, bins] : {std::pair{3, 4}, std::pair{5, 3}, std::pair{4, 1}}) {
    std::vector<double> counted(static_cast<std::size_t>(balls) + 1, 0.0);
    const auto ways = static_cast<int>(std::pow(bins, balls));
    for (int way = 0; way < ways; ++way) {
      unsigned hit = 0;
      for (int ball = 0, rest = way; ball < balls; ++ball, rest /= bins) hit |= 1U << rest % bins;
      counted[static_cast<std::size_t>(std::popcount(hit))] += 1.0 / ways;
    }
    const std::vector<double> p = occupancy(balls, bins);
    double mean = 0;
    for (std::size_t k = 0; k < p.size(); ++k) {
      EXPECT_NEAR(p[k], counted[k], 1e-14) << balls << " balls, " << bins << " bins, k = " << k;
      mean += static_cast<double>(k) * p[k];
    }
    EXPECT_NEAR(mean, bins * coverage_of_one(balls, bins), 1e-12);
  }
}

TEST(TheoryOccupancy, ChiSquaredMatchesAKnownValueAndPoolsSmallCells) {
  const Fit fit = chi_squared_fit(std::vector<std::int64_t>{30, 20, 10},
                                  std::vector<double>{1.0 / 3, 1.0 / 3, 1.0 / 3});
  EXPECT_NEAR(*fit.statistic, 10, 1e-12);
  EXPECT_EQ(fit.freedom, 2);
  EXPECT_NEAR(*fit.p, std::exp(-5), 1e-12);  // of 2 degrees of freedom: e^(-x/2)
  const Fit pooled =
      chi_squared_fit(std::vector<std::int64_t>{1, 59, 40}, std::vector<double>{0.01, 0.59, 0.4});
  EXPECT_EQ(pooled.freedom, 1);
  const Fit tail =
      chi_squared_fit(std::vector<std::int64_t>{59, 40, 1}, std::vector<double>{0.59, 0.4, 0.01});
  EXPECT_EQ(tail.freedom, 1);
}

TEST(TheoryOccupancy, TooFewCountsHaveAReasonInsteadOfAP) {
  for (const std::vector<std::int64_t>& counts : {std::vector<std::int64_t>{0, 0}, {1, 2}}) {
    const Fit fit = chi_squared_fit(counts, std::vector<double>{0.5, 0.5});
    EXPECT_FALSE(fit.p);
    EXPECT_FALSE(fit.reason.empty());
  }
}

}  // namespace
}  // namespace kvphase::lab
