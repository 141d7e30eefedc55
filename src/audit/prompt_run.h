// Prompts of a task, asked once each, one observation each in the append-only journal of a run
// folder. Shared by fixed and sequential audits. Internal to audit/.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "audit/position_check.h"
#include "audit/runner.h"
#include "base/clock.h"
#include "base/json.h"
#include "lm/language_model.h"
#include "record/journal.h"
#include "record/observation.h"
#include "task/task.h"

namespace kvphase::audit {

struct PromptKey {
  std::int64_t item = 0;
  std::int64_t residue = 0;
};

struct PromptRunOptions {
  std::filesystem::path folder;
  bool resume = false;
  base::Json design;  // what the manifest says of a sequential audit; null for a fixed one
  std::int64_t position_offset = 0;  // as RunOptions
  bool sync_each = false;            // likewise
};

class PromptRun {
 public:
  // Opens the folder as run_audit() says and reads what its journal already has.
  PromptRun(lm::LanguageModel& model, const task::Task& task, const PromptRunOptions& options);

  bool has(std::int64_t item, std::int64_t residue) const;
  // Of a prompt that was asked; empty: no usable reply.
  std::optional<bool> correct(std::int64_t item, std::int64_t residue) const;

  // Asks the prompts that the journal lacks, haystack by haystack, and journals each reply as it
  // comes: synced one by one where replies cost money, else once per model call. False: it lacked
  // none. Throws what the model throws, with the replies that came journalled.
  bool ask(std::vector<PromptKey> keys);

  const PlanCheck& plan() const { return plan_; }
  // By item and residue, in whatever order the replies came.
  std::vector<record::Observation> observations() const;
  RunProgress progress(std::int64_t planned) const;

 private:
  struct Reply {
    std::optional<bool> correct;
  };
  void take(const record::Observation& observation);
  void keep(record::Observation observation);
  void ask(const std::vector<task::Prompt>& prompts);
  std::int64_t planned_residue(std::int64_t residue) const;  // of an observation's
  std::size_t index(std::int64_t item, std::int64_t residue) const;

  lm::LanguageModel& model_;
  const task::Task& task_;
  std::int64_t offset_;
  bool sync_each_;
  PlanCheck plan_;
  std::filesystem::path journal_path_;
  record::JournalWriter journal_;
  std::vector<record::Observation> observations_;
  std::vector<std::optional<Reply>> replies_;  // items x R
  std::int64_t done_ = 0;
  std::int64_t done_before_ = 0;  // by earlier sessions
  std::int64_t correct_ = 0;
  base::Stopwatch watch_;
};

}  // namespace kvphase::audit
