#include "audit/sequential_audit.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <stdexcept>

#include "base/error.h"
#include "base/files.h"
#include "base/random.h"
#include "record/journal.h"
#include "task/lookup.h"

namespace kvphase::audit {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

// Answers right with a chance that depends on the target's phase mod 4 only; counts what it is
// asked and can die.
class ScriptedModel : public lm::LanguageModel {
 public:
  explicit ScriptedModel(std::vector<double> chance) : chance_(std::move(chance)) {}
  lm::ModelIdentity identity() const override {
    return {.name = "scripted", .kind = "checkpoint", .sha256 = "abc", .config = nullptr};
  }
  lm::ModelTraits traits() const override { return {}; }
  std::vector<lm::TokenId> tokenize(std::string_view) override { return {}; }
  std::string detokenize(std::span<const lm::TokenId>) override { return {}; }
  void generate(const lm::GenerateRequest&,
                const std::function<bool(const lm::GeneratedToken&)>&) override {}
  void score_each(std::span<const lm::ScoreRequest> requests, const OnScore& on_reply) override {
    if (asked >= dies_after) throw std::runtime_error("died");
    std::size_t index = 0;
    for (const auto& request : requests) {
      ++asked;
      const auto key = request.prompt.back();
      std::size_t position = 0;
      std::uint64_t text = 7;
      while (request.prompt[position] != key) ++position;
      for (const auto token : request.prompt) {
        text = text * 0x9E3779B97F4A7C15ULL + static_cast<std::uint64_t>(token) + 1;
      }
      base::Random random(text);
      const bool right = random.uniform() < chance_[position % 4];
      if (position % 4 == missing_at) {
        on_reply(index++, {.top = request.target, .missing = "timeout"});
        continue;
      }
      on_reply(index++, {.top = right ? request.target : 0,
                         .target_logprob = right ? -0.1 : -3,
                         .margin = right ? 2.0 : -2.0});
    }
  }

  std::int64_t asked = 0;
  std::size_t missing_at = 4;
  std::int64_t dies_after = 1'000'000;

 private:
  std::vector<double> chance_;
};

const std::vector<double> kOneWeak = {0.95, 0.9, 0.9, 0.4};
const std::vector<double> kFlat = {0.8, 0.8, 0.8, 0.8};

task::LookupTask small_task(std::uint64_t seed = 1, std::int64_t items = 64) {
  return task::LookupTask({.language = {.haystack = 30, .records = 5, .queries = 5},
                           .demonstrations = 2,
                           .modulus = 8,
                           .items = items,
                           .seed = seed});
}

class SequentialAuditTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "kvphase-seq-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
  }
  void TearDown() override { fs::remove_all(root_); }

  SequentialAudit audit(ScriptedModel& model, const task::Task& task, const std::string& name,
                        bool resume = false, std::optional<Requirement> requirement = {}) {
    options_ = {.folder = root_ / name,
                .resume = resume,
                .stride = 4,
                .block_items = 8,
                .requirement = std::move(requirement)};
    return run_sequential_audit(model, task, options_, {});
  }
  record::Result result(const SequentialAudit& audit, const task::Task& task) {
    return sequential_result(audit, task, options_, {.title = "t", .context = {}});
  }

  fs::path root_;
  SequentialAuditOptions options_;
};

TEST_F(SequentialAuditTest, NamesTheWeakPhaseWithFewerPromptsInNearlyEveryRun) {
  int right = 0;
  int wrong = 0;
  double saving = 0;
  constexpr int kRuns = 100;
  for (int run = 0; run < kRuns; ++run) {
    ScriptedModel model(kOneWeak);
    const auto a =
        audit(model, small_task(static_cast<std::uint64_t>(run)), fmt::format("r{}", run));
    right += a.search.worst == 3 ? 1 : 0;
    wrong += a.search.worst && a.search.worst != 3 ? 1 : 0;
    saving += a.search.saving / kRuns;
    EXPECT_EQ(model.asked, a.search.prompts) << "nothing is asked that is not counted";
  }
  fmt::print("worst phase named in {} of {}, another in {}, mean saving {:.2f} of 256 prompts\n",
             right, kRuns, wrong, saving);
  EXPECT_GE(right, 95);
  EXPECT_EQ(wrong, 0);
  EXPECT_GT(saving, 0.4);
}

TEST_F(SequentialAuditTest, StopsNoMoreOftenThanItsLevelOnAFlatModel) {
  int stopped = 0;
  int claimed = 0;
  constexpr int kRuns = 100;
  for (int run = 0; run < kRuns; ++run) {
    ScriptedModel model(kFlat);
    const auto a =
        audit(model, small_task(static_cast<std::uint64_t>(run)), fmt::format("r{}", run));
    stopped += a.search.stop != stats::StopReason::kAllItemsRun ? 1 : 0;
    claimed += a.search.dependence_after ? 1 : 0;
  }
  fmt::print("flat model: {} of {} stopped early, {} claimed that phases differ\n", stopped, kRuns,
             claimed);
  EXPECT_LE(stopped, 5);
  EXPECT_LE(claimed, 5);
}

TEST_F(SequentialAuditTest, AResumedRunTakesTheSameDecisionsFromItsJournal) {
  const auto task = small_task();
  ScriptedModel whole(kOneWeak);
  const auto expected = audit(whole, task, "whole");
  ASSERT_GT(expected.search.prompts, 64) << "or there is nothing to interrupt";
  ScriptedModel model(kOneWeak);
  model.dies_after = 40;
  EXPECT_THROW(audit(model, task, "torn"), std::runtime_error);
  model.dies_after = 1'000'000;
  const std::int64_t before = model.asked;
  const auto resumed = audit(model, task, "torn", true);
  EXPECT_EQ(before, 64) << "two blocks of 8 items x 4 phases";
  EXPECT_EQ(resumed.run.observations, expected.run.observations);
  EXPECT_EQ(base::read_file(root_ / "torn" / "journal.jsonl"),
            base::read_file(root_ / "whole" / "journal.jsonl"));
  EXPECT_EQ(model.asked, whole.asked);
  EXPECT_EQ(record::to_json(result(resumed, task)), record::to_json(result(expected, task)));
  const std::int64_t asked = model.asked;
  audit(model, task, "torn", true);
  EXPECT_EQ(model.asked, asked) << "a finished run asks nothing";
}

TEST_F(SequentialAuditTest, RefusesToGoOnWithAnotherDesign) {
  const auto task = small_task();
  ScriptedModel model(kOneWeak);
  audit(model, task, "run");
  try {
    run_audit(model, task, {.folder = root_ / "run", .resume = true}, {});
    FAIL() << "expected a refusal";
  } catch (const base::Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("sequential"));
  }
  options_.resume = true;
  options_.block_items = 9;
  EXPECT_THROW(run_sequential_audit(model, task, options_, {}), base::Error);
  options_ = {.folder = root_ / "other", .stride = 3};
  EXPECT_THROW(run_sequential_audit(model, task, options_, {}), base::Error);
  EXPECT_FALSE(fs::exists(root_ / "other"));
}

TEST_F(SequentialAuditTest, ItsRecordHoldsTheEValueAndNoFixedSizeFigure) {
  const auto task = small_task();
  ScriptedModel model(kOneWeak);
  const auto a = audit(model, task, "run");
  const record::Result r = result(a, task);
  fmt::print("{}\n", r.verdict.sentence);
  ASSERT_TRUE(r.sequential);
  EXPECT_EQ(r.sequential->prompts, model.asked);
  EXPECT_EQ(r.sequential->planned, 64 * 4);
  EXPECT_LT(r.sequential->prompts, r.sequential->planned);
  EXPECT_GE(r.sequential->e_value, 20);
  EXPECT_THAT(r.sequential->rule, HasSubstr("blocks of 8"));
  EXPECT_FALSE(r.period.value || r.period.p_value || r.period.p_second);
  EXPECT_TRUE(r.period.candidates.empty());
  EXPECT_THAT(r.period.reason, HasSubstr("stopped when the answers said so"));
  EXPECT_FALSE(r.gap.p_value || r.folded->gap.p_value || r.folded->gap.noise);
  EXPECT_FALSE(r.mean.low || r.folded->gap.estimate.low || r.folded->phases[0].low);
  EXPECT_EQ(r.verdict.kind, record::VerdictKind::kPeriodic);
  EXPECT_THAT(r.verdict.sentence, HasSubstr("phase 3 is the worst"));
  EXPECT_EQ(r.folded->worst.group, 3);
  std::int64_t n = 0;
  for (const auto& group : r.residues) n += group.n;
  EXPECT_EQ(n, model.asked);
  EXPECT_EQ(record::to_json(record::result_from_json(record::to_json(r), "x")), record::to_json(r));
}

TEST_F(SequentialAuditTest, DecidesARequirementByEvidenceThatHoldsHoweverOftenOneLooks) {
  const auto requirement = parse_requirement("worst>=0.8");
  const auto task = small_task(1, 128);
  ScriptedModel weak(kOneWeak);
  const auto failed = result(audit(weak, task, "weak", false, requirement), task);
  ASSERT_EQ(failed.requirements.size(), 1U);
  fmt::print("{}\n", failed.requirements[0].sentence);
  EXPECT_EQ(failed.requirements[0].outcome, "fail");
  EXPECT_THAT(failed.requirements[0].sentence, HasSubstr("phase 3"));
  ScriptedModel strong({1, 1, 1, 1});
  EXPECT_EQ(result(audit(strong, task, "strong", false, requirement), task).requirements[0].outcome,
            "pass");
  strong.missing_at = 2;
  EXPECT_NE(result(audit(strong, task, "lost", false, requirement), task).requirements[0].outcome,
            "pass")
      << "missing replies count wrong";
}

TEST_F(SequentialAuditTest, AnAllWrongAndASilentModelAreInconclusive) {
  const auto task = small_task();
  ScriptedModel wrong({0, 0, 0, 0});
  EXPECT_EQ(result(audit(wrong, task, "wrong"), task).verdict.kind,
            record::VerdictKind::kNotLearned);
  ScriptedModel silent({1, 1, 1, 1});
  silent.missing_at = 1;
  const record::Result r = result(audit(silent, task, "silent"), task);
  EXPECT_FALSE(r.mean.value) << "one phase has no reply";
  EXPECT_EQ(r.folded->phases[1].planned, 64);
  EXPECT_EQ(r.design.missing, 64);
}

}  // namespace
}  // namespace kvphase::audit
