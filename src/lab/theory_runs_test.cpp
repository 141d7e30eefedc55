// Theorem 2, small: static gates on the exact loss, log-linear gates on sampled prompts.
#include "lab/theory_runs.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "lab/theory_flow.h"
#include "lab/theory_gated.h"

namespace kvphase::lab {
namespace {

const TheorySetting kTask = {.stride = 4, .heads = 2, .chunks = 4, .vocabulary = 1024};
const FlowSettings kFlow = {.time = 8000};

TEST(TheoryRuns, EveryHeadEndsAtOnePositionWithItsValueOneLaterAndCoversOnlyThat) {
  const CoverageStudy study = study_coverage(kTask, kFlow, 60, 2);
  fmt::print("{} of {} heads selected, {} as predicted, offsets up to {:.4f}, by time {:.0f}\n",
             study.selected, study.heads, study.as_predicted, study.worst_offsets,
             study.longest_time.value_or(-1));
  EXPECT_EQ(study.selected, study.heads);
  EXPECT_GE(study.as_predicted, study.heads - 2);
  EXPECT_LT(study.worst_offsets, 1.05);
  EXPECT_GE(study.lowest_excess, 0);
  EXPECT_EQ(study.covered_accuracy, 1.0);
  EXPECT_EQ(study.uncovered_accuracy, 0.0);
  EXPECT_LE(*study.uncovered_probability, 1.01);
  ASSERT_TRUE(study.positions_fit.p && study.distinct_fit.p);
  EXPECT_GT(*study.positions_fit.p, 0.01);
  EXPECT_GT(*study.distinct_fit.p, 0.01);
  EXPECT_EQ(study.distinct[1] + study.distinct[2], 60);
  EXPECT_EQ(study.kept.size(), 2U);
}

TEST(TheoryRuns, ARunDependsOnItsSeedAndIndexAlone) {
  const FlowSettings flow = {.time = 100};
  const FlowRun a = run_flow(kTask, flow, 5);
  const FlowRun b = run_flow(kTask, flow, 5);
  EXPECT_EQ(a.offsets.values, b.offsets.values);
  EXPECT_EQ(a.loss, b.loss);
  EXPECT_NE(run_flow(kTask, flow, 6).loss, a.loss);
  EXPECT_NE(run_flow(kTask, {.time = 100, .seed = 2}, 5).loss, a.loss);
}

TEST(TheoryRuns, ALargeStartLeavesHeadsThatSelectNothing) {
  const CoverageStudy study = study_coverage(kTask, {.init = 5, .time = 8000}, 40, 0);
  fmt::print("{} of {} heads selected\n", study.selected, study.heads);
  EXPECT_LT(study.selected, study.heads * 9 / 10);
  EXPECT_LE(study.as_predicted, study.selected) << "heads that select nothing are not as predicted";
}

TEST(TheoryGated, HeadsThatMayLookAtTheContentEndStaticUnderFlowAndUnderSgd) {
  GatedOptions options = {.setting = {.task = kTask, .kappa = 1}, .flow = kFlow};
  options.setting.task.vocabulary = 128;
  for (const Descent descent : {Descent::kFlow, Descent::kSgd}) {
    const GatedStudy study = study_gated(options, descent, 3, 1);
    fmt::print("{}: {} of {} heads, offsets up to {:.4f} static, {:.4f} per window\n",
               descent == Descent::kFlow ? "flow" : "SGD", study.selected, study.heads,
               study.worst_static, study.worst_per_window);
    EXPECT_EQ(study.selected, study.heads);
    EXPECT_LT(study.worst_per_window, 1.05);
    EXPECT_LE(study.mean_per_window, study.mean_static + 1e-12);  // entropy is concave
    EXPECT_EQ(study.kept.front().offsets.times.back(), kFlow.time);
  }
}

TEST(TheoryGated, LogLinearGatesFollowStaticOnesMoreCloselyInALargerVocabulary) {
  // The same static start, kappa 1: what is left between them is what single tokens learn.
  std::vector<double> start(coefficient_count(kTask));
  base::Random random(3);
  for (double& u : start) u = 0.3 * random.normal();
  const std::vector<double> time = {100};
  double apart[2];
  for (const std::int64_t vocabulary : {32, 1024}) {
    TheorySetting task = kTask;
    task.vocabulary = vocabulary;
    const GatedSetting s = {.task = task, .kappa = 1};
    const std::vector<TokenId> prompts = draw_prompts(task, 64, random);
    const std::vector<double> weights = gradient_flow(
        [&](std::span<const double> w, std::span<double> g) { sampled_loss(s, w, prompts, g); },
        static_weights(s, start), time, {});
    const std::vector<double> logits = gradient_flow(
        [&](std::span<const double> u, std::span<double> g) {
          const Coefficients p = gates_of(task, u);
          static_loss(task, p, g);
          to_logit_gradient(task, p, g);
        },
        start, time, {});
    const Coefficients gates = gates_of(task, logits);
    const GateSummary summary = summarise_gates(s, weights, prompts);
    double& largest = apart[vocabulary == 1024] = 0;
    for (std::size_t i = 0; i < gates.size(); ++i) {
      largest = std::max(largest, std::abs(summary.mean[i] - gates[i]));
    }
    fmt::print("N {}: mean gates at most {:.4f} apart\n", vocabulary, largest);
  }
  EXPECT_LT(apart[1], 0.01);
  EXPECT_LT(apart[1], apart[0] / 3);
}

}  // namespace
}  // namespace kvphase::lab
