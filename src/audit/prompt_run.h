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

class PromptRun {
 public:
  // Opens the folder as run_audit() says and reads what its journal already has. design: what the
  // manifest says of a sequential audit; null for a fixed one.
  PromptRun(lm::LanguageModel& model, const task::Task& task, const std::filesystem::path& folder,
            bool resume, const base::Json& design);

  bool has(std::int64_t item, std::int64_t residue) const;
  // Of a prompt that was asked; empty: no usable reply.
  std::optional<bool> correct(std::int64_t item, std::int64_t residue) const;

  // One model call over the prompts that the journal lacks, then a sync. False: it lacked none.
  bool ask(const std::vector<PromptKey>& keys);

  const PlanCheck& plan() const { return plan_; }
  const std::vector<record::Observation>& observations() const { return observations_; }
  RunProgress progress(std::int64_t planned) const;

 private:
  struct Reply {
    std::optional<bool> correct;
  };
  void take(const record::Observation& observation);

  lm::LanguageModel& model_;
  const task::Task& task_;
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
