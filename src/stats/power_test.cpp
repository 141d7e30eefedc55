#include "stats/power.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "base/random.h"
#include "stats/paired.h"

namespace kvphase::stats {
namespace {

TEST(Power, PairedSizesAgreeWithTheTable) {
  struct Row {
    double d, psi, n, n_bonferroni;
  };
  for (const Row& r : {Row{.4, .45, 20, 31}, Row{.2, .3, 56, 88}, Row{.1, .2, 155, 239},
                       Row{.05, .15, 469, 724}}) {
    EXPECT_EQ(std::round(paired_size(r.d, r.psi)), r.n) << r.d;
    EXPECT_EQ(std::round(paired_size(r.d, r.psi, 0.05 / 6)), r.n_bonferroni) << r.d;
  }
  EXPECT_THROW(paired_size(0.3, 0.2), base::Error);
  EXPECT_THROW(paired_size(0, 0.2), base::Error);
}

TEST(Power, UnpairedSizesAgreeWithTheTable) {
  // The table rounds to the nearest item: 19.4, 61.6, 199.0, 685.6.
  for (const auto& [p, n] : {std::pair{.5, 19.}, {.7, 62.}, {.8, 199.}, {.85, 686.}}) {
    EXPECT_EQ(std::round(unpaired_size(.9, p)), n) << p;
  }
  EXPECT_THROW(unpaired_size(.9, .9), base::Error);
}

TEST(Power, MillerSizeIsTheUnpairedOneWithoutSharedVariance) {
  // omega^2 = 0 and s^2 = p(1-p): the unpooled two-sample size.
  const double n = miller_size({.difference = .2, .s2_a = .09, .s2_b = .21});
  EXPECT_NEAR(n, std::pow(1.959964 + 0.841621, 2) * .3 / .04, 1e-3);
  EXPECT_NEAR(miller_size({.difference = .2, .s2_a = .09, .k_a = 4, .s2_b = .21, .k_b = 4}), n / 4,
              1e-9);
  EXPECT_THROW(miller_size({}), base::Error);
}

TEST(Power, AllRightSizesAgreeWithTheTable) {
  EXPECT_EQ(all_right_size(.95), 59);
  EXPECT_EQ(all_right_size(.95, .05 / 4), 86);
  EXPECT_EQ(all_right_size(.99), 299);
  EXPECT_EQ(all_right_size(.99, .05 / 4), 437);
}

TEST(Power, GateSizeReachesItsPowerAndNotMuchLess) {
  const auto n = gate_size(.99, .95, 4);
  ASSERT_TRUE(n);
  EXPECT_GT(*n, all_right_size(.95));
  EXPECT_LT(*n, 400);
  EXPECT_EQ(gate_size(1, .95, 4), 59);
  EXPECT_FALSE(gate_size(.95, .95, 4));
  EXPECT_FALSE(gate_size(.951, .95, 4, .05, .8, 500));
  EXPECT_GT(*gate_size(.99, .95, 8), *n) << "more phases, more chances to miss";
}

TEST(Power, CochranPowerIsThatOfThePublishedPhases) {
  // Phases folded from the published counts; powers from an independent simulation of 400 runs (so
  // up to 0.05 off by chance), items with a random intercept of SD 1.
  struct Row {
    std::vector<double> phases;
    std::int64_t items;
    double power;
  };
  const std::vector<double> flash = {.443, .697, .652, .313};
  for (const Row& r :
       {Row{flash, 20, .72}, Row{flash, 30, .91}, Row{flash, 50, 1},
        Row{{.809, .895, .988, .963}, 30, .67}, Row{{.809, .895, .988, .963}, 50, .92},
        Row{{.617, .897, .797, .572}, 30, .85}, Row{{.617, .897, .797, .572}, 50, .98},
        Row{{.777, .897, .918, .785}, 50, .55}, Row{{.777, .897, .918, .785}, 100, .89},
        Row{{.950, .897}, 200, .54}, Row{{.950, .897}, 400, .82}}) {
    const auto p = cochran_power(r.phases, r.items, 1, 1000);
    EXPECT_NEAR(p.power, r.power, .09) << r.phases[0] << " items " << r.items;
    EXPECT_LE(p.low, p.power);
    EXPECT_GE(p.high, p.power);
  }
  const std::vector<double> flat = {.8, .8, .8, .8};
  EXPECT_NEAR(cochran_power(flat, 50, 1, 2000).power, .05, .02) << "no effect: the level";
  EXPECT_EQ(cochran_size(flash), 30);
  EXPECT_FALSE(cochran_size(flat, .8, 1, .05, 50));
}

TEST(Power, PeriodPowerSeparatesNamedFromRight) {
  const auto p = period_power({.items = 20, .period = 4, .drop = .4}, {.runs = 60});
  EXPECT_GT(p.named.power, .95);
  EXPECT_GT(p.right.power, .85);
  EXPECT_LE(p.right.power, p.named.power);
  EXPECT_LT(period_power({.items = 20}, {.runs = 60}).named.power, .2);
  const SimulatedAudit weak{.items = 15, .period = 4, .drop = .2};
  const auto known = period_power(weak, {.runs = 60, .known = true});
  EXPECT_GT(known.named.power, period_power(weak, {.runs = 60}).named.power)
      << "a known period has no price for the search";
  EXPECT_EQ(known.named.power, known.right.power);
}

TEST(Power, PairMomentsAreThoseOfSimulatedItems) {
  const auto alike = pair_moments(.8, .3, 0);
  EXPECT_NEAR(alike.share_a, .8, 1e-9);
  EXPECT_NEAR(alike.share_b, .5, 1e-9);
  EXPECT_NEAR(alike.discordant, .8 * .5 + .2 * .5, 1e-9);
  EXPECT_NEAR(alike.miller.omega2, 0, 1e-9);
  EXPECT_NEAR(alike.miller.s2_a, .16, 1e-9);
  const auto m = pair_moments(.8, .3, 1.5);
  base::Random random(3);
  double a = 0, discordant = 0, difference = 0, squares = 0;
  constexpr int kItems = 200000;
  for (int i = 0; i < kItems; ++i) {
    const double p = inverse_logit(logit(.8) + 1.5 * random.normal());
    const double q = std::max(0.0, p - .3);
    const bool x = random.uniform() < p;
    const bool y = random.uniform() < q;
    a += x;
    discordant += x != y;
    difference += (p - q) / kItems;
    squares += (p - q) * (p - q) / kItems;
  }
  EXPECT_NEAR(m.share_a, a / kItems, .005);
  EXPECT_NEAR(m.discordant, discordant / kItems, .005);
  EXPECT_NEAR(m.share_a - m.share_b, difference, .003);
  EXPECT_NEAR(m.miller.omega2, squares - difference * difference, .001);
  EXPECT_THROW(pair_moments(.5, .6, 1), base::Error);
}

TEST(Power, PairedSizesReachTheirPower) {
  // McNemar's mid-p on simulated items of the size that the formula names.
  const auto m = pair_moments(.8, .3, 1);
  const auto items = std::ceil(paired_size(m.share_a - m.share_b, m.discordant));
  base::Random random(4);
  int found = 0;
  constexpr int kRuns = 2000;
  for (int run = 0; run < kRuns; ++run) {
    std::int64_t only_a = 0, only_b = 0;
    for (int i = 0; i < items; ++i) {
      const double p = inverse_logit(logit(.8) + random.normal());
      const bool x = random.uniform() < p;
      const bool y = random.uniform() < std::max(0.0, p - .3);
      only_a += x && !y;
      only_b += y && !x;
    }
    found += mcnemar_mid_p(only_a, only_b) <= .05;
  }
  EXPECT_NEAR(found / static_cast<double>(kRuns), .8, .06) << items << " items";
}

}  // namespace
}  // namespace kvphase::stats
