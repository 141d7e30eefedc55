// Runs a task on a model: every prompt once, one observation each in an append-only journal,
// resumable. Must not know transports, tensors or what a position means to the task.
//
// A run folder holds manifest.json (what was asked of whom) and a journal (one observation per
// prompt; a later line of a prompt replaces an earlier one without a reply).
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "audit/position_check.h"
#include "base/json.h"
#include "lm/language_model.h"
#include "record/observation.h"
#include "task/task.h"

namespace kvphase::audit {

struct RunOptions {
  std::filesystem::path folder;  // new, or with resume the folder of the interrupted run
  bool resume = false;           // go on after the prompts that the journal already has
  std::int64_t block_items =
      24;  // items per model call and journal sync: more lose more on a crash
  // Tokens in front of the first that we send, as a position proof found: residues and positions in
  // the journal include them.
  std::int64_t position_offset = 0;
  bool sync_each = false;  // every reply is on the disk before the next: they cost money
  base::Json server;  // how a server is asked, for the manifest; never a key; null: not a server
  // Of a missing reply that an earlier session journalled, by its class: whether to ask again.
  // Empty: never. Only replies in which the model did not speak may be: choosing among its answers
  // would bias the sample.
  std::function<bool(const std::string& reply_class)> ask_again;
  // Journal the likeliest first tokens of every answer, where the model says them.
  bool keep_top = false;
};

// The journal's name: votes.jsonl where several prompts vote for one answer (the answers are the
// caller's to take from them: votes.h), else journal.jsonl.
std::string_view journal_name(const task::Task& task);

struct RunProgress {
  std::int64_t done = 0;  // prompts, those of earlier sessions included
  std::int64_t planned = 0;
  std::int64_t correct = 0;  // of done
  double prompts_per_second = 0;
  double seconds_left = 0;  // estimate
};

struct AuditRun {
  std::vector<record::Observation> observations;
  PlanCheck plan;
  // Prompts without a reply at first that were asked again, in all sessions.
  std::int64_t asked_again = 0;
  bool complete = false;  // false: stopped; resume to finish
  std::string stopped;    // why, in words; empty: by the user
};

// Throws: usage error when the folder exists (or, resuming, belongs to another configuration; the
// differing keys are listed) or a prompt is longer than the model's context; phase-control error
// when the plan's positions are not balanced. A stop, by the user or by the model (kInterrupted),
// is an incomplete run.
AuditRun run_audit(lm::LanguageModel& model, const task::Task& task, const RunOptions& options,
                   const std::function<void(const RunProgress&)>& on_progress);

}  // namespace kvphase::audit
