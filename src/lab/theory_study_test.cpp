// The study, small: its claims, its bytes, and a setting in which Theorem 1 does not hold.
#include "lab/theory_study.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "lab/theory_claims.h"
#include "lab/theory_findings.h"
#include "lab/theory_json.h"

namespace kvphase::lab {
namespace {

StudyOptions small_study() {
  return {.setting = {.stride = 4, .heads = 2, .chunks = 4, .vocabulary = 1024},
          .flow = {.time = 8000},
          .runs = 60,
          .other_runs = 0,
          .gated_runs = 2,
          .sgd_runs = 1,
          .gated_vocabulary = 128,
          .rules = {.random = 4, .optimised = 2},
          .largest_rule_stride = 4,
          .broken = false};
}

std::string outcome_of(const TheoryStudy& study, const std::string& name) {
  const auto found = std::ranges::find(study.claims, name, &TheoryClaim::name);
  return found == study.claims.end() ? "no such claim" : found->outcome + " " + found->evidence;
}

TEST(TheoryStudyTest, ItsClaimsHoldAndTheSameSeedGivesTheSameBytes) {
  const TheoryStudy study = run_study(small_study());
  for (const TheoryClaim& claim : study.claims) {
    fmt::print("{}: {} ({})\n", claim.name, claim.outcome, claim.evidence);
    EXPECT_EQ(claim.outcome, "holds") << claim.name << ": " << claim.evidence;
  }
  EXPECT_EQ(sentence_of(study.claims), "All 7 claims hold in this setting.");
  const TheoryStudy again = run_study(small_study());
  EXPECT_EQ(data_json(again).dump(), data_json(study).dump());
  EXPECT_EQ(heads_csv(again), heads_csv(study));
  StudyOptions other = small_study();
  other.flow.seed = 2;
  EXPECT_NE(heads_csv(run_study(other)), heads_csv(study));
}

TEST(TheoryStudyTest, SamplesOfTheNetworkHaveTheClosedFormsLossWithEquiangularEmbeddings) {
  StudyOptions options = small_study();
  options.rules = {.random = 2, .optimised = 2};
  options.runs = options.gated_runs = 1;
  const TheoryStudy study = run_study(options);
  ASSERT_EQ(study.sampled.size(), 4U);
  EXPECT_NEAR(study.sampled[0].loss, study.sampled[0].closed_loss, 1e-9);
  EXPECT_EQ(study.sampled[0].closed_accuracy.size(), 3U);
  for (std::size_t r = 0; r < 3; ++r) {
    EXPECT_NEAR(study.sampled[0].accuracy[r], study.sampled[0].closed_accuracy[r], 1e-9);
  }
  EXPECT_NE(study.sampled[1].loss, study.sampled[0].loss);
  EXPECT_EQ(outcome_of(study, "Coverage").substr(0, 4), "open") << "one run is too few to test";
}

TEST(TheoryStudyTest, LogitsTooLargeForTheVocabularyFailTheoremOneAndSaySo) {
  StudyOptions options = small_study();
  options.setting.beta = 12;
  options.setting.gamma = 8;
  options.runs = options.gated_runs = 1;
  options.flow.time = 50;
  const TheoryStudy study = run_study(options);
  EXPECT_EQ(outcome_of(study, "Theorem 1").substr(0, 5), "fails");
  EXPECT_NE(sentence_of(study.claims).find("Does not hold in this setting: Theorem 1"),
            std::string::npos);
}

TEST(TheoryStudyTest, FindingsRoundTripAndHaveEveryFigure) {
  StudyOptions options = small_study();
  options.rules = {.random = 2, .optimised = 2};
  options.runs = 5;
  const record::Findings findings = findings_of(run_study(options), {});
  const base::Json json = record::to_json(findings);
  EXPECT_EQ(json.at("schema"), "kvphase.theory/1");
  EXPECT_EQ(record::to_json(record::findings_from_json(json, "theory", "test")).dump(),
            json.dump());
  std::vector<std::string> ids;
  for (const record::Figure& figure : findings.figures) {
    ids.push_back(figure.id);
    EXPECT_TRUE(figure.description.starts_with(figure.title + ": ")) << figure.description;
  }
  EXPECT_EQ(ids, (std::vector<std::string>{"trajectories", "trajectories-log-linear", "positions",
                                           "runs", "coverage", "accuracy"}));
}

TEST(TheoryStudyTest, RefusesOptionsOutsideTheirRangesByName) {
  const auto message = [](const StudyOptions& options) -> std::string {
    try {
      check(options, "theory");
    } catch (const base::Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(message({}), "");
  EXPECT_NE(message({.flow = {.init = 0}}).find("an init above 0"), std::string::npos);
  EXPECT_NE(message({.runs = 0}).find("at least 1 run"), std::string::npos);
  for (const std::int64_t stride : {0, 2, 65}) {
    EXPECT_NE(message({.setting = {.stride = stride}}).find("stride of 3 to 64"), std::string::npos)
        << stride;
  }
  EXPECT_NE(message({.gated_vocabulary = 20}).find("at least chunks x stride"), std::string::npos);
}

}  // namespace
}  // namespace kvphase::lab
