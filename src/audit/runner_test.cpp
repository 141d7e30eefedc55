#include "audit/runner.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <stdexcept>

#include "base/error.h"
#include "base/files.h"
#include "record/journal.h"
#include "task/lookup.h"

namespace kvphase::audit {
namespace {

namespace fs = std::filesystem;

// Answers right except when the target key sits at phase 3 (mod 4); counts its calls and can die.
class ScriptedModel : public lm::LanguageModel {
 public:
  lm::ModelIdentity identity() const override {
    return {.name = "scripted", .kind = "checkpoint", .sha256 = sha, .config = nullptr};
  }
  lm::ModelTraits traits() const override { return {.context_length = context}; }
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
      std::int64_t position = 0;
      while (request.prompt[static_cast<std::size_t>(position)] != key) ++position;
      const bool right = position % 4 != 3;
      if (position % 4 == missing_at) {
        on_reply(index++, {.top = request.target, .missing = "timeout"});
        continue;
      }
      on_reply(index++, {.top = right ? request.target : 0,
                         .target_logprob = right ? -0.1 : -3,
                         .margin = right ? 2.0 : -2.0});
    }
  }

  std::string sha = "abc";
  std::int64_t context = 0;
  std::int64_t asked = 0;
  std::int64_t missing_at = -1;  // the phase whose replies never come
  std::int64_t dies_after = 1'000'000;
};

task::LookupOptions small_task(std::uint64_t seed = 1) {
  return {.language = {.haystack = 30, .records = 5, .queries = 5},
          .demonstrations = 2,
          .modulus = 8,
          .items = 64,
          .seed = seed};
}

class Runner : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "kvphase-run-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
    folder_ = root_ / "run";
  }
  void TearDown() override { fs::remove_all(root_); }
  fs::path root_;
  fs::path folder_;
};

TEST_F(Runner, AsksEveryPromptOnceAndJournalsWhatItReturns) {
  ScriptedModel model;
  const task::LookupTask task(small_task());
  std::int64_t last_done = 0;
  const AuditRun run = run_audit(model, task, {.folder = folder_},
                                 [&](const RunProgress& progress) { last_done = progress.done; });
  EXPECT_TRUE(run.complete);
  EXPECT_EQ(model.asked, 64 * 8);
  EXPECT_EQ(last_done, 64 * 8);
  EXPECT_EQ(record::read_journal(folder_ / "journal.jsonl"), run.observations);
  for (const auto& observation : run.observations) {
    EXPECT_EQ(observation.correct, observation.target_position % 4 != 3);
    EXPECT_EQ(observation.target_position % 8, observation.residue);
  }
}

TEST_F(Runner, RecordsAMissingReplyWithItsCauseAndNeverAsWrong) {
  ScriptedModel model;
  model.missing_at = 3;
  const AuditRun run =
      run_audit(model, task::LookupTask(small_task()), {.folder = folder_}, nullptr);
  std::int64_t missing = 0;
  for (const auto& observation : run.observations) {
    if (observation.correct) continue;
    ++missing;
    EXPECT_EQ(observation.reply_class, "timeout");
    EXPECT_EQ(observation.answer, "");
    EXPECT_FALSE(observation.logprob || observation.margin);
    EXPECT_EQ(observation.residue % 4, 3) << "only the scripted phase is missing";
  }
  EXPECT_EQ(missing, 64 * 2) << "two of eight residues are 3 mod 4";
  EXPECT_EQ(run.observations.size(), 64U * 8U) << "nothing is dropped";
  EXPECT_EQ(record::read_journal(folder_ / "journal.jsonl"), run.observations);
}

TEST_F(Runner, ResumesAfterADeathWithTheSameObservations) {
  const task::LookupTask task(small_task());
  ScriptedModel whole;
  const AuditRun expected =
      run_audit(whole, task, {.folder = root_ / "whole", .block_items = 8}, {});
  ScriptedModel model;
  model.dies_after = 200;
  EXPECT_THROW(run_audit(model, task, {.folder = folder_, .block_items = 8}, {}),
               std::runtime_error);
  const auto kept = record::read_journal(folder_ / "journal.jsonl").size();
  EXPECT_GE(kept, 128U);
  model.dies_after = 1'000'000;
  model.asked = 0;
  const AuditRun run =
      run_audit(model, task, {.folder = folder_, .resume = true, .block_items = 8}, {});
  EXPECT_EQ(model.asked, static_cast<std::int64_t>(64 * 8 - kept));
  EXPECT_EQ(run.observations, expected.observations);
}

TEST_F(Runner, RefusesToResumeAnotherConfigurationAndNamesTheKeys) {
  ScriptedModel model;
  run_audit(model, task::LookupTask(small_task()), {.folder = folder_}, {});
  model.sha = "another";
  try {
    run_audit(model, task::LookupTask(small_task(2)), {.folder = folder_, .resume = true}, {});
    FAIL() << "expected a refusal";
  } catch (const base::Error& error) {
    const std::string message = error.what();
    EXPECT_NE(message.find("options.seed (1, now 2)"), std::string::npos) << message;
    EXPECT_NE(message.find("model.sha256"), std::string::npos) << message;
  }
}

TEST_F(Runner, RefusesAFolderWithContentAndAPromptLongerThanTheContext) {
  ScriptedModel model;
  const task::LookupTask task(small_task());
  fs::create_directory(folder_);
  base::write_file_atomically(folder_ / "notes.txt", "mine");
  EXPECT_THROW(run_audit(model, task, {.folder = folder_}, {}), base::Error);
  model.context = 35;  // the prompts have 36 tokens
  EXPECT_THROW(run_audit(model, task, {.folder = root_ / "other"}, {}), base::Error);
  EXPECT_FALSE(fs::exists(root_ / "other"));
}

TEST(PlanCheck, AcceptsTheLookupDesignAndSeesEveryPrompt) {
  const PlanCheck plan = check_plan(task::LookupTask(small_task()));
  EXPECT_TRUE(plan.positions.ok) << plan.positions.note;
  EXPECT_NEAR(plan.positions.mean_low, plan.positions.mean_high, 1e-9);
  EXPECT_NEAR(plan.positions.variance_low, plan.positions.variance_high, 1e-6);
  EXPECT_EQ(task::LookupTask(small_task()).longest_prompt(), 36);
  EXPECT_NE(plan.prompt_set_sha256, check_plan(task::LookupTask(small_task(2))).prompt_set_sha256);
}

// The same prompts with one thing wrong.
class SkewedTask : public task::Task {
 public:
  std::string name() const override { return "skewed"; }
  std::string padding() const override { return "prefix"; }
  std::int64_t modulus() const override { return 4; }
  std::int64_t items() const override { return 4; }
  std::int64_t longest_prompt() const override { return 18; }
  base::Json options() const override { return nullptr; }
  std::string token_name(lm::TokenId) const override { return ""; }
  task::Prompt prompt(std::int64_t item, std::int64_t residue) const override {
    task::Prompt prompt{.item = item, .residue = residue};
    prompt.target_position = position(residue);
    prompt.query_position = query(residue);
    prompt.length = length(residue);
    prompt.request.prompt.assign(static_cast<std::size_t>(length(residue)), 1);
    return prompt;
  }
  std::function<std::int64_t(std::int64_t)> position = [](std::int64_t) { return 0; };
  std::function<std::int64_t(std::int64_t)> query = [](std::int64_t) { return 9; };
  std::function<std::int64_t(std::int64_t)> length = [](std::int64_t) { return 10; };
};

TEST(PlanCheck, RefusesEveryWayInWhichResiduesCouldDifferInMoreThanPhase) {
  SkewedTask task;
  task.position = [](std::int64_t r) { return r; };
  EXPECT_FALSE(check_plan(task).positions.ok) << "means differ";
  task.position = [](std::int64_t) { return 0; };
  EXPECT_FALSE(check_plan(task).positions.ok) << "targets not at their residues";
  SkewedTask moving_query;
  moving_query.query = [](std::int64_t r) { return r; };
  EXPECT_FALSE(check_plan(moving_query).positions.query_position_fixed);
  SkewedTask growing;
  growing.length = [](std::int64_t r) { return 10 + r; };
  EXPECT_FALSE(check_plan(growing).positions.length_fixed);
}

}  // namespace
}  // namespace kvphase::audit
