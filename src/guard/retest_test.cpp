// What a retest asks for, and how often its verdict is right: whole retests of scripted models, in
// process.
#include "guard/retest.h"

#include <gmock/gmock.h>

#include <cstdio>
#include <map>
#include <set>

#include "base/error.h"
#include "base/random.h"

namespace kvphase::guard {
namespace {

using ::testing::Each;
using ::testing::Field;

// What a model answers at an offset; the random numbers are the run's.
using ScriptedModel = std::function<std::string(std::int64_t offset, base::Random& random)>;

AskTrials ask(const ScriptedModel& model, base::Random& random) {
  return [&model, &random](std::span<const Trial> trials, const OnReply& on_reply) {
    for (const Trial& trial : trials) {
      on_reply(
          {.offset = trial.offset, .repeat = trial.repeat, .answer = model(trial.offset, random)});
    }
    return true;
  };
}

struct Tally {
  std::map<VerdictKind, int> verdicts;
  std::int64_t replies = 0;
  int named_right = 0;  // of kDepends: exactly the weak offset was named
};

Tally retests(const ScriptedModel& model, int runs, std::int64_t offsets,
              std::int64_t weak_offset = -1, std::int64_t repeats = 0) {
  Tally tally;
  for (int i = 0; i < runs; ++i) {
    base::Random random(base::derive_seed(7, "scripted", {static_cast<std::uint64_t>(i)}));
    const RetestDesign design{.agreement = {.offsets = offsets},
                              .repeats = repeats,
                              .seed = static_cast<std::uint64_t>(i)};
    const RetestRun run = run_retest(design, {}, ask(model, random), [](const Reply&) {});
    ++tally.verdicts[run.agreement.verdict];
    tally.replies += std::ssize(run.replies);
    tally.named_right += run.agreement.verdict == VerdictKind::kDepends &&
                                 run.agreement.differ == std::vector{weak_offset}
                             ? 1
                             : 0;
  }
  std::printf(
      "%d retests at %d offsets: %d agree, %d depend on the offset, %d random, %d undecided; "
      "%.1f replies each\n",
      runs, static_cast<int>(offsets), tally.verdicts[VerdictKind::kAgree],
      tally.verdicts[VerdictKind::kDepends], tally.verdicts[VerdictKind::kRandom],
      tally.verdicts[VerdictKind::kUndecided], static_cast<double>(tally.replies) / runs);
  return tally;
}

TEST(Retest, AModelWrongAtOnePhaseInFourIsFoundWithFourOffsetsAndThePhaseIsNamed) {
  constexpr int kRuns = 1000;
  for (std::int64_t weak = 0; weak < 4; ++weak) {
    const ScriptedModel model = [weak](std::int64_t offset, base::Random&) {
      return offset % 4 == weak ? "K-7781" : "K-7731";
    };
    Tally tally = retests(model, kRuns, 4, weak);
    EXPECT_GE(tally.verdicts[VerdictKind::kDepends], kRuns * 99 / 100);
    EXPECT_EQ(tally.named_right, tally.verdicts[VerdictKind::kDepends]);
  }
}

TEST(Retest, AConsistentModelIsNeverAccusedInAThousandRuns) {
  const ScriptedModel model = [](std::int64_t, base::Random&) { return "K-7731"; };
  Tally tally = retests(model, 1000, 4);
  EXPECT_EQ(tally.verdicts[VerdictKind::kAgree], 1000);
  EXPECT_EQ(tally.replies, 5000) << "five replies each are enough";
}

TEST(Retest, AModelThatIsRandomAtTemperatureZeroIsCalledRandomNotSensitive) {
  constexpr int kRuns = 1000;
  for (const double share : {0.05, 0.2, 0.5}) {
    std::printf("another answer in %.0f%% of replies: ", 100 * share);
    const ScriptedModel model = [share](std::int64_t, base::Random& random) {
      return random.uniform() < share ? "K-7781" : "K-7731";
    };
    Tally tally = retests(model, kRuns, 4);
    EXPECT_LE(tally.verdicts[VerdictKind::kDepends], kRuns * 2 / 100);
    EXPECT_EQ(tally.verdicts[VerdictKind::kUndecided], 0);
  }
  std::printf("a new answer every time: ");
  const ScriptedModel model = [](std::int64_t, base::Random& random) {
    return std::to_string(random.next());
  };
  EXPECT_EQ(retests(model, kRuns, 4).verdicts[VerdictKind::kRandom], kRuns);
}

TEST(Retest, AWeakPhaseIsFoundThroughNoiseMostOfTheTime) {
  // Wrong in 95% of replies at the weak phase, in 2% elsewhere.
  const ScriptedModel model = [](std::int64_t offset, base::Random& random) {
    return random.uniform() < (offset % 4 == 1 ? 0.95 : 0.02) ? "K-7781" : "K-7731";
  };
  EXPECT_GE(retests(model, 1000, 4).verdicts[VerdictKind::kDepends], 600);
  EXPECT_GE(retests(model, 1000, 4, -1, 6).verdicts[VerdictKind::kDepends], 850);
  EXPECT_GE(retests(model, 1000, 8).verdicts[VerdictKind::kDepends], 850);
}

TEST(Retest, AnUnknownStrideWithinTheOffsetsIsMetAndALargerOneByChance) {
  for (const std::int64_t stride : {2, 3, 5, 8}) {
    const ScriptedModel model = [stride](std::int64_t offset, base::Random&) {
      return offset % stride == stride - 1 ? "wrong" : "right";
    };
    std::printf("stride %d: ", static_cast<int>(stride));
    EXPECT_EQ(retests(model, 100, 8).verdicts[VerdictKind::kDepends], 100);
  }
  int met = 0;
  for (int start = 0; start < 128; ++start) {
    const ScriptedModel model = [start](std::int64_t offset, base::Random&) {
      return (start + offset) % 128 == 127 ? "wrong" : "right";
    };
    base::Random random(1);
    const RetestRun run =
        run_retest({.agreement = {.offsets = 8}}, {}, ask(model, random), [](const Reply&) {});
    met += run.agreement.verdict == VerdictKind::kDepends ? 1 : 0;
  }
  EXPECT_EQ(met, 8);
  EXPECT_EQ(chance_to_meet(8, 128), 8.0 / 128);
  EXPECT_EQ(chance_to_meet(8, 8), 1);
}

TEST(Retest, EveryTrialIsAskedOnceAndAgreementStopsAfterTheFirstLook) {
  const RetestDesign design{.agreement = {.offsets = 4}};
  EXPECT_EQ(repeats_of(design), 4);
  std::set<std::pair<std::int64_t, std::int64_t>> asked;
  for (const auto& trials : {first_trials(design), further_trials(design)}) {
    for (const Trial& trial : trials) {
      EXPECT_TRUE(asked.insert({trial.offset, trial.repeat}).second);
    }
  }
  EXPECT_EQ(asked.size(), 16U);
  EXPECT_EQ(first_trials(design).size(), 5U);
}

TEST(Retest, AnInterruptedRetestGoesOnWhereItStoppedAndEndsTheSame) {
  const ScriptedModel model = [](std::int64_t offset, base::Random&) {
    return offset == 2 ? "b" : "a";
  };
  const RetestDesign design{.agreement = {.offsets = 4}};
  base::Random random(1);
  const RetestRun whole = run_retest(design, {}, ask(model, random), [](const Reply&) {});
  for (std::size_t stop = 0; stop < whole.replies.size(); ++stop) {
    std::vector<Reply> kept;
    const AskTrials stops = [&](std::span<const Trial> trials, const OnReply& on_reply) {
      for (const Trial& trial : trials) {
        if (kept.size() == stop) return false;
        on_reply({.offset = trial.offset,
                  .repeat = trial.repeat,
                  .answer = model(trial.offset, random)});
      }
      return true;
    };
    const OnReply keep = [&](const Reply& reply) { kept.push_back(reply); };
    EXPECT_FALSE(run_retest(design, {}, stops, keep).complete);
    ASSERT_EQ(kept.size(), stop);
    std::int64_t further = 0;
    const RetestRun resumed =
        run_retest(design, kept, ask(model, random), [&](const Reply&) { ++further; });
    EXPECT_EQ(further, std::ssize(whole.replies) - static_cast<std::int64_t>(stop));
    EXPECT_EQ(resumed.agreement.verdict, whole.agreement.verdict);
    EXPECT_EQ(resumed.agreement.test.p, whole.agreement.test.p);
  }
}

TEST(Retest, WithOneOffsetOnlyRandomnessCanBeSeen) {
  const ScriptedModel steady = [](std::int64_t, base::Random&) { return "a"; };
  EXPECT_EQ(retests(steady, 5, 1).verdicts[VerdictKind::kAgree], 5);
  const ScriptedModel shaky = [](std::int64_t, base::Random& random) {
    return std::to_string(random.next());
  };
  EXPECT_EQ(retests(shaky, 5, 1).verdicts[VerdictKind::kRandom], 5);
}

}  // namespace
}  // namespace kvphase::guard
