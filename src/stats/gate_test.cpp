#include "stats/gate.h"

#include <gtest/gtest.h>

#include <cstdio>

#include "base/error.h"
#include "base/random.h"

namespace kvphase::stats {
namespace {

ResidueCounts counts(std::vector<std::int64_t> correct, std::int64_t n) {
  ResidueCounts c{.correct = std::move(correct), .n = {}};
  c.n.assign(c.correct.size(), n);
  return c;
}

TEST(Gate, PassesWhenEveryLowerBoundMeetsTheRequirement) {
  EXPECT_EQ(fixed_gate(counts({59, 59, 59, 59}, 59), {}).verdict, GateVerdict::kPass);
  EXPECT_EQ(fixed_gate(counts({58, 58, 58, 58}, 58), {}).verdict, GateVerdict::kInconclusive)
      << "0.05^(1/58) is just below 0.95";
  EXPECT_EQ(fixed_gate(counts({59, 59, 59, 59}, 59), {.simultaneous = true}).verdict,
            GateVerdict::kInconclusive);
  EXPECT_EQ(fixed_gate(counts({86, 86, 86, 86}, 86), {.simultaneous = true}).verdict,
            GateVerdict::kPass);
}

TEST(Gate, FailsOnlyAtAlphaOverPhases) {
  const auto r = fixed_gate(counts({100, 100, 88, 100}, 100), {});
  EXPECT_EQ(r.verdict, GateVerdict::kFail) << r.phases[2].high.value();
  EXPECT_EQ(*r.decisive, 2);
  // 90 of 100 has a one-sided upper bound of 0.945 at 0.05, but 0.957 at 0.05/4.
  const auto near = fixed_gate(counts({100, 100, 90, 100}, 100), {});
  EXPECT_EQ(near.verdict, GateVerdict::kInconclusive) << near.phases[2].high.value();
  EXPECT_EQ(*near.decisive, 2);
  EXPECT_FALSE(near.reason.empty());
}

TEST(Gate, MissingRepliesCountAgainstPassingAndAgainstFailing) {
  EXPECT_EQ(fixed_gate(counts({100, 100}, 100), {}, {0, 0}).verdict, GateVerdict::kPass);
  EXPECT_EQ(fixed_gate(counts({100, 100}, 100), {}, {0, 9}).verdict, GateVerdict::kInconclusive);
  EXPECT_EQ(fixed_gate(counts({100, 80}, 100), {}, {0, 0}).verdict, GateVerdict::kFail);
  EXPECT_EQ(fixed_gate(counts({100, 80}, 100), {}, {0, 300}).verdict, GateVerdict::kInconclusive)
      << "three hundred right answers could be missing";
}

TEST(Gate, APhaseWithoutRepliesIsInconclusiveAndRefusesNonsense) {
  const auto r = fixed_gate({.correct = {60, 0}, .n = {60, 0}}, {});
  EXPECT_EQ(r.verdict, GateVerdict::kInconclusive);
  EXPECT_NE(r.reason.find("phase 1"), std::string::npos);
  EXPECT_FALSE(r.phases[1].low);
  EXPECT_EQ(fixed_gate({.correct = {0}, .n = {0}}, {}).verdict, GateVerdict::kInconclusive);
  EXPECT_EQ(fixed_gate({.correct = {1}, .n = {1}}, {}).verdict, GateVerdict::kInconclusive);
  EXPECT_EQ(fixed_gate({.correct = {0}, .n = {2}}, {}).verdict, GateVerdict::kFail)
      << "0 of 2: upper bound 0.776";
  EXPECT_THROW(fixed_gate(counts({1}, 1), {.requirement = 1}), base::Error);
  EXPECT_THROW(fixed_gate(counts({1}, 1), {}, {1, 2}), base::Error);
}

TEST(Gate, WrongPassesAndFailsStayBelowAlpha) {
  base::Random random(21);
  int passes = 0;
  int fails = 0;
  constexpr int kRuns = 2000;
  for (int run = 0; run < kRuns; ++run) {
    ResidueCounts low{.correct = {}, .n = {}};
    ResidueCounts edge{.correct = {}, .n = {}};
    for (int p = 0; p < 4; ++p) {
      std::int64_t a = 0;
      std::int64_t b = 0;
      for (int i = 0; i < 120; ++i) {
        a += random.uniform() < (p == 1 ? 0.9499 : 0.999);
        b += random.uniform() < 0.9501;
      }
      low.correct.push_back(a);
      edge.correct.push_back(b);
      low.n.push_back(120);
      edge.n.push_back(120);
    }
    passes += fixed_gate(low, {}).verdict == GateVerdict::kPass;
    fails += fixed_gate(edge, {}).verdict == GateVerdict::kFail;
  }
  EXPECT_LE(passes, 0.05 * kRuns + 30);
  EXPECT_LE(fails, 0.05 * kRuns + 30);
  std::printf("wrong passes %.3f, wrong fails %.3f\n", passes / double{kRuns},
              fails / double{kRuns});
}

TEST(Gate, OneObservationPerItemAndPhaseIsChosen) {
  const auto t = make_score_table(
      {{0, 0, 1}, {0, 2, 1}, {0, 4, 1}, {0, 1, 0}, {1, 0, 0}, {1, 2, 0}, {2, 1, 1}});
  const auto c = one_per_item(t, 2);
  EXPECT_EQ(c.n, (std::vector<std::int64_t>{2, 2}));
  EXPECT_EQ(c.correct, (std::vector<std::int64_t>{1, 1}));
  EXPECT_THROW(one_per_item(make_score_table({{0, 0, 0.5}}), 2), base::Error);
}

TEST(AnytimeGate, DecidesOnClearData) {
  AnytimeGate good(2, {.requirement = 0.9});
  AnytimeGate bad(2, {.requirement = 0.9});
  EXPECT_EQ(good.result().verdict, GateVerdict::kInconclusive) << "no data";
  for (int i = 0; i < 100; ++i) {
    for (int p = 0; p < 2; ++p) good.add(p, 1);
    bad.add(0, 1);
    bad.add(1, i % 2);
  }
  EXPECT_EQ(good.result().verdict, GateVerdict::kPass);
  EXPECT_EQ(bad.result().verdict, GateVerdict::kFail);
  EXPECT_EQ(*bad.result().decisive, 1);
  EXPECT_THROW(good.add(0, 1.5), base::Error);
}

TEST(AnytimeGate, LookingAfterEveryItemDoesNotRaiseTheError) {
  base::Random random(22);
  int passes = 0;
  int fails = 0;
  constexpr int kRuns = 1000;
  for (int run = 0; run < kRuns; ++run) {
    AnytimeGate gate(2, {.requirement = 0.9});
    bool passed = false;
    bool failed = false;
    for (int i = 0; i < 400; ++i) {
      gate.add(0, random.uniform() < 0.9 ? 1 : 0);  // exactly at the requirement
      gate.add(1, 1);
      const auto verdict = gate.result().verdict;
      passed = passed || verdict == GateVerdict::kPass;
      failed = failed || verdict == GateVerdict::kFail;
    }
    passes += passed;
    fails += failed;
  }
  std::printf("anytime: wrong passes %.3f, wrong fails %.3f\n", passes / double{kRuns},
              fails / double{kRuns});
  EXPECT_LE(passes, 0.05 * kRuns + 21);
  EXPECT_LE(fails, 0.05 * kRuns + 21);
}

}  // namespace
}  // namespace kvphase::stats
