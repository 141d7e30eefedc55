#include "audit/plan.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"

namespace kvphase::audit {
namespace {

TEST(Plan, NeedsMoreItemsForASmallerGapAndFewerForAKnownStride) {
  const Plan wide = make_plan({.gap = 0.4, .runs = 30});
  const Plan narrow = make_plan({.gap = 0.2, .runs = 30});
  const Plan known = make_plan({.gap = 0.2, .stride = 4, .runs = 30});
  EXPECT_GT(narrow.items, wide.items);
  EXPECT_LT(known.prompts, narrow.prompts);
  EXPECT_EQ(wide.offsets, 24);
  EXPECT_EQ(known.offsets, 8);
  for (const Plan& plan : {wide, narrow, known}) {
    EXPECT_GE(plan.simulated.value().power, 0.8);
    EXPECT_EQ(plan.prompts, plan.items * plan.offsets);
  }
}

TEST(Plan, SizesTheConfirmationOfTwoPhases) {
  const Plan plan = make_plan({.gap = 0.2, .stride = 4, .item_sd = 0, .runs = 20});
  // Items alike: shares 0.8 and 0.6, discordant 0.8 * 0.4 + 0.2 * 0.6 = 0.44.
  EXPECT_EQ(plan.confirm.paired, 84);
  EXPECT_EQ(plan.confirm.unpaired, 82) << "items that are alike leave pairing nothing to save";
  EXPECT_NEAR(plan.confirm.discordant, 0.44, 1e-9);
  EXPECT_EQ(plan.confirm.repeats, 2);
  EXPECT_EQ(plan.confirm.repeated, 40) << "(1.96 + 0.84)^2 * (0.16 + 0.24) / 2 / 0.2^2";
  const Plan varied = make_plan({.gap = 0.2, .stride = 4, .item_sd = 2, .runs = 20});
  EXPECT_LT(varied.confirm.paired, varied.confirm.unpaired) << "pairing saves where items differ";
  ASSERT_TRUE(plan.one_per_phase && varied.one_per_phase);
  EXPECT_FALSE(make_plan({.gap = 0.4, .runs = 20}).one_per_phase) << "only where S is known";
}

TEST(Plan, AWeakPhaseThatIsNeverRightHasSizesToo) {
  const Plan plan = make_plan({.gap = 0.8, .accuracy = 0.8, .stride = 4, .item_sd = 0, .runs = 20});
  EXPECT_GT(plan.confirm.paired, 0);
  EXPECT_GT(plan.confirm.unpaired, 0);
  EXPECT_EQ(plan.one_per_phase, 10);
}

TEST(Plan, TheRightPeriodIsNamedAtMostAsOftenAsAny) {
  const Plan plan = make_plan({.gap = 0.3, .runs = 60});
  EXPECT_LE(plan.right.value().power, plan.simulated.value().power);
  EXPECT_GT(plan.right->power, 0.4);
}

TEST(Plan, CountsTokensAndListsThePresets) {
  const Plan plan = make_plan({.prompt_tokens = 131072, .runs = 10});
  EXPECT_EQ(plan.tokens, plan.prompts * 131072);
  ASSERT_EQ(plan.presets.size(), 3U);
  EXPECT_EQ(plan.presets[0].items, 30);
  EXPECT_EQ(plan.presets[1].items, 100);
  EXPECT_EQ(plan.presets[2].items, 400);
  EXPECT_NEAR(plan.presets[0].bound, std::pow(0.05, 1.0 / 30), 1e-12);
  EXPECT_GT(plan.presets[0].dip.value(), plan.presets[2].dip.value());
}

TEST(Plan, SizesAGateOnTheWorstPhase) {
  const Plan plan = make_plan({.requirement = 0.95, .true_share = 0.99, .runs = 10});
  EXPECT_EQ(plan.gate_items_all_right, 59) << "0.05^(1/59) is the first above 0.95";
  EXPECT_GT(plan.gate_items.value(), 59);
  EXPECT_EQ(make_plan({.requirement = 0.95, .true_share = 0.95001, .runs = 10}).gate_items,
            std::nullopt)
      << "too near the requirement for any number of items";
}

TEST(Plan, RefusesSizesThatCannotBe) {
  EXPECT_THROW(make_plan({.gap = 0.9, .accuracy = 0.8}), base::Error);
  EXPECT_THROW(make_plan({.gap = 0}), base::Error);
  EXPECT_THROW(make_plan({.stride = 16, .offsets = 24}), base::Error);
  EXPECT_THROW(make_plan({.power = 0.01}), base::Error);
  EXPECT_THROW(make_plan({.level = 1e-6}), base::Error) << "would be simulated without an end";
  EXPECT_THROW(make_plan({.requirement = 1.0}), base::Error);
  EXPECT_THROW(make_plan({.stride = 100'000}), base::Error) << "an hour and all memory";
  EXPECT_THROW(make_plan({.stride = 0}), base::Error);
  EXPECT_THROW(make_plan({.offsets = 1'000'000'000}), base::Error);
  EXPECT_THROW(make_plan({.item_sd = 1e308}), base::Error);
  EXPECT_THROW(make_plan({.item_sd = std::nan("")}), base::Error);
  EXPECT_THROW(make_plan({.prompt_tokens = std::int64_t{1} << 62}), base::Error);
}

TEST(Plan, AuditsTooLargeToSimulateAreSizedByFormulaAndSayHowManyWereSimulated) {
  const Plan simulated = make_plan({.gap = 0.2, .runs = 60});
  EXPECT_EQ(simulated.simulated.value().runs, 60);
  const Plan huge = make_plan({.gap = 0.01});
  fmt::print("a gap of 1 point: {} items by formula\n", huge.items);
  EXPECT_FALSE(huge.simulated || huge.right);
  EXPECT_GT(huge.items, 100 * simulated.items) << "items grow with 1 / gap^2";
  EXPECT_LT(huge.items, 1000 * simulated.items);
}

TEST(Plan, ATruthBelowTheRequirementCanNeverBeShown) {
  for (const double truth : {0.9, 0.95}) {
    try {
      make_plan({.requirement = 0.95, .true_share = truth, .runs = 5});
      ADD_FAILURE() << "expected a refusal of a true share of " << truth;
    } catch (const base::Error& error) {
      EXPECT_NE(std::string(error.what()).find("can never be shown"), std::string::npos)
          << error.what();
    }
  }
  EXPECT_THROW(make_plan({.requirement = 0.95, .true_share = 1.5, .runs = 5}), base::Error);
  EXPECT_THROW(make_plan({.true_share = 0.9, .runs = 5}), base::Error) << "no requirement";
}

}  // namespace
}  // namespace kvphase::audit
