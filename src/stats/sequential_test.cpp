#include "stats/sequential.h"

#include <gtest/gtest.h>

#include <cstdio>

#include "base/error.h"
#include "base/random.h"

namespace kvphase::stats {
namespace {

auto model(std::vector<double> chance, std::uint64_t seed) {
  return [chance = std::move(chance), seed](std::int64_t item, std::int64_t phase) {
    base::Random random(base::derive_seed(
        seed, "answer", {static_cast<std::uint64_t>(item), static_cast<std::uint64_t>(phase)}));
    return random.uniform() < chance[static_cast<std::size_t>(phase)];
  };
}

TEST(Sequential, FindsTheWorstPhaseAndSavesPrompts) {
  double saving = 0;
  int right = 0;
  int wrong = 0;
  constexpr int kRuns = 100;
  for (int run = 0; run < kRuns; ++run) {
    const auto r = run_sequential(model({.9, .8, .85, .4}, static_cast<std::uint64_t>(run)),
                                  {.phases = 4, .max_items = 200});
    saving += r.saving / kRuns;
    right += r.worst == 3;
    wrong += r.worst && r.worst != 3;
    EXPECT_LE(r.prompts, r.planned);
  }
  std::printf("worst found in %d of %d runs, mean saving %.2f of 800 prompts\n", right, kRuns,
              saving);
  EXPECT_GE(right, 95);
  EXPECT_EQ(wrong, 0);
  EXPECT_GT(saving, 0.5);
}

TEST(Sequential, RarelyClaimsADifferenceOrAWorstPhaseWhenAllAreAlike) {
  int claimed = 0;
  int worst = 0;
  constexpr int kRuns = 300;
  for (int run = 0; run < kRuns; ++run) {
    const auto r = run_sequential(model({.8, .8, .8, .8}, 1000 + static_cast<std::uint64_t>(run)),
                                  {.phases = 4, .max_items = 200, .block = 5});
    claimed += r.dependence_after.has_value();
    worst += r.worst.has_value();
    EXPECT_EQ(r.stop, StopReason::kAllItemsRun);
  }
  EXPECT_LE(claimed, 0.05 * kRuns + 11);
  EXPECT_EQ(worst, 0);
}

TEST(Sequential, RunsEveryPhaseUntilTheGateHasDecided) {
  const auto r =
      run_sequential(model({.99, .99, .6}, 5), {.phases = 3, .max_items = 400, .requirement = .9});
  ASSERT_TRUE(r.gate);
  EXPECT_EQ(r.gate->verdict, GateVerdict::kFail);
  EXPECT_EQ(*r.gate->decisive, 2);
  EXPECT_EQ(r.stop, StopReason::kGateDecided);
  EXPECT_EQ(r.worst, 2);
  EXPECT_GT(r.saving, 0.5);
}

TEST(Sequential, OneSidedEValueRewardsOneDirectionOnly) {
  EXPECT_NEAR(one_sided_e_value(0, 0), 1, 1e-12);
  EXPECT_GT(one_sided_e_value(0, 10), 100);
  EXPECT_LT(one_sided_e_value(10, 0), 0.1);
  // A martingale at theta = 1/2: the mean over both next outcomes is the present value.
  for (std::int64_t b = 0; b < 5; ++b) {
    for (std::int64_t c = 0; c < 5; ++c) {
      EXPECT_NEAR((one_sided_e_value(b + 1, c) + one_sided_e_value(b, c + 1)) / 2,
                  one_sided_e_value(b, c), 1e-9)
          << b << "/" << c;
    }
  }
}

TEST(Sequential, OneItemAndBadOptionsAreHandled) {
  const auto r = run_sequential(model({.5, .5}, 1), {.phases = 2, .max_items = 1});
  EXPECT_EQ(r.items, 1);
  EXPECT_EQ(r.prompts, 2);
  EXPECT_FALSE(r.worst);
  EXPECT_EQ(r.candidates.size(), 2U);
  EXPECT_THROW(run_sequential(model({.5}, 1), {.phases = 1}), base::Error);
}

}  // namespace
}  // namespace kvphase::stats
