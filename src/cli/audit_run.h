// What every audit does once its model and its task exist: run, analyse, report. Shared by audits
// of checkpoints and of servers, which differ in how they get there.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "audit/requirement.h"
#include "audit/runner.h"
#include "cli/command.h"
#include "lm/language_model.h"
#include "record/result.h"
#include "task/task.h"

namespace kvphase::cli {

// What a person may say about an audit, whatever is audited.
struct AuditSettings {
  std::filesystem::path out;  // run folder: manifest, journal, result, report
  bool resume = false;
  std::uint64_t seed = 1;              // of the prompts and of the resampling
  std::optional<std::int64_t> stride;  // to fold by, for a model that does not say its own
  std::optional<double> min_accuracy;  // a mean below it means "not learned"
  std::vector<audit::Requirement> requirements;
  bool sequential = false;        // stop when the worst phase is known
  std::int64_t block_items = 10;  // between looks of a sequential audit
  std::filesystem::path control;  // folder of an audited control to draw beside; empty: none
};

// How this model is asked, beyond the settings.
struct AuditSubject {
  lm::LanguageModel& model;
  const task::Task& task;
  std::int64_t threads = 0;          // for the record
  std::int64_t position_offset = 0;  // as audit::RunOptions
  bool relative = false;             // the offset is unknown: no phase can be named absolutely
  // Tokens in front of the prompt's end that the task counts as 0; empty: unknown.
  std::optional<std::int64_t> behind = 0;
  // Tokens that a prompt has beside those that its observation's length counts; an estimate where
  // the proof could not tell.
  std::int64_t uncounted = 0;
  std::optional<std::int64_t> items_at_once;  // items per model call; empty: the runner's own
  bool sync_each = false;                     // as audit::RunOptions
  base::Json server;                          // likewise
  std::function<bool(const std::string&)> ask_again;  // likewise
  bool keep_top = false;                              // likewise
  // Adds what only the caller knows to the record, before it is written.
  std::function<void(const audit::AuditRun&, record::Result&)> annotate;
  std::optional<std::int64_t> wanted_items;  // --items; the task may ask more, and that is said
};

struct AuditOutcome {
  record::Result result;
  bool complete = true;  // false: stopped; nothing but the journal was written
  std::string stopped;   // why; empty: by the user
};

// What can be refused before a model is loaded or asked.
void check_settings(const AuditSettings& settings);
// Resuming: the mitigation must be the one that the run was begun with. Said before anything that
// another mitigation brings along: longer prompts, other items.
void check_resumed_mitigation(const AuditSettings& settings, const std::string& mitigation);
// Of a model whose traits are known; the task's modulus must be a multiple of the stride.
void check_stride(const lm::ModelTraits& traits, const AuditSettings& settings,
                  std::int64_t modulus);

AuditOutcome run_and_report(const AuditSubject& subject, const AuditSettings& settings,
                            const Session& session);

// The result.json of a run folder.
record::Result read_result(const std::filesystem::path& folder);

}  // namespace kvphase::cli
