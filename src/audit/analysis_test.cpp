#include "audit/analysis.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "audit/verdict.h"
#include "base/error.h"
#include "base/random.h"

namespace kvphase::audit {
namespace {

using record::Dataset;
using record::Observation;
using record::Result;
using record::VerdictKind;
using ::testing::Contains;
using ::testing::HasSubstr;

struct Simulation {
  std::int64_t items = 30;
  std::int64_t modulus = 24;
  std::uint64_t seed = 2;
  // Chance of a right answer at a position.
  std::function<double(std::int64_t)> chance = [](std::int64_t) { return 0.8; };
};

std::vector<Observation> simulate(const Simulation& s) {
  base::Random random(s.seed);
  std::vector<Observation> all;
  for (std::int64_t item = 0; item < s.items; ++item) {
    const double ability = 0.1 * random.normal();
    for (std::int64_t residue = 0; residue < s.modulus; ++residue) {
      Observation o;
      o.item = item;
      o.residue = residue;
      o.target_position = 10 * s.modulus + residue;
      const double p = s.chance(o.target_position);
      o.correct = random.uniform() < std::clamp(p == 0 || p == 1 ? p : p + ability, 0.0, 1.0);
      o.logprob = std::log(std::clamp(p, 0.01, 0.99)) + 0.1 * random.normal();
      o.margin = 4 * p - 2 + 0.5 * random.normal();
      all.push_back(o);
    }
  }
  return all;
}

double weak_fourth(std::int64_t position) { return position % 4 == 3 ? 0.35 : 0.85; }

Dataset data_from(const std::vector<Observation>& all, std::int64_t modulus = 24) {
  return record::dataset_from(all, modulus, "test");
}

AnalysisOptions quick() { return {.replicates = 200, .permutations = 1000}; }

std::string text_of(const Result& r) { return record::to_json(r).dump(2); }

TEST(Analysis, FindsThePeriodOfPairedRowsAndDescribesIt) {
  Dataset data = data_from(simulate({.chance = weak_fourth}));
  data.name = "W4/S4";
  data.window = 4;
  const Result r = analyse(data, quick());
  EXPECT_EQ(r.verdict.kind, VerdictKind::kPeriodic);
  EXPECT_EQ(r.period.value, 4);
  EXPECT_LT(r.period.p_value.value(), 0.01);
  ASSERT_TRUE(r.folded);
  EXPECT_EQ(r.folded->source, "detected");
  EXPECT_EQ(r.folded->worst.group, 3);
  EXPECT_NEAR(r.folded->gap.estimate.value.value(), 0.5, 0.12);
  EXPECT_TRUE(r.folded->phases.at(3).boundary);
  EXPECT_TRUE(r.residues.at(7).boundary);
  EXPECT_FALSE(r.residues.at(6).boundary);
  EXPECT_GT(r.folded->gap.cross_fitted.value(), 0.3);
  EXPECT_LT(r.folded->gap.noise.value(), 0.15);
  EXPECT_EQ(r.design.items, 30);
  EXPECT_EQ(r.design.scored, 720);
  EXPECT_THAT(r.verdict.sentence, HasSubstr("Period 4 (p "));
  EXPECT_THAT(r.verdict.sentence, HasSubstr("worst phase 3"));
  EXPECT_FALSE(r.verdict.next_step.empty());
  ASSERT_EQ(r.scores.size(), 2U);
  EXPECT_EQ(r.scores[0].name, "logprob");
  EXPECT_EQ(r.scores[0].period.value, 4);
  for (const record::Group& g : r.residues) {
    EXPECT_LE(g.low.value(), g.accuracy.value()) << "residue " << g.index;
    EXPECT_GE(g.high.value(), g.accuracy.value()) << "residue " << g.index;
    EXPECT_TRUE(g.mean_logprob.has_value());
  }
}

TEST(Analysis, SaysThereIsNoneWhenNothingRepeats) {
  const Result r = analyse(data_from(simulate({.items = 60, .seed = 3})), quick());
  EXPECT_EQ(r.verdict.kind, VerdictKind::kNoPeriod) << r.verdict.sentence;
  EXPECT_GT(r.period.p_value.value(), 0.05);
  EXPECT_FALSE(r.folded);
  EXPECT_THAT(r.verdict.sentence, HasSubstr("No period found"));
}

TEST(Analysis, AgreesWithCountsOfTheSameData) {
  const Dataset rows = data_from(simulate({.items = 50, .chance = weak_fourth}));
  Dataset counts;
  counts.modulus = 24;
  counts.counts = record::CountsTable{.modulus = 24,
                                      .n = std::vector<std::int64_t>(24, 0),
                                      .correct = std::vector<std::int64_t>(24, 0)};
  for (std::size_t i = 0; i < rows.rows->size(); ++i) {
    const auto residue = static_cast<std::size_t>(rows.rows->position[i] % 24);
    ++counts.counts->n[residue];
    if (rows.rows->reply[i] == record::Reply::kRight) ++counts.counts->correct[residue];
  }
  const Result a = analyse(rows, quick());
  const Result b = analyse(counts, quick());
  EXPECT_EQ(a.data_kind, "item-level");
  EXPECT_EQ(b.data_kind, "counts");
  EXPECT_EQ(b.period.value, 4);
  EXPECT_DOUBLE_EQ(a.mean.value.value(), b.mean.value.value());
  EXPECT_DOUBLE_EQ(a.gap.estimate.value.value(), b.gap.estimate.value.value());
  EXPECT_DOUBLE_EQ(a.folded->gap.estimate.value.value(), b.folded->gap.estimate.value.value());
  EXPECT_EQ(b.gap.cross_fitted, std::nullopt);
  EXPECT_THAT(b.notes, Contains(HasSubstr("Counts only")));
  for (std::size_t g = 0; g < 24; ++g) {
    EXPECT_EQ(a.residues[g].low, b.residues[g].low) << "both Wilson, residue " << g;
  }
}

TEST(Analysis, GivesTheSameBytesForTheSameSeedInAnyOrderOfRows) {
  std::vector<Observation> all = simulate({.chance = weak_fourth});
  const std::string first = text_of(analyse(data_from(all), quick()));
  base::Random random(9);
  random.shuffle(std::span(all));
  EXPECT_EQ(text_of(analyse(data_from(all), quick())), first);
  AnalysisOptions other = quick();
  other.seed = 2;
  EXPECT_NE(text_of(analyse(data_from(all), other)), first);
}

TEST(Analysis, SurvivesARoundTripThroughJson) {
  const Result r = analyse(data_from(simulate({.chance = weak_fourth})), quick());
  const base::Json json = record::to_json(r);
  EXPECT_EQ(record::to_json(record::result_from_json(json, "test")), json);
}

TEST(Analysis, FoldsByTheKnownStrideWhenItContainsThePeriod) {
  Dataset data = data_from(simulate({.chance = weak_fourth}));
  data.stride = 6;
  AnalysisOptions options = quick();
  options.stride = 8;
  const Result r = analyse(data, options);
  EXPECT_EQ(r.period.value, 4);
  EXPECT_EQ(r.folded->stride, 8);
  EXPECT_EQ(r.folded->source, "given") << "before the model's";
  EXPECT_FALSE(r.other_stride);
  EXPECT_THAT(r.notes, Contains(HasSubstr("divides the stride 8")));
  EXPECT_THAT(r.notes, Contains(HasSubstr("without the price of searching")));
  EXPECT_THAT(r.verdict.sentence, HasSubstr("Period 4 (p ")) << r.verdict.sentence;
  EXPECT_THAT(r.verdict.sentence, HasSubstr("within the given stride 8: worst phase"));
  EXPECT_THAT(r.verdict.sentence, HasSubstr(" of 8 at ")) << "whose phases they are";
}

TEST(Analysis, SaysOneStrideWhenThePeriodContradictsTheKnownOne) {
  Dataset data = data_from(simulate({.chance = weak_fourth}));
  data.stride = 6;
  const Result r = analyse(data, quick());
  EXPECT_EQ(r.period.value, 4);
  EXPECT_EQ(r.folded->stride, 4) << "sentence, folding and figures are of the period found";
  EXPECT_EQ(r.folded->source, "detected");
  ASSERT_TRUE(r.other_stride);
  EXPECT_EQ(r.other_stride->stride, 6);
  EXPECT_EQ(r.other_stride->source, "model");
  EXPECT_THAT(r.notes, Contains(HasSubstr("not explained by the stride 6")));
  EXPECT_THAT(r.verdict.sentence, HasSubstr("): worst phase 3 at ")) << r.verdict.sentence;
  EXPECT_THAT(r.verdict.sentence, HasSubstr("That is not the model's stride 6"));
  EXPECT_THAT(r.verdict.next_step, HasSubstr("repeat with 4 and not with 6"));
  // Counts that cannot even be folded to the stride.
  Dataset counts;
  counts.modulus = 8;
  counts.stride = 6;
  counts.counts =
      record::CountsTable{.modulus = 8, .n = std::vector<std::int64_t>(8, 200), .correct = {}};
  for (std::int64_t k = 0; k < 8; ++k) counts.counts->correct.push_back(k % 4 == 3 ? 80 : 170);
  const Result c = analyse(counts, quick());
  EXPECT_EQ(c.folded->stride, 4);
  EXPECT_THAT(c.verdict.sentence, HasSubstr("That is not the model's stride 6."));
}

TEST(Analysis, DoesNotNameAPeriodThatTheResiduesDoNotFit) {
  Dataset counts;
  counts.modulus = 8;
  counts.counts = record::CountsTable{.modulus = 8,
                                      .n = std::vector<std::int64_t>(8, 256),
                                      .correct = {205, 205, 205, 100, 205, 205, 205, 205}};
  const Result r = analyse(counts, quick());
  EXPECT_EQ(r.verdict.kind, VerdictKind::kInconclusive);
  EXPECT_THAT(r.verdict.sentence, HasSubstr("no period explains how: worst residue 3 at 39.1%"));
  EXPECT_LT(*r.period.p_misfit, 0.01);
  EXPECT_FALSE(r.period.nested.empty());
  const base::Json json = record::to_json(r).at("period");
  EXPECT_EQ(json.at("nested").size(), r.period.nested.size());
  EXPECT_FALSE(json.at("p_second").is_null() || json.at("p_misfit").is_null());
  // The same misfit beside a period that explains nearly everything is said, not hidden.
  counts.counts->n.assign(8, 10000);
  counts.counts->correct = {8000, 8100, 8000, 4000, 8000, 8100, 8250, 4000};
  const Result kept = analyse(counts, quick());
  EXPECT_EQ(kept.period.value, 4);
  EXPECT_THAT(kept.verdict.sentence, HasSubstr("Positions also differ beyond this period"));
}

TEST(Analysis, SaysWhatADifferenceWithoutAPeriodMeans) {
  // Permutations reject, items shifted as a whole do not, and there are few items.
  Result r;
  r.design.scored = 1000;
  r.mean.value = 0.978;
  r.period.p_value = 0.00005;
  r.period.p_second = 0.4;
  r.worst = {.estimate = {.value = 0.969}, .group = 5};
  r.best = {.estimate = {.value = 0.986}, .group = 2};
  r.gap.estimate.value = 0.017;
  r.gap.noise = 0.012;
  const record::Verdict v = decide(r, {.like_drift = true});
  EXPECT_EQ(v.kind, VerdictKind::kInconclusive);
  EXPECT_THAT(v.sentence,
              HasSubstr("accuracy differs between positions (p < 0.0001), but slow drift"));
  EXPECT_THAT(v.sentence, HasSubstr("worst residue 5 at 96.9%"));
  EXPECT_THAT(v.next_step, HasSubstr("it is small (1.7 points)"));
  EXPECT_THAT(v.next_step, HasSubstr("in random order"));
}

// Items that repeat at phases of their own share no period, and that is what most verdicts say.
TEST(Analysis, SaysThatItemsWithPhasesOfTheirOwnHaveNoPeriod) {
  int none = 0;
  int named = 0;
  int said = 0;
  constexpr int kRuns = 20;
  for (std::uint64_t run = 0; run < kRuns; ++run) {
    base::Random random(base::derive_seed(3, "test.own", {run}));
    std::vector<Observation> all;
    for (std::int64_t item = 0; item < 150; ++item) {
      const std::uint64_t weak = random.uniform_index(8);
      const auto start = static_cast<std::int64_t>(random.uniform_index(1000));
      for (std::int64_t k = 0; k < 24; ++k) {
        Observation o;
        o.item = item;
        o.target_position = start + k;
        o.residue = o.target_position % 24;
        o.correct = random.uniform() <
                    (static_cast<std::uint64_t>(o.target_position % 8) == weak ? 0.05 : 0.98);
        all.push_back(o);
      }
    }
    const Result r = analyse(data_from(all), {.replicates = 100, .permutations = 300});
    none += r.verdict.kind == VerdictKind::kNoPeriod;
    named += r.verdict.kind == VerdictKind::kPeriodic;
    const bool together = *r.period.p_second <= 0.05 && r.verdict.kind == VerdictKind::kNoPeriod;
    EXPECT_EQ(r.verdict.sentence.find("go together") != std::string::npos, together)
        << r.verdict.sentence;
    said += together;
  }
  std::printf(
      "of %d audits of items with phases of their own, no period %d, a period %d, answers "
      "that go together said of %d\n",
      kRuns, none, named, said);
  EXPECT_GE(none, 17);
  EXPECT_LE(named, 2);
  EXPECT_GE(said, 3) << "else these data are no test";
}

TEST(Analysis, GivesASmallCertainGapAnotherNextStepThanALargeOne) {
  Dataset counts;
  counts.modulus = 8;
  counts.counts =
      record::CountsTable{.modulus = 8, .n = std::vector<std::int64_t>(8, 100000), .correct = {}};
  for (std::int64_t k = 0; k < 8; ++k) {
    counts.counts->correct.push_back(k % 4 == 3 ? 98000 : 99000);
  }
  const Result small = analyse(counts, quick());
  EXPECT_EQ(small.period.value, 4);
  EXPECT_THAT(small.verdict.next_step, HasSubstr("real but small"));
  EXPECT_THAT(small.verdict.next_step, HasSubstr("98.0%"));
  for (std::int64_t k = 3; k < 8; k += 4)
    counts.counts->correct[static_cast<std::size_t>(k)] = 59000;
  EXPECT_THAT(analyse(counts, quick()).verdict.next_step, HasSubstr("by its worst phase"));
}

TEST(Analysis, NoPeriodNeedsDataThatCouldHaveShownOne) {
  const auto right = [](std::int64_t) { return 1.0; };
  for (const std::int64_t items : {1, 2, 5}) {
    const Result r = analyse(data_from(simulate({.items = items, .chance = right})), quick());
    EXPECT_EQ(r.verdict.kind, VerdictKind::kInconclusive)
        << items << " items: " << r.verdict.sentence;
    EXPECT_THAT(r.verdict.sentence, HasSubstr("replies are right, but with so few"));
  }
  Dataset counts;
  for (const std::int64_t modulus : {3, 8}) {
    for (const std::int64_t n : {1, 2, 1000}) {
      counts.modulus = modulus;
      counts.counts = record::CountsTable{
          .modulus = modulus,
          .n = std::vector<std::int64_t>(static_cast<std::size_t>(modulus), n),
          .correct = std::vector<std::int64_t>(static_cast<std::size_t>(modulus), n)};
      const Result r = analyse(counts, quick());
      EXPECT_EQ(r.verdict.kind == VerdictKind::kNoPeriod, modulus == 8 && n == 1000)
          << n << " prompts mod " << modulus << ": " << r.verdict.sentence;
    }
  }
  const Result few = analyse(data_from(simulate({.items = 12, .seed = 3})), quick());
  EXPECT_NE(few.verdict.kind, VerdictKind::kNoPeriod)
      << "12 items cannot find 20 points: " << few.verdict.sentence;
}

TEST(Analysis, APhaseWithoutPromptsIsPartOfTheVerdict) {
  std::vector<Observation> all = simulate({.items = 60, .chance = weak_fourth});
  std::erase_if(all, [](const Observation& o) { return o.residue % 4 == 1; });
  const Result r = analyse(data_from(all), quick());
  EXPECT_THAT(r.verdict.sentence, HasSubstr("no scored prompt")) << r.verdict.sentence;
  std::vector<Observation> flat = simulate({.items = 60, .seed = 3});
  std::erase_if(flat, [](const Observation& o) { return o.residue % 4 == 1; });
  const Result none = analyse(data_from(flat), quick());
  EXPECT_EQ(none.verdict.kind, VerdictKind::kInconclusive) << none.verdict.sentence;
  EXPECT_THAT(none.verdict.sentence, HasSubstr("phase 1 of 4 has no scored prompt"));
  std::vector<Observation> one = simulate({.items = 60, .seed = 3});
  std::erase_if(one, [](const Observation& o) { return o.residue == 5; });
  EXPECT_THAT(analyse(data_from(one), quick()).verdict.sentence,
              HasSubstr("Residue 5 has no scored prompt"));
}

TEST(Analysis, AHoleInFewPositionsIsSeenWhateverTheModulus) {
  // Positions 0..7 and the default R of 24: residues 8..23 are no hole, position phase 2 of 4 is.
  const auto at_eight = [](bool hole) {
    base::Random random(8);
    std::vector<Observation> all;
    for (std::int64_t item = 0; item < 200; ++item) {
      for (std::int64_t p = 0; p < 8; ++p) {
        if (hole && p % 4 == 2) continue;
        Observation o{.item = item, .residue = p};
        o.target_position = p;
        o.correct = random.uniform() < 0.8;
        all.push_back(o);
      }
    }
    return analyse(data_from(all), quick()).verdict;
  };
  const record::Verdict full = at_eight(false);
  EXPECT_EQ(full.kind, VerdictKind::kNoPeriod) << full.sentence;
  EXPECT_THAT(full.sentence, testing::Not(HasSubstr("no scored prompt")));
  const record::Verdict hole = at_eight(true);
  EXPECT_EQ(hole.kind, VerdictKind::kInconclusive) << hole.sentence;
  EXPECT_THAT(hole.sentence, HasSubstr("phase 2 of 4 has no scored prompt"));
  EXPECT_THAT(hole.sentence, HasSubstr("Positions 2 and 6 have no scored prompt"));
}

TEST(Analysis, RefusesScoresTooLargeToAddUp) {
  std::vector<Observation> all = simulate({.items = 3});
  all[7].margin = 1e35;
  try {
    analyse(data_from(all), quick());
    ADD_FAILURE() << "expected a refusal";
  } catch (const base::Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("at most 1e+30")) << error.what();
  }
}

TEST(Analysis, FoldsByPositionEvenWhenTheStrideDoesNotDivideTheModulus) {
  const Dataset data = data_from(
      simulate({.items = 40, .chance = [](std::int64_t p) { return p % 5 == 2 ? 0.2 : 0.9; }}));
  const Result r = analyse(data, quick());
  EXPECT_EQ(r.period.value, 5) << r.verdict.sentence;
  EXPECT_EQ(r.folded->worst.group, 2);
}

TEST(Analysis, TellsAllRightFromAllWrong) {
  const Result right = analyse(
      data_from(simulate({.items = 30, .chance = [](std::int64_t) { return 1.0; }})), quick());
  EXPECT_EQ(right.verdict.kind, VerdictKind::kNoPeriod);
  EXPECT_EQ(right.period.p_value, 1.0);
  EXPECT_EQ(right.gap.estimate.value, 0.0);
  EXPECT_THAT(right.verdict.sentence, HasSubstr("all 720 replies are right"));
  EXPECT_LT(right.residues[0].low.value(), 1.0) << "thirty right answers do not prove perfection";
  const Result wrong = analyse(
      data_from(simulate({.items = 5, .chance = [](std::int64_t) { return 0.0; }})), quick());
  EXPECT_EQ(wrong.verdict.kind, VerdictKind::kNotLearned);
  EXPECT_THAT(wrong.verdict.sentence, HasSubstr("none of 120"));
}

TEST(Analysis, CallsAFlatCurveBelowTheAskedAccuracyNotLearned) {
  AnalysisOptions options = quick();
  options.min_accuracy = 0.98;
  EXPECT_EQ(analyse(data_from(simulate({.items = 60, .seed = 3})), options).verdict.kind,
            VerdictKind::kNotLearned);
  EXPECT_EQ(analyse(data_from(simulate({.chance = weak_fourth})), options).verdict.kind,
            VerdictKind::kPeriodic)
      << "a period is a period, whatever the mean";
}

// Seed 4 is one of the false alarms in twenty: with one item its p is 0.047.
TEST(Analysis, AnswersForTinyData) {
  for (std::int64_t items : {0, 1, 2}) {
    for (std::int64_t modulus : {2, 3, 24}) {
      const Result r = analyse(
          data_from(simulate({.items = items, .modulus = modulus, .seed = 5}), modulus), quick());
      SCOPED_TRACE(testing::Message()
                   << items << " items mod " << modulus << ": " << r.verdict.sentence);
      EXPECT_NE(r.verdict.kind, VerdictKind::kPeriodic);
      EXPECT_FALSE(r.verdict.sentence.empty());
      EXPECT_EQ(r.mean.value.has_value(), items > 0);
      if (items == 0) {
        EXPECT_FALSE(r.mean.reason.empty());
      }
      if (items == 1) {
        EXPECT_FALSE(r.gap.estimate.low.has_value());
      }
      EXPECT_EQ(text_of(r).find("nan"), std::string::npos);
    }
  }
}

TEST(Analysis, KeepsMissingRepliesApartAndBoundsThem) {
  std::vector<Observation> all = simulate({.items = 10, .modulus = 4, .seed = 2});
  for (std::size_t i = 0; i < all.size(); i += 8) {
    all[i].correct.reset();  // 5 at residue 0
    all[i].logprob.reset();
    all[i].margin.reset();
  }
  const Result r = analyse(data_from(all, 4), quick());
  EXPECT_EQ(r.design.missing, 5);
  EXPECT_EQ(r.design.scored, 35);
  EXPECT_EQ(r.residues[0].planned, 10);
  EXPECT_EQ(r.residues[0].n, 5);
  EXPECT_THAT(r.notes, Contains(HasSubstr("5 of 40 replies are missing")));
  EXPECT_THAT(r.notes, Contains(HasSubstr("missing at some residues more than at others")));
  EXPECT_THAT(r.verdict.next_step, HasSubstr("missing at some residues more than at others"));
}

TEST(Analysis, SaysWhenAResidueHasNoPrompt) {
  std::vector<Observation> all = simulate({.items = 20, .modulus = 8, .chance = weak_fourth});
  std::erase_if(all, [](const Observation& o) { return o.residue == 5; });
  const Result r = analyse(data_from(all, 8), quick());
  EXPECT_EQ(r.residues[5].n, 0);
  EXPECT_EQ(r.residues[5].accuracy, std::nullopt);
  EXPECT_THAT(r.notes, Contains(HasSubstr("no scored prompt (5)")));
}

TEST(Analysis, TakesRowsWithoutItemsAsUnpaired) {
  Dataset data = data_from(simulate({.items = 25, .chance = weak_fourth}));
  for (std::size_t i = 0; i < data.rows->size(); ++i)
    data.rows->item[i] = static_cast<std::int32_t>(i);
  data.rows->items = static_cast<std::int64_t>(data.rows->size());
  data.rows->items_known = false;
  const Result r = analyse(data, quick());
  EXPECT_EQ(r.period.value, 4);
  EXPECT_THAT(r.period.method, HasSubstr("unpaired"));
  EXPECT_THAT(r.notes, Contains(HasSubstr("its own item")));
}

TEST(Analysis, JudgesAContinuousScoreWhenThereIsNoRightOrWrong) {
  std::vector<Observation> all = simulate({.items = 6, .chance = weak_fourth});
  for (Observation& o : all) {
    o.correct.reset();
    o.logprob.reset();
  }
  Dataset data = data_from(all);
  data.rows->has_right_wrong = false;
  const Result r = analyse(data, quick());
  EXPECT_EQ(r.score, "margin");
  EXPECT_EQ(r.period.value, 4) << "six items are enough for a margin";
  EXPECT_EQ(r.folded->worst.group, 3);
  EXPECT_FALSE(r.residues[0].correct) << "a margin is not right or wrong";
  EXPECT_TRUE(r.residues[0].low.has_value());
}

TEST(Analysis, SaysWhenOnlyTheMarginFollowsAPeriod) {
  std::vector<Observation> all = simulate({.items = 30, .chance = weak_fourth});
  for (Observation& o : all) o.correct = true;
  AnalysisOptions options = quick();
  options.requirements = {parse_requirement("no-period")};
  const Result r = analyse(data_from(all), options);
  EXPECT_EQ(r.verdict.kind, VerdictKind::kNoPeriod);
  EXPECT_THAT(r.verdict.sentence, HasSubstr("does follow a period of 4"));
  EXPECT_THAT(r.verdict.next_step, HasSubstr("the scores do"));
  EXPECT_THAT(r.requirements.at(0).sentence, HasSubstr("does follow a period of 4"))
      << "a requirement that passes must not hide it";
}

TEST(Analysis, CountsRepeatsButLeavesThemOut) {
  std::vector<Observation> all = simulate({.items = 10, .modulus = 4, .seed = 2});
  Observation again = all.front();
  again.repeat = 1;
  again.correct = !*again.correct;
  all.push_back(again);
  const Result r = analyse(data_from(all, 4), quick());
  EXPECT_EQ(r.design.observations, 40);
  EXPECT_THAT(r.notes, Contains(HasSubstr("A/A: 1 of 1")));
}

TEST(Analysis, UsesTheBootstrapWhereAnItemRepeatsInAPhase) {
  Dataset data = data_from(simulate({.items = 12, .chance = weak_fourth}));
  const Result r = analyse(data, quick());
  // Folded to 4, every item has six prompts per phase; Wilson over 72 would ignore the items.
  const record::Group& phase = r.folded->phases[0];
  EXPECT_EQ(phase.n, 72);
  EXPECT_TRUE(phase.low && phase.high);
  double best = 0;
  for (const record::Group& g : r.folded->phases) best = std::max(best, g.worst_share.value());
  EXPECT_GT(best, 0.95) << "one phase is clearly the worst";
}

TEST(Analysis, SaysInTheVerdictThatFewItemsHaveNoSecondNull) {
  const auto perfect = [](std::int64_t position) { return position % 4 == 3 ? 0.0 : 1.0; };
  const Result few = analyse(data_from(simulate({.items = 3, .chance = perfect})), quick());
  EXPECT_EQ(few.period.value, 4);
  EXPECT_THAT(few.verdict.sentence, HasSubstr("drift along the positions is not excluded: fewer "
                                              "than 5 items vary"));
  const Result enough = analyse(data_from(simulate({.items = 8, .chance = perfect})), quick());
  EXPECT_EQ(enough.period.value, 4);
  EXPECT_THAT(enough.verdict.sentence, testing::Not(HasSubstr("drift")));
}

TEST(Analysis, RefusesTooFewDrawsForItsLevel) {
  const Dataset data = data_from(simulate({.items = 2}));
  EXPECT_THROW(analyse(data, {.permutations = 18}), base::Error) << "p is at least 1/19";
  EXPECT_NO_THROW(analyse(data, {.permutations = 19}));
  EXPECT_THROW(analyse(data, {.replicates = 1}), base::Error);
}

TEST(Analysis, RefusesWhatItCannotRead) {
  Dataset neither;
  neither.modulus = 4;
  EXPECT_THROW(analyse(neither, quick()), base::Error);
  Dataset data = data_from(simulate({.items = 2}));
  AnalysisOptions options = quick();
  options.stride = 1;
  EXPECT_THROW(analyse(data, options), base::Error);
}

TEST(Analysis, ASmoothCurveOverAllResiduesIsNotNamedAfterHalfItsLength) {
  Dataset data;
  data.modulus = 24;
  data.counts = record::CountsTable{.modulus = 24, .n = {}, .correct = {}};
  for (std::int64_t r = 0; r < 24; ++r) {  // a triangle: no half of it repeats
    data.counts->correct.push_back(600 + 25 * std::abs(r - 12));
    data.counts->n.push_back(1000);
  }
  const Result r = analyse(data, {.requirements = {parse_requirement("no-period")}});
  EXPECT_FALSE(r.period.value) << r.verdict.sentence;
  EXPECT_EQ(r.verdict.kind, VerdictKind::kInconclusive) << r.verdict.sentence;
  EXPECT_FALSE(r.folded);
  EXPECT_EQ(r.requirements[0].outcome, "inconclusive") << r.requirements[0].sentence;
}

TEST(Analysis, ResiduesThatCertainlyDifferAreInconclusiveWithoutAPeriodAndPassNoGate) {
  Dataset data;
  data.modulus = 8;
  data.counts = record::CountsTable{.modulus = 8,
                                    .n = std::vector<std::int64_t>(8, 256),
                                    .correct = {200, 212, 198, 207, 205, 170, 210, 203}};
  const Result r = analyse(data, {.requirements = {parse_requirement("no-period")}});
  EXPECT_FALSE(r.period.value) << r.verdict.sentence;
  EXPECT_EQ(r.verdict.kind, VerdictKind::kInconclusive) << r.verdict.sentence;
  EXPECT_EQ(r.requirements[0].outcome, "inconclusive") << r.requirements[0].sentence;
}

}  // namespace
}  // namespace kvphase::audit
