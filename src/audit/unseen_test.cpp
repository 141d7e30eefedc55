// What the data cannot show must not read as an all-clear: strides that positions or residues hide,
// replies that are absent at some phases.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "audit/analysis.h"
#include "base/random.h"

namespace kvphase::audit {
namespace {

using record::Dataset;
using record::Observation;
using record::Result;
using record::VerdictKind;
using ::testing::HasSubstr;

struct Simulation {
  std::int64_t items = 40;
  std::int64_t positions = 24;  // per item, consecutive, from anywhere below 1,000
  std::uint64_t seed = 1;
  std::function<double(std::int64_t)> chance = [](std::int64_t) { return 0.9; };
};

std::vector<Observation> simulate(const Simulation& s) {
  base::Random random(s.seed);
  std::vector<Observation> all;
  for (std::int64_t item = 0; item < s.items; ++item) {
    const auto start = static_cast<std::int64_t>(random.uniform_index(1000));
    for (std::int64_t k = 0; k < s.positions; ++k) {
      Observation o{.item = item, .target_position = start + k};
      o.correct = random.uniform() < s.chance(o.target_position);
      all.push_back(o);
    }
  }
  return all;
}

// The same answers with positions known modulo R only, as a residue column gives them.
Dataset residues_only(std::vector<Observation> all, std::int64_t R) {
  for (Observation& o : all) o.target_position %= R;
  Dataset data = record::dataset_from(all, R, "test");
  data.residues_of = R;
  return data;
}

Dataset counts_of(const std::vector<Observation>& all, std::int64_t R) {
  const auto size = static_cast<std::size_t>(R);
  record::CountsTable table{.modulus = R,
                            .n = std::vector<std::int64_t>(size, 0),
                            .correct = std::vector<std::int64_t>(size, 0)};
  for (const Observation& o : all) {
    const auto r = static_cast<std::size_t>(o.target_position % R);
    ++table.n[r];
    table.correct[r] += *o.correct ? 1 : 0;
  }
  Dataset data;
  data.modulus = R;
  data.counts = table;
  return data;
}

AnalysisOptions asking(std::optional<std::int64_t> stride = {}) {
  AnalysisOptions options{.replicates = 200, .permutations = 1000};
  options.stride = stride;
  for (const char* text : {"no-period", "worst>=0.7", "gap<=0.15"}) {
    options.requirements.push_back(parse_requirement(text));
  }
  return options;
}

std::vector<std::string> outcomes(const Result& r) {
  std::vector<std::string> list;
  for (const auto& requirement : r.requirements) list.push_back(requirement.outcome);
  return list;
}

std::function<double(std::int64_t)> weak_phase(std::int64_t stride, double weak, double other) {
  return [=](std::int64_t p) { return p % stride == stride - 1 ? weak : other; };
}

TEST(Unseen, AStrideTooLongToBeSearchedForIsNeverNoPeriodWhereItsPhasesDiffer) {
  int clear = 0, inconclusive = 0;
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    const Result r =
        analyse(record::dataset_from(simulate({.seed = seed, .chance = weak_phase(16, 0.65, 0.9)}),
                                     24, "t"),
                asking(16));
    if (r.verdict.kind == VerdictKind::kNoPeriod || outcomes(r)[0] == "pass") ++clear;
    if (r.verdict.kind != VerdictKind::kInconclusive) continue;
    ++inconclusive;
    EXPECT_THAT(r.verdict.sentence, HasSubstr("the given stride 16"));
    EXPECT_THAT(r.verdict.next_step, HasSubstr("32 consecutive"));
  }
  EXPECT_EQ(clear, 0);
  EXPECT_GT(inconclusive, 2);
}

TEST(Unseen, AStrideTooLongToBeSearchedForNeedsDataThatWouldShowItsPhases) {
  const Simulation flat{.items = 400, .seed = 3};
  const Result many = analyse(record::dataset_from(simulate(flat), 24, "test"), asking(16));
  EXPECT_EQ(many.verdict.kind, VerdictKind::kNoPeriod) << many.verdict.sentence;
  const Result few =
      analyse(record::dataset_from(simulate({.items = 20, .seed = 3}), 24, "test"), asking(16));
  EXPECT_EQ(few.verdict.kind, VerdictKind::kInconclusive) << few.verdict.sentence;
  EXPECT_THAT(few.verdict.sentence, HasSubstr("one phase in 16 weaker by"));
}

TEST(Unseen, ResiduesCannotBeFoldedByAStrideThatDoesNotDivideThem) {
  const auto all =
      simulate({.items = 300, .positions = 8, .seed = 3, .chance = weak_phase(3, 0.5, 0.98)});
  for (const Dataset& data : {residues_only(all, 8), counts_of(all, 8)}) {
    const Result r = analyse(data, asking(3));
    EXPECT_FALSE(r.folded);
    EXPECT_EQ(r.verdict.kind, VerdictKind::kInconclusive) << r.verdict.sentence;
    EXPECT_THAT(r.verdict.sentence, HasSubstr("cannot show the given stride 3"));
    for (const std::string& outcome : outcomes(r)) EXPECT_NE(outcome, "pass");
  }
  // Whole positions show it.
  EXPECT_EQ(analyse(record::dataset_from(all, 24, "test"), asking(3)).period.value, 3);
}

TEST(Unseen, CountsModuloADivisorOfTheStridePassNothing) {
  const auto half = [](std::int64_t p) { return p % 16 < 8 ? 0.55 : 0.95; };
  const Result r = analyse(counts_of(simulate({.items = 1000, .chance = half}), 8), asking(16));
  EXPECT_EQ(r.verdict.kind, VerdictKind::kInconclusive) << r.verdict.sentence;
  for (const std::string& outcome : outcomes(r)) EXPECT_NE(outcome, "pass");
}

TEST(Unseen, OnlyPeriodsThatDivideTheResiduesAreNamed) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    const auto two_weak = [](std::int64_t p) { return p % 8 == 2 || p % 8 == 5 ? 0.5 : 0.9; };
    const auto all = simulate({.positions = 8, .seed = seed, .chance = two_weak});
    const Result r = analyse(residues_only(all, 8), asking());
    for (const auto& candidate : r.period.candidates) EXPECT_EQ(8 % candidate.period, 0);
    EXPECT_FALSE(r.period.value) << *r.period.value;
  }
}

TEST(Unseen, RepliesMissingByPhaseAreNoAllClear) {
  auto all = simulate({.items = 60, .seed = 5, .chance = weak_phase(4, 0.6, 0.9)});
  std::vector<Observation> left_out;
  base::Random random(7);
  for (Observation& o : all) {
    if (!*o.correct && o.target_position % 4 == 3 && random.uniform() < 0.9) {
      o.correct = {};
    } else {
      left_out.push_back(o);
    }
  }
  const Result missing = analyse(record::dataset_from(all, 24, "test"), asking(4));
  EXPECT_EQ(missing.verdict.kind, VerdictKind::kInconclusive) << missing.verdict.sentence;
  EXPECT_THAT(missing.verdict.sentence, HasSubstr("the worst residue would be at"));
  const Result absent = analyse(record::dataset_from(left_out, 24, "test"), asking(4));
  EXPECT_EQ(absent.verdict.kind, VerdictKind::kInconclusive) << absent.verdict.sentence;
  EXPECT_THAT(absent.verdict.sentence, HasSubstr("Rows are left out"));
  for (const Result* r : {&missing, &absent}) {
    for (const std::string& outcome : outcomes(*r)) EXPECT_NE(outcome, "pass");
  }
}

// Items at random places, or runs with holes that know nothing of phases, are no cause for alarm.
TEST(Unseen, HolesThatKnowNothingOfPhasesAreNotHeldAgainstTheData) {
  int alarms = 0;
  base::Random random(11);
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    auto all = simulate({.seed = seed});
    std::erase_if(all, [&](const Observation&) { return random.uniform() < 0.1; });
    const Result r =
        analyse(record::dataset_from(all, 24, "test"), {.replicates = 20, .permutations = 100});
    if (r.verdict.sentence.find("left out") != std::string::npos) ++alarms;
  }
  EXPECT_LE(alarms, 3);  // level 0.01: more than 3 of 40 in 1 of 1,500
  auto scattered = simulate({.items = 100, .positions = 8});
  for (Observation& o : scattered)
    o.target_position = static_cast<std::int64_t>(random.uniform_index(100'000));
  const Result r = analyse(record::dataset_from(scattered, 24, "test"), asking());
  EXPECT_EQ(r.verdict.sentence.find("left out"), std::string::npos) << r.verdict.sentence;
}

}  // namespace
}  // namespace kvphase::audit
