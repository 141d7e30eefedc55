#include "stats/spread.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "base/random.h"

namespace kvphase::stats {
namespace {

TEST(Spread, TakesOutWhatSamplingAdds) {
  base::Random random(5);
  const std::vector<double> truth = {0.2, -0.2, 0.1, -0.1};  // SD 0.183 (P-1)
  double squares = 0;
  double null_squares = 0;
  constexpr int kRuns = 200;
  for (int run = 0; run < kRuns; ++run) {
    PhaseMatrix m{.phases = 4, .cell = {}};
    PhaseMatrix flat{.phases = 4, .cell = {}};
    for (int i = 0; i < 30; ++i) {
      const double item = 3 * random.normal();
      for (const double t : truth) {
        m.cell.push_back(item + t + random.normal());
        flat.cell.push_back(item + random.normal());
      }
    }
    const auto r = phase_spread(m);
    squares += *r.sd * *r.sd / kRuns;
    null_squares += *phase_spread(flat).sd * *phase_spread(flat).sd / kRuns;
    EXPECT_NEAR(*r.standard_error, 1 / std::sqrt(30.0), 0.08) << "items' own levels cancel";
  }
  EXPECT_NEAR(squares, 0.1 / 3, 0.012);
  EXPECT_LT(null_squares, 0.015);
}

TEST(Spread, ShrinkageFollowsItsFormula) {
  const PhaseMatrix m{.phases = 4, .cell = {1, 2, 3, 5, 2, 2, 4, 4, 0, 3, 3, 6}};
  const auto r = phase_spread(m);
  double sum = 0;
  const double mean[] = {1, 7.0 / 3, 10.0 / 3, 5};
  const double grand = 35.0 / 12;
  for (const double x : mean) sum += (x - grand) * (x - grand);
  EXPECT_NEAR(*r.shrinkage, 1 - *r.standard_error * *r.standard_error / sum, 1e-12);
  EXPECT_NEAR(r.shrunk[3], grand + *r.shrinkage * (5 - grand), 1e-12);
}

TEST(Spread, IsDefinedOrExplainedForTinyData) {
  EXPECT_FALSE(phase_spread({.phases = 4, .cell = {1, 0, 1, 1}}).sd);
  const auto equal = phase_spread({.phases = 4, .cell = {1, 1, 1, 1, 0, 0, 0, 0}});
  EXPECT_EQ(*equal.sd, 0);
  EXPECT_EQ(*equal.shrinkage, 0);
  EXPECT_FALSE(phase_spread({.phases = 2, .cell = {1, 0, 1, 1}}).shrinkage);
}

TEST(FisherG, FindsASineAndGivesItsPeriod) {
  std::vector<double> x;
  for (int k = 0; k < 24; ++k) x.push_back(3 + std::sin(2 * std::numbers::pi * k / 6));
  const auto r = fisher_g(x);
  EXPECT_NEAR(*r.period, 6, 1e-12);
  EXPECT_NEAR(*r.g, 1, 1e-9);
  EXPECT_LT(*r.p_value, 1e-6);
}

TEST(FisherG, TailAgreesWithTheTable) {
  // Fisher's 5 % points of g: m = 5: 0.68377; m = 10: 0.44495; m = 20: 0.27040.
  EXPECT_NEAR(fisher_g_p_value(0.68377, 5), 0.05, 2e-4);
  EXPECT_NEAR(fisher_g_p_value(0.44495, 10), 0.05, 2e-4);
  EXPECT_NEAR(fisher_g_p_value(0.27040, 20), 0.05, 2e-4);
  EXPECT_EQ(fisher_g_p_value(0.05, 10), 1) << "the largest share is at least 1/m";
}

TEST(FisherG, HoldsItsLevelOnNoise) {
  base::Random random(6);
  int rejected = 0;
  for (int run = 0; run < 2000; ++run) {
    std::vector<double> x(24);
    for (double& v : x) v = random.normal();
    rejected += *fisher_g(x).p_value <= 0.05;
  }
  EXPECT_NEAR(rejected / 2000.0, 0.05, 0.02);
}

TEST(FisherG, IsExplainedForShortAndConstantSeries) {
  EXPECT_FALSE(fisher_g(std::vector<double>{1, 2, 3, 4}).g);
  EXPECT_FALSE(fisher_g(std::vector<double>(10, 0.3)).g);
  EXPECT_FALSE(fisher_g({}).p_value);
}

}  // namespace
}  // namespace kvphase::stats
