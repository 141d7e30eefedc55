#include "audit/some_residues.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/error.h"
#include "base/random.h"
#include "record/result.h"
#include "task/residue_set.h"

namespace kvphase::audit {
namespace {

const std::vector<std::int64_t>& asked() {
  static const std::vector<std::int64_t> residues = task::audited_residues(128, false);
  return residues;
}

// Items at the eleven residues of 128; `share` gives the accuracy at each.
record::Dataset data(std::int64_t items, double (*share)(std::int64_t residue),
                     std::uint64_t seed = 1) {
  std::vector<record::Observation> observations;
  base::Random random(seed);
  for (std::int64_t item = 0; item < items; ++item) {
    for (const std::int64_t r : asked()) {
      observations.push_back({.item = item,
                              .residue = r,
                              .target_position = 128 * (3 + item % 5) + r,
                              .query_position = 2000,
                              .length = 2001,
                              .correct = random.uniform() < share(r)});
    }
  }
  return record::dataset_from(observations, 128, "test");
}

AnalysisOptions options() { return {.replicates = 200, .permutations = 999}; }

TEST(SomeResidues, FindsAWeakBoundaryPhaseAndNamesTheResidueItself) {
  const record::Result r = analyse_some(
      data(40, [](std::int64_t res) { return res == 127 ? 0.3 : 0.9; }), asked(), options());
  EXPECT_EQ(r.verdict.kind, record::VerdictKind::kPeriodic) << r.verdict.sentence;
  EXPECT_EQ(r.worst.group, 127);
  EXPECT_FALSE(r.period.value) << "no period can be searched";
  EXPECT_FALSE(r.period.p_value);
  EXPECT_NE(r.verdict.sentence.find("11 of 128 residues"), std::string::npos) << r.verdict.sentence;
  ASSERT_EQ(r.residues.size(), 11U);
  EXPECT_EQ(r.residues[10].index, 127);
  EXPECT_EQ(r.residues[10].n, 40);
  EXPECT_EQ(r.design.modulus, 128);
  for (const std::string& note : r.notes) EXPECT_EQ(note.find("no scored"), std::string::npos);
  const record::Result back = record::result_from_json(record::to_json(r), "test");
  EXPECT_EQ(record::to_json(back), record::to_json(r)) << "the record reads back";
}

TEST(SomeResidues, EqualResiduesAreCalledDifferentNoMoreOftenThanTheLevel) {
  int differ = 0;
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    const record::Result r =
        analyse_some(data(
                         24, [](std::int64_t) { return 0.8; }, seed),
                     asked(), {.replicates = 20, .permutations = 99, .seed = seed});
    differ += r.verdict.kind == record::VerdictKind::kPeriodic ? 1 : 0;
  }
  EXPECT_LE(differ, 12) << "of 100 at a level of 5%: more than 12 has a chance below 1 in 1000";
}

TEST(SomeResidues, RequirementsAreDecidedOnTheAskedResiduesAndNoPeriodNever) {
  AnalysisOptions o = options();
  o.requirements = {parse_requirement("worst>=0.8"), parse_requirement("no-period")};
  const record::Result good = analyse_some(data(120, [](std::int64_t) { return 1.0; }), asked(), o);
  EXPECT_EQ(good.requirements[0].outcome, "pass") << good.requirements[0].sentence;
  EXPECT_EQ(good.requirements[1].outcome, "inconclusive");
  const record::Result bad =
      analyse_some(data(120, [](std::int64_t res) { return res == 126 ? 0.4 : 1.0; }), asked(), o);
  EXPECT_EQ(bad.requirements[0].outcome, "fail") << bad.requirements[0].sentence;
  EXPECT_NE(bad.requirements[0].sentence.find("9 = 126"), std::string::npos)
      << bad.requirements[0].sentence;
}

TEST(SomeResidues, TooLittleDataIsInconclusiveAndAForeignResidueIsRefused) {
  const record::Result few = analyse_some(data(
                                              3, [](std::int64_t) { return 0.6; }, 5),
                                          asked(), options());
  EXPECT_EQ(few.verdict.kind, record::VerdictKind::kInconclusive) << few.verdict.sentence;
  const record::Result alike =
      analyse_some(data(2, [](std::int64_t) { return 1.0; }), asked(), options());
  EXPECT_EQ(alike.verdict.kind, record::VerdictKind::kInconclusive) << alike.verdict.sentence;
  EXPECT_FALSE(alike.other_stride);
  const record::Result many =
      analyse_some(data(200, [](std::int64_t) { return 1.0; }), asked(), options());
  EXPECT_EQ(many.verdict.kind, record::VerdictKind::kNoPeriod) << many.verdict.sentence;
  const std::vector<std::int64_t> others = {0, 1};
  EXPECT_THROW(analyse_some(data(3, [](std::int64_t) { return 0.6; }), others, options()),
               base::Error);
}

}  // namespace
}  // namespace kvphase::audit
