#include "audit/run_comparison.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kvphase::audit {
namespace {

using ::testing::HasSubstr;

record::Observation observation(std::int64_t item, std::int64_t position, std::optional<bool> right,
                                std::int64_t modulus = 4) {
  return {.item = item,
          .residue = position % modulus,
          .target_position = position,
          .query_position = 40,
          .length = 41,
          .correct = right};
}

// 20 items at 8 positions; phase 3 of 4 wrong where `weak`.
std::vector<record::Observation> run_of(bool weak, std::int64_t in_front = 0) {
  std::vector<record::Observation> all;
  for (std::int64_t item = 0; item < 20; ++item) {
    for (std::int64_t position = 0; position < 8; ++position) {
      const std::int64_t seen = position + in_front;
      record::Observation o = observation(item, seen, !(weak && seen % 4 == 3 && item < 15));
      o.query_position += in_front;
      all.push_back(o);
    }
  }
  return all;
}

TEST(RunComparison, PairsPromptsByTheirPlaceInThePlan) {
  // The same prompts behind 3 more tokens: pairs are found, phases are each model's own.
  const auto a = prompt_replies(run_of(true, 3), 3);
  const auto b = prompt_replies(run_of(false), 0);
  const record::PairedRuns found = compare_replies(a, b, 4);
  EXPECT_EQ(found.prompts, 160);
  EXPECT_EQ(found.items, 20);
  EXPECT_EQ(found.only_run, 0);
  EXPECT_EQ(found.only_reference, 30);
  EXPECT_EQ(found.items_for_reference, 15);
  EXPECT_NEAR(*found.mean.estimate.value, -30.0 / 160, 1e-12);
  EXPECT_NEAR(*found.worst.estimate.value, -0.75, 1e-12);
  EXPECT_NEAR(*found.gap.estimate.value, 0.75, 1e-12);
  EXPECT_LT(*found.gap.p, 0.01);
}

TEST(RunComparison, LeavesOutMissingRepliesAndRepeatsOnEitherSide) {
  auto observations = run_of(false);
  observations[0].correct.reset();
  observations[1].repeat = 1;
  observations.erase(observations.begin() + 2);
  EXPECT_EQ(prompt_replies(observations, 0).size(), 157U);
  const auto all = prompt_replies(run_of(true), 0);
  EXPECT_EQ(compare_replies(prompt_replies(observations, 0), all, 4).prompts, 157);
  const record::PairedRuns none = compare_replies({}, all, 4);
  EXPECT_EQ(none.prompts, 0);
  EXPECT_FALSE(none.mean.p);
  EXPECT_NE(none.mean.estimate.reason, "");
}

TEST(RunComparison, CorrectsOverEveryPValueOfThePage) {
  record::RunComparison c;
  c.pairs.resize(2);
  c.pairs[0].mean.p = 0.01;
  c.pairs[0].worst.p = 0.04;
  c.pairs[1].gap.p = 0.03;
  c.pairs[1].p_items = 0.5;
  correct_for_all(c);
  EXPECT_EQ(c.tests, 4);
  EXPECT_DOUBLE_EQ(*c.pairs[0].mean.p_holm, 0.04);
  EXPECT_DOUBLE_EQ(*c.pairs[1].gap.p_holm, 0.09);
  EXPECT_DOUBLE_EQ(*c.pairs[0].worst.p_holm, 0.09);
  EXPECT_DOUBLE_EQ(*c.pairs[1].p_items_holm, 0.5);
  EXPECT_FALSE(c.pairs[1].mean.p_holm);
}

TEST(RunComparison, SaysWhatTheRunsShowTogether) {
  record::RunComparison c;
  EXPECT_EQ(summary_sentence(c), "Nothing to compare.");
  const auto add = [&](const char* name, std::optional<std::int64_t> stride,
                       std::optional<std::int64_t> period, double worst) {
    record::ComparedRun run{.name = name, .stride = stride, .control = !stride};
    run.result.period.value = period;
    if (period) run.result.verdict.kind = record::VerdictKind::kPeriodic;
    run.result.worst.estimate.value = worst;
    c.runs.push_back(run);
  };
  add("a", 8, 8, 0.2);
  add("b", 8, 4, 0.1);
  add("c", std::nullopt, std::nullopt, 0.5);
  add("paper", 8, 8, 0.01);
  c.runs.back().published = true;
  EXPECT_THAT(summary_sentence(c),
              HasSubstr("The stride is the period found in 1 of 2 audits of chunked models; a "
                        "period is found in 0 of 1 audits of full-attention models; the lowest "
                        "worst residue is 10.0% of b."));
  record::RunComparison mended;
  mended.runs.push_back(c.runs[0]);
  mended.runs[0].result.design.mitigation = "restate";
  EXPECT_THAT(summary_sentence(mended), HasSubstr("1 audit of mended prompts, none beside"));
}

}  // namespace
}  // namespace kvphase::audit
