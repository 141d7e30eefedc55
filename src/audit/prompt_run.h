// Prompts of a task, asked once each, one observation each in the append-only journal of a run
// folder. Shared by fixed and sequential audits. Internal to audit/.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
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
  std::int64_t position_offset = 0;                   // as RunOptions
  bool sync_each = false;                             // likewise
  base::Json server;                                  // likewise
  std::function<bool(const std::string&)> ask_again;  // likewise
  bool keep_top = false;                              // likewise
};

class PromptRun {
 public:
  // Opens the folder as run_audit() says and reads what its journal already has.
  PromptRun(lm::LanguageModel& model, const task::Task& task, const PromptRunOptions& options);

  bool has(std::int64_t item, std::int64_t residue) const;
  // Of a prompt that was asked; empty: no usable reply.
  std::optional<bool> correct(std::int64_t item, std::int64_t residue) const;

  // Asks the prompts that the journal lacks, haystack by haystack, and journals each reply as it
  // comes: synced one by one where replies cost money, else once per model call. Tells on_progress
  // (may be empty) of each such sync. Throws what the model throws, with the replies that came
  // journalled; kInterrupted is not thrown but makes stopped() true.
  void ask(std::vector<PromptKey> keys, const std::function<void(const RunProgress&)>& on_progress,
           std::int64_t planned);
  bool stopped() const { return stopped_; }

  const PlanCheck& plan() const { return plan_; }
  // What was found so far: observations by item and residue, in whatever order the replies came.
  AuditRun result(bool complete) const;

 private:
  struct Reply {
    std::optional<bool> correct;
    std::size_t line = 0;       // its observation
    bool to_ask_again = false;  // missing, and this session is to try again
  };
  RunProgress progress(std::int64_t planned) const;
  void take(record::Observation&& observation);
  void keep(record::Observation observation);
  void ask(const std::vector<task::Prompt>& prompts, const std::function<void()>& on_kept);
  std::int64_t planned_residue(std::int64_t residue) const;  // of an observation's
  std::size_t index(std::int64_t item, std::int64_t residue) const;

  lm::LanguageModel& model_;
  const task::Task& task_;
  std::int64_t offset_;
  bool sync_each_;
  bool keep_top_;
  PlanCheck plan_;
  std::filesystem::path journal_path_;
  record::JournalWriter journal_;
  std::vector<record::Observation> observations_;
  std::vector<std::optional<Reply>> replies_;  // items x R
  std::int64_t done_ = 0;
  std::int64_t done_before_ = 0;  // by earlier sessions
  std::int64_t correct_ = 0;
  std::int64_t asked_again_ = 0;
  bool stopped_ = false;
  std::string why_stopped_;
  base::Stopwatch watch_;
};

}  // namespace kvphase::audit
