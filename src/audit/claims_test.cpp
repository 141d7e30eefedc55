#include "audit/claims.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/random.h"

namespace kvphase::audit {
namespace {

using record::Claim;
using record::ClaimOutcome;
using ::testing::HasSubstr;

// A W8/S8 run whose curve has its weakest phase at `worst`.
ClaimRun chunked(std::string design, std::uint64_t seed, std::string padding = "prefix",
                 std::int64_t worst = 7) {
  ClaimRun run{.design = std::move(design),
               .seed = seed,
               .padding = std::move(padding),
               .window = 8,
               .stride = 8,
               .steps = 100};
  run.result.mean.value = 0.5;
  run.result.verdict.kind = record::VerdictKind::kPeriodic;
  run.result.period.value = 8;
  run.result.period.p_value = 0.00001;
  record::Folded folded{.stride = 8};
  for (std::int64_t p = 0; p < 8; ++p) {
    folded.phases.push_back({.index = p, .worst_share = p == worst ? 0.99 : 0.001});
  }
  folded.worst = {.estimate = {.value = 0.2, .low = 0.1, .high = 0.3}, .group = worst};
  folded.gap = {.estimate = {.value = 0.5, .low = 0.4, .high = 0.6},
                .noise = 0.02,
                .noise_high = 0.04,
                .p_value = 0.0001};
  run.result.folded = folded;
  return run;
}

ClaimRun control(std::uint64_t seed) {
  ClaimRun run{.design = "full-1kv", .seed = seed, .padding = "prefix", .steps = 100};
  run.result.mean.value = 0.9;
  run.result.verdict.kind = record::VerdictKind::kNoPeriod;
  run.result.gap = {.estimate = {.value = 0.01, .low = 0.0, .high = 0.02}, .p_value = 0.4};
  return run;
}

// Items x 8 phases, right with a chance per phase.
stats::PhaseMatrix drawn(const std::vector<double>& chance, std::uint64_t seed) {
  stats::PhaseMatrix matrix{.phases = chance.size()};
  base::Random random(seed);
  for (int item = 0; item < 300; ++item) {
    for (const double c : chance) matrix.cell.push_back(random.uniform() < c ? 1 : 0);
  }
  return matrix;
}

Claim of(const std::vector<ClaimRun>& runs, std::string_view name,
         const std::vector<ClaimPair>& pairs = {}) {
  for (Claim& claim : test_claims(runs, pairs)) {
    if (claim.name == name) return claim;
  }
  ADD_FAILURE() << "no claim " << name;
  return {};
}

TEST(Claims, WithoutRunsSayThatNothingBearsOnThem) {
  const auto claims = test_claims({}, {});
  EXPECT_EQ(claims.size(), 14U);
  for (const Claim& claim : claims) {
    EXPECT_EQ(claim.outcome, ClaimOutcome::kNoRuns) << claim.name;
    EXPECT_FALSE(claim.test.empty()) << claim.name;
  }
}

TEST(Claims, PeriodHoldsOnlyWhereTheStrideItselfIsNamed) {
  ClaimRun half = chunked("w8s8-1kv", 43);
  half.result.period.value = 4;
  ClaimRun staggered = chunked("w8s8-2kv-staggered", 42);
  staggered.staggered = true;
  const Claim claim = of({chunked("w8s8-1kv", 42), half, staggered, control(1)}, "period");
  ASSERT_EQ(claim.parts.size(), 2U);
  EXPECT_EQ(claim.parts[0].outcome, ClaimOutcome::kHolds);
  EXPECT_EQ(claim.parts[1].outcome, ClaimOutcome::kFails);
  EXPECT_EQ(claim.outcome, ClaimOutcome::kMixed);
  EXPECT_THAT(claim.sentence, HasSubstr("holds in 1 of 2, fails in 1"));
}

TEST(Claims, LeaveModelsOutThatHaveNotLearned) {
  ClaimRun unlearned = chunked("w8s8-tied", 42);
  unlearned.result.mean.value = 0.04;
  unlearned.result.verdict.kind = record::VerdictKind::kNoPeriod;
  const std::vector<ClaimRun> runs = {chunked("w8s8-1kv", 42), unlearned};
  EXPECT_EQ(of(runs, "learned").outcome, ClaimOutcome::kMixed);
  EXPECT_EQ(of(runs, "period").parts.size(), 1U);
  EXPECT_EQ(of(runs, "boundary").parts.size(), 1U);
}

TEST(Claims, ADesignMustNameItsStrideInEightOfNineSeedsAndPaddings) {
  const auto nine = [](int unnamed, int unlearned) {
    std::vector<ClaimRun> runs;
    for (std::uint64_t seed = 1; seed <= 3; ++seed) {
      for (const char* padding : {"prefix", "in-sequence", "around-target"}) {
        runs.push_back(chunked("w8s8-1kv", seed, padding));
        if (unnamed-- > 0) runs.back().result.verdict.kind = record::VerdictKind::kInconclusive;
        if (unlearned-- > 0) runs.back().result.mean.value = 0.04;
      }
    }
    return runs;
  };
  EXPECT_EQ(of(nine(1, 0), "every design").outcome, ClaimOutcome::kHolds);
  EXPECT_EQ(of(nine(2, 0), "every design").outcome, ClaimOutcome::kFails);
  EXPECT_EQ(of(nine(0, 1), "every design").outcome, ClaimOutcome::kHolds);
  const Claim unlearned = of(nine(0, 2), "every design");
  EXPECT_EQ(unlearned.outcome, ClaimOutcome::kFails);
  EXPECT_THAT(unlearned.parts.at(0).finding, HasSubstr("7 of 9 name S; 2 not learned"));
  std::vector<ClaimRun> eight = nine(0, 0);
  eight.pop_back();
  EXPECT_EQ(of(eight, "every design").outcome, ClaimOutcome::kOpen);
}

// Whatever is compared with an unlearned run: another seed, padding or length of training, a
// control.
TEST(Claims, CompareNothingWithAModelThatHasNotLearned) {
  ClaimRun learned = chunked("w8s8-1kv", 42);
  learned.phases = drawn({.8, .8, .3, .8, .8, .8, .8, .1}, 1);
  const auto unlearned = [&](std::uint64_t seed, const char* padding, std::int64_t steps) {
    ClaimRun run = chunked("w8s8-1kv", seed, padding);
    run.steps = steps;
    run.result.mean.value = 0.04;
    run.phases = drawn({.04, .04, .04, .04, .04, .04, .04, .04}, 2);
    return run;
  };
  ClaimRun control_unlearned = control(42);
  control_unlearned.result.mean.value = 0.04;
  const record::Estimate close{.value = -0.01, .low = -0.02, .high = 0.0};
  const std::vector<ClaimRun> runs = {learned, unlearned(43, "prefix", 100),
                                      unlearned(42, "in-sequence", 100),
                                      unlearned(42, "prefix", 300), control_unlearned};
  for (const char* name : {"seeds", "padding", "longer training"}) {
    EXPECT_TRUE(of(runs, name).parts.empty()) << name;
  }
  EXPECT_TRUE(
      of(runs, "mean", {{.run = 0, .reference = 4, .mean = close, .worst = close}}).parts.empty());
}

TEST(Claims, AMeanThatHidesItsWorstOnceIsEnough) {
  const std::vector<ClaimRun> runs = {chunked("w8s8-1kv", 42), chunked("w8s8-8kv", 42),
                                      control(42)};
  const record::Estimate close{.value = -0.01, .low = -0.02, .high = 0.0};
  const record::Estimate far{.value = -0.5, .low = -0.6, .high = -0.4};
  const Claim claim = of(runs, "mean",
                         {{.run = 0, .reference = 2, .mean = far, .worst = far},
                          {.run = 1, .reference = 2, .mean = close, .worst = far}});
  EXPECT_EQ(claim.outcome, ClaimOutcome::kHolds);
  EXPECT_THAT(claim.sentence, HasSubstr("holds in 1 of 2, fails in 1"));
}

TEST(Claims, AnUnlearnedControlDecidesNothingAndAGapBeyondNoiseFails) {
  ClaimRun unlearned = control(2);
  unlearned.result.verdict.kind = record::VerdictKind::kNotLearned;
  ClaimRun uneven = control(3);
  uneven.result.gap.p_value = 0.001;
  const Claim claim = of({control(1), unlearned, uneven}, "controls");
  ASSERT_EQ(claim.parts.size(), 3U);
  EXPECT_EQ(claim.parts[0].outcome, ClaimOutcome::kHolds);
  EXPECT_EQ(claim.parts[1].outcome, ClaimOutcome::kOpen);
  EXPECT_EQ(claim.parts[2].outcome, ClaimOutcome::kFails);
}

TEST(Claims, BoundaryCountsModelsAgainstChanceAndNotTheirPaddings) {
  const Claim claim = of({chunked("w8s8-1kv", 42), chunked("w8s8-1kv", 42, "in-sequence"),
                          chunked("w8s8-1kv", 43, "prefix", 3)},
                         "boundary");
  ASSERT_EQ(claim.parts.size(), 3U);
  EXPECT_EQ(claim.parts[2].outcome, ClaimOutcome::kFails);
  // P(at least 1 of 2 at 1/8 each) = 1 - (7/8)^2.
  EXPECT_THAT(claim.sentence, HasSubstr("1 of 2 models"));
  EXPECT_THAT(claim.sentence, HasSubstr("p = 0.2344"));
}

TEST(Claims, WithinTheWindowTestLeavesTheBoundaryOut) {
  ClaimRun flat_inside = chunked("w8s8-1kv", 42);
  flat_inside.phases = drawn({.8, .8, .8, .8, .8, .8, .8, .1}, 1);
  ClaimRun uneven_inside = chunked("w8s8-1kv", 43);
  uneven_inside.phases = drawn({.8, .8, .4, .8, .8, .8, .8, .1}, 2);
  const Claim claim = of({flat_inside, uneven_inside}, "within window");
  ASSERT_EQ(claim.parts.size(), 2U);
  EXPECT_EQ(claim.parts[0].outcome, ClaimOutcome::kOpen) << claim.parts[0].finding;
  EXPECT_EQ(claim.parts[1].outcome, ClaimOutcome::kHolds) << claim.parts[1].finding;
}

TEST(Claims, SeedsMustDifferInShapeAndInTheWeakestPhase) {
  const auto with = [](std::uint64_t seed, const std::vector<double>& chance) {
    ClaimRun run = chunked("w8s8-1kv", seed);
    run.phases = drawn(chance, seed);
    return run;
  };
  const auto a = with(1, {.8, .8, .3, .8, .8, .8, .8, .1});
  const auto b = with(2, {.8, .8, .8, .8, .3, .8, .8, .1});
  const auto lower = with(3, {.6, .6, .1, .6, .6, .6, .6, .1});     // a, weaker everywhere
  const auto steeper = with(4, {.8, .8, .05, .8, .8, .8, .8, .1});  // a, but for its weakest phase
  const Claim claim = of({a, b, lower, steeper}, "seeds");
  ASSERT_EQ(claim.parts.size(), 6U);
  EXPECT_EQ(claim.parts[0].outcome, ClaimOutcome::kHolds) << claim.parts[0].finding;
  EXPECT_EQ(claim.parts[1].outcome, ClaimOutcome::kOpen) << claim.parts[1].finding;
  EXPECT_EQ(claim.parts[2].outcome, ClaimOutcome::kFails) << claim.parts[2].finding;
  EXPECT_EQ(claim.parts[3].outcome, ClaimOutcome::kHolds) << claim.parts[3].finding;
}

TEST(Claims, PaddingAndLongerTrainingCompareGapsByTheirIntervals) {
  ClaimRun longer = chunked("w8s8-1kv", 42);
  longer.steps = 300;
  longer.result.folded->gap.estimate = {.value = 0.2, .low = 0.1, .high = 0.3};
  ClaimRun between = chunked("w8s8-1kv", 42, "in-sequence");
  between.result.folded->gap.estimate = {.value = 0.45, .low = 0.35, .high = 0.55};
  const std::vector<ClaimRun> runs = {chunked("w8s8-1kv", 42), longer, between};
  EXPECT_EQ(of(runs, "longer training").outcome, ClaimOutcome::kHolds);
  EXPECT_EQ(of(runs, "padding").outcome, ClaimOutcome::kOpen);
  longer.result.period.value = 4;
  EXPECT_EQ(of({runs[0], longer}, "longer training").outcome, ClaimOutcome::kFails);
}

TEST(Claims, MeansAndStaggeredTwinsAreJudgedByWholeIntervals) {
  ClaimRun staggered = chunked("w8s8-2kv-staggered", 42);
  staggered.staggered = true;
  const std::vector<ClaimRun> runs = {chunked("w8s8-1kv", 42), control(42), staggered};
  const record::Estimate small{.value = -0.01, .low = -0.03, .high = 0.01};
  const record::Estimate low{.value = -0.5, .low = -0.6, .high = -0.4};
  const record::Estimate wide{.value = -0.1, .low = -0.3, .high = 0.1};
  const record::Estimate up{.value = 0.5, .low = 0.4, .high = 0.6};
  const auto against_control = [&](const record::Estimate& mean, const record::Estimate& worst) {
    return of(runs, "mean", {{.run = 0, .reference = 1, .mean = mean, .worst = worst}}).outcome;
  };
  EXPECT_EQ(against_control(small, low), ClaimOutcome::kHolds);
  EXPECT_EQ(against_control(low, low), ClaimOutcome::kFails);
  EXPECT_EQ(against_control(small, wide), ClaimOutcome::kOpen);
  const auto against_twin = [&](const record::Estimate& worst, const record::Estimate& gap) {
    return of(runs, "staggered grids",
              {{.run = 2, .reference = 0, .mean = small, .worst = worst, .gap = gap}})
        .outcome;
  };
  EXPECT_EQ(against_twin(up, low), ClaimOutcome::kHolds);
  EXPECT_EQ(against_twin(up, wide), ClaimOutcome::kOpen);
  EXPECT_EQ(against_twin(low, up), ClaimOutcome::kFails);
}

}  // namespace
}  // namespace kvphase::audit
