#include "audit/requirement.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "audit/analysis.h"
#include "base/error.h"
#include "base/random.h"

namespace kvphase::audit {
namespace {

using record::Observation;
using record::Result;
using ::testing::HasSubstr;
using ::testing::Not;

struct Simulation {
  std::int64_t items = 100;
  std::int64_t modulus = 8;
  std::uint64_t seed = 1;
  std::function<double(std::int64_t)> chance = [](std::int64_t) { return 0.8; };
  std::function<bool(std::int64_t)> missing = [](std::int64_t) { return false; };
};

record::Dataset simulate(const Simulation& s) {
  base::Random random(s.seed);
  std::vector<Observation> all;
  for (std::int64_t item = 0; item < s.items; ++item) {
    for (std::int64_t residue = 0; residue < s.modulus; ++residue) {
      Observation o{.item = item, .residue = residue};
      o.target_position = 10 * s.modulus + residue;
      const bool right = random.uniform() < s.chance(o.target_position);
      if (!s.missing(residue)) o.correct = right;
      all.push_back(o);
    }
  }
  return record::dataset_from(all, s.modulus, "test");
}

record::Requirement decide(const record::Dataset& data, std::string_view requirement,
                           std::optional<double> min_accuracy = std::nullopt) {
  const Result r = analyse(data, {.stride = 4,
                                  .replicates = 500,
                                  .permutations = 1000,
                                  .min_accuracy = min_accuracy,
                                  .requirements = {parse_requirement(requirement)}});
  EXPECT_EQ(r.requirements.size(), 1U);
  fmt::print("{} {}: {}\n", r.requirements[0].text, r.requirements[0].outcome,
             r.requirements[0].sentence);
  return r.requirements[0];
}

double weak_third(std::int64_t position) { return position % 4 == 3 ? 0.6 : 0.98; }

TEST(Requirement, IsReadStrictly) {
  EXPECT_EQ(parse_requirement("worst>=0.95").value, 0.95);
  EXPECT_EQ(parse_requirement(" gap <= 0.05 ").text, "gap<=0.05");
  EXPECT_EQ(parse_requirement("no-period").kind, RequirementKind::kNoPeriod);
  struct Case {
    const char* text;
    const char* says;
  };
  for (const Case& c : std::initializer_list<Case>{{"wrst>=0.9", "did you mean 'worst>=0.95'?"},
                                                   {"worst>0.9", "did you mean 'worst>=0.95'?"},
                                                   {"gap<0.1", "did you mean 'gap<=0.05'?"},
                                                   {"noperiod", "did you mean 'no-period'?"},
                                                   {"no-period4", "did you mean 'no-period'?"},
                                                   {"worst>=95%", "95% is 0.95"},
                                                   {"worst>=95", "95% is 0.95"},
                                                   {"worst>=1", "between 0 and 1"},
                                                   {"worst>=", "between 0 and 1"},
                                                   {"worst>=nan", "between 0 and 1"},
                                                   {"gap<=-0.1", "from 0 to 1"},
                                                   {"gap<=0.1x", "from 0 to 1"},
                                                   {"", "worst>=X, gap<=X or no-period"}}) {
    try {
      parse_requirement(c.text);
      ADD_FAILURE() << "expected a refusal of " << c.text;
    } catch (const base::Error& error) {
      EXPECT_THAT(error.what(), HasSubstr(c.says)) << c.text;
    }
  }
}

TEST(Requirement, WorstPassesFailsAndStaysOpenByTheBoundsOfThePhases) {
  const auto strong = simulate({.items = 200, .chance = [](std::int64_t) { return 0.99; }});
  EXPECT_EQ(decide(strong, "worst>=0.9").outcome, "pass");
  EXPECT_EQ(decide(strong, "worst>=0.98").outcome, "inconclusive");
  const auto weak = decide(simulate({.chance = weak_third}), "worst>=0.9");
  EXPECT_EQ(weak.outcome, "fail");
  EXPECT_THAT(weak.sentence, HasSubstr("phase 3 has"));
  EXPECT_THAT(weak.sentence, HasSubstr("of 100")) << "one prompt per item, not both residues";
}

TEST(Requirement, WorstTakesMissingRepliesAgainstBothOutcomes) {
  const auto all_right = [](std::int64_t) { return 1.0; };
  const auto missing = [](std::int64_t residue) { return residue % 4 == 2; };
  EXPECT_EQ(decide(simulate({.chance = all_right}), "worst>=0.9").outcome, "pass");
  const auto lost = decide(simulate({.chance = all_right, .missing = missing}), "worst>=0.9");
  EXPECT_EQ(lost.outcome, "inconclusive") << "missing is neither right nor a proof of failure";
  EXPECT_THAT(lost.sentence, HasSubstr("phase 2 has no reply to any of its 100 prompts"));
}

TEST(Requirement, APhaseWithoutRepliesNeedsRepliesAndNotItems) {
  const auto silent =
      decide(simulate({.missing = [](std::int64_t r) { return r % 4 == 2; }}), "worst>=0.7");
  EXPECT_EQ(silent.outcome, "inconclusive");
  EXPECT_THAT(silent.sentence, HasSubstr("phase 2 has no reply to any of its 100 prompts"));
  EXPECT_THAT(silent.sentence, Not(HasSubstr("more items would")));
  const auto some =
      decide(simulate({.missing = [](std::int64_t r) { return r == 2; }}), "worst>=0.7");
  EXPECT_EQ(some.outcome, "inconclusive");
  EXPECT_THAT(some.sentence, HasSubstr("the missing replies, or more items, would decide"));
}

TEST(Requirement, SmallPValuesReadAsInTheVerdict) {
  const Result r = analyse(
      simulate({.chance = weak_third}),
      {.stride = 4, .permutations = 10000, .requirements = {parse_requirement("no-period")}});
  EXPECT_THAT(r.verdict.sentence, HasSubstr("p < 0.0001"));
  EXPECT_THAT(r.requirements[0].sentence, HasSubstr("p < 0.0001"));
}

TEST(Requirement, WorstOfCountsIsJudgedByResidueBecausePromptsOfAPhaseMayShareItems) {
  record::Dataset counts;
  counts.modulus = 8;
  counts.counts = record::CountsTable{.modulus = 8,
                                      .n = std::vector<std::int64_t>(8, 50),
                                      .correct = std::vector<std::int64_t>(8, 49)};
  // 98 of 100 per phase would pass 0.93; 49 of 50 per residue does not.
  EXPECT_EQ(decide(counts, "worst>=0.93").outcome, "inconclusive");
  EXPECT_EQ(decide(counts, "worst>=0.9").outcome, "pass");
}

TEST(Requirement, GapPassesFailsAndStaysOpenByItsInterval) {
  const auto flat = simulate({.items = 400});
  EXPECT_EQ(decide(flat, "gap<=0.15").outcome, "pass");
  EXPECT_EQ(decide(flat, "gap<=0.01").outcome, "inconclusive");
  const auto weak = simulate({.chance = weak_third});
  EXPECT_EQ(decide(weak, "gap<=0.1").outcome, "fail");
  EXPECT_EQ(decide(weak, "gap<=0.6").outcome, "pass");
  EXPECT_EQ(decide(weak, "gap<=0.38").outcome, "inconclusive");
}

// Folded by 4, a step over 24 positions is flat: that phases are alike says nothing about residues.
TEST(Requirement, IsOpenWherePositionsDifferAndNoPeriodExplainsHow) {
  const auto step = simulate({.items = 100, .modulus = 24, .chance = [](std::int64_t position) {
                                return position % 24 < 12 ? 0.93 : 0.73;
                              }});
  const auto gap = decide(step, "gap<=0.15");
  EXPECT_EQ(gap.outcome, "inconclusive");
  EXPECT_THAT(gap.sentence, HasSubstr("no period explains how"));
  EXPECT_EQ(decide(step, "worst>=0.75").outcome, "inconclusive");
}

TEST(Requirement, AGapOverPhasesDoesNotPassOnResiduesThatDifferBeyondThePeriod) {
  const auto odd = simulate({.items = 256, .modulus = 24, .chance = [](std::int64_t position) {
                               return position % 24 == 7 ? 0.3 : position % 4 == 3 ? 0.6 : 0.9;
                             }});
  const auto gap = decide(odd, "gap<=0.5");
  EXPECT_EQ(gap.outcome, "inconclusive") << gap.sentence;
  EXPECT_THAT(gap.sentence, HasSubstr("the gap over residues is"));
}

TEST(Requirement, AGapOfFewRepliesThatAreAllAlikeIsNotKnownToBeSmall) {
  const auto right = [](std::int64_t) { return 1.0; };
  EXPECT_EQ(decide(simulate({.items = 30, .chance = right}), "gap<=0.05").outcome, "inconclusive");
  EXPECT_EQ(decide(simulate({.items = 100, .chance = right}), "gap<=0.05").outcome, "pass");
  EXPECT_EQ(decide(simulate({.items = 15}), "gap<=0.9").outcome, "inconclusive");
}

TEST(Requirement, MissingRepliesCannotMakeAGapPass) {
  const auto hidden = simulate({.items = 400, .missing = [](std::int64_t r) { return r == 3; }});
  EXPECT_EQ(decide(hidden, "gap<=0.15").outcome, "inconclusive");
}

TEST(Requirement, NoPeriodFailsWhenOneIsNamedAndPassesOnlyWhenOneWouldHaveBeenSeen) {
  const auto periodic = decide(simulate({.chance = weak_third}), "no-period");
  EXPECT_EQ(periodic.outcome, "fail");
  EXPECT_THAT(periodic.sentence, HasSubstr("period of 4"));
  EXPECT_EQ(decide(simulate({.items = 100}), "no-period").outcome, "pass");
  EXPECT_EQ(decide(simulate({.items = 12}), "no-period").outcome, "inconclusive")
      << "too few items to find 20 points";
}

TEST(Requirement, NoPeriodAsksOnlyForResiduesThatWerePlanned) {
  record::Dataset few = simulate({.items = 400});
  few.modulus = 24;  // the default, of which eight positions fill a third
  EXPECT_EQ(decide(few, "no-period").outcome, "pass");
  const auto silent = decide(simulate({.items = 400,
                                       .modulus = 24,
                                       .chance = [](std::int64_t) { return 1.0; },
                                       .missing = [](std::int64_t r) { return r == 7; }}),
                             "no-period");
  EXPECT_EQ(silent.outcome, "inconclusive") << "planned, and no reply came";
  EXPECT_THAT(silent.sentence, HasSubstr("Replies are missing at some residues"));
}

TEST(Requirement, NoPeriodOfRepliesThatAreAllRightStillNeedsEnoughOfThem) {
  const auto right = [](std::int64_t) { return 1.0; };
  EXPECT_EQ(decide(simulate({.items = 100, .chance = right}), "no-period").outcome, "pass");
  EXPECT_EQ(decide(simulate({.items = 4, .chance = right}), "no-period").outcome, "inconclusive");
}

TEST(Requirement, AModelThatHasNotLearnedPassesNeitherGapNorNoPeriod) {
  const auto wrong = simulate({.items = 100, .chance = [](std::int64_t) { return 0.0; }});
  EXPECT_EQ(decide(wrong, "gap<=0.1").outcome, "inconclusive");
  EXPECT_EQ(decide(wrong, "no-period").outcome, "inconclusive");
  EXPECT_EQ(decide(wrong, "worst>=0.5").outcome, "fail");
  EXPECT_EQ(decide(simulate({}), "no-period", 0.95).outcome, "inconclusive");
}

TEST(Requirement, AWrongPassIsNoMoreLikelyThanItsLevel) {
  // One phase exactly at the requirement, the others far above: the worst case of the gate.
  int passes = 0;
  constexpr int kRuns = 400;
  for (int run = 0; run < kRuns; ++run) {
    const auto data =
        simulate({.items = 80,
                  .seed = static_cast<std::uint64_t>(100 + run),
                  .chance = [](std::int64_t position) { return position % 4 == 1 ? 0.9 : 1.0; }});
    const GateCounts gate = gate_counts(*data.rows, 4, 1);
    Result r;
    r.data_kind = "item-level";
    passes +=
        decide_requirement(parse_requirement("worst>=0.9"), r, {.gate = gate, .group = "phase"})
                    .outcome == "pass"
            ? 1
            : 0;
  }
  fmt::print("{} wrong passes of {}, allowed 5%\n", passes, kRuns);
  EXPECT_LE(passes, kRuns * 8 / 100) << "5 % and three standard errors";
}

TEST(Requirement, AContinuousScoreCannotShowAShare) {
  record::Dataset data = simulate({});
  data.rows->has_right_wrong = false;
  data.rows->score.assign(data.rows->size(), 0.0F);
  for (std::size_t i = 0; i < data.rows->size(); ++i) {
    data.rows->score[i] = static_cast<float>(i % 7);
  }
  EXPECT_EQ(decide(data, "worst>=0.9").outcome, "inconclusive");
  EXPECT_EQ(decide(data, "gap<=0.9").outcome, "inconclusive");
}

}  // namespace
}  // namespace kvphase::audit
