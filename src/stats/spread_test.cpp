#include "stats/spread.h"

#include <gtest/gtest.h>

#include <cmath>

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
  EXPECT_NEAR(*r.shrunk[3], grand + *r.shrinkage * (5 - grand), 1e-12);
}

TEST(Spread, IsDefinedOrExplainedForTinyData) {
  EXPECT_FALSE(phase_spread({.phases = 4, .cell = {1, 0, 1, 1}}).sd);
  const auto equal = phase_spread({.phases = 4, .cell = {1, 1, 1, 1, 0, 0, 0, 0}});
  EXPECT_FALSE(equal.sd) << "no noise and no difference is nothing to measure, not a spread of 0";
  EXPECT_FALSE(equal.reason.empty());
  EXPECT_FALSE(phase_spread({.phases = 2, .cell = {1, 0, 1, 1}}).shrinkage);
}

TEST(Spread, OfSharesTakesOutTheBinomialNoise) {
  // Counts of equal shares: the spread comes out as nothing on average; of unequal ones, as theirs.
  base::Random random(7);
  const std::vector<double> truth = {0.5, 0.7, 0.6, 0.8, 0.6};  // variance 0.013
  double squares = 0;
  double unbiased = 0;
  constexpr int kRuns = 400;
  for (int run = 0; run < kRuns; ++run) {
    std::vector<GroupMoments> groups;
    double mean[2] = {};
    for (const double p : truth) {
      int right = 0;
      for (int k = 0; k < 60; ++k) right += random.uniform() < p;
      const double share = right / 60.0;
      groups.push_back({.n = 60, .mean = share, .variance = share * (1 - share) * 60 / 59});
      mean[0] += share / 5;
      mean[1] += share * share / 5;
    }
    const auto r = phase_spread(groups);
    squares += *r.sd * *r.sd / kRuns;
    unbiased +=
        ((mean[1] - mean[0] * mean[0]) * 5 / 4 - *r.standard_error * *r.standard_error) / kRuns;
  }
  EXPECT_NEAR(unbiased, 0.013, 0.001);
  EXPECT_NEAR(squares, 0.013, 0.001);
}

TEST(Spread, OfGroupsSaysWhatIsMissing) {
  EXPECT_FALSE(phase_spread(std::vector<GroupMoments>{}).sd);
  EXPECT_EQ(phase_spread(std::vector<GroupMoments>{{.n = 1}, {.n = 9, .variance = 1}}).reason,
            "a group has one observation: no variance");
  EXPECT_EQ(
      phase_spread(std::vector<GroupMoments>{{.n = 5, .mean = 1}, {.n = 9, .mean = 1}}).reason,
      "nothing varies inside groups: no noise to take out");
  const auto hole = phase_spread(std::vector<GroupMoments>{{.n = 9, .mean = 1, .variance = 1},
                                                           {},
                                                           {.n = 9, .mean = 2, .variance = 1},
                                                           {.n = 9, .mean = 3, .variance = 1},
                                                           {.n = 9, .mean = 6, .variance = 1}});
  ASSERT_EQ(hole.shrunk.size(), 5U);
  EXPECT_FALSE(hole.shrunk[1]) << "a group without observations stays empty";
  EXPECT_NEAR(*hole.shrinkage, 1 - (1.0 / 9) / 14, 1e-12);
}

}  // namespace
}  // namespace kvphase::stats
