#include "audit/prompt_run.h"

#include <algorithm>

#include "base/build_info.h"
#include "base/error.h"
#include "base/files.h"
#include "base/stop.h"

namespace kvphase::audit {
namespace {

using base::Json;

Json make_manifest(const lm::LanguageModel& model, const task::Task& task, const PlanCheck& plan,
                   const Json& design) {
  const lm::ModelIdentity identity = model.identity();
  Json manifest = {{"schema", "kvphase.manifest/1"},
                   {"version", base::build_version()},
                   {"task", task.name()},
                   {"options", task.options()},
                   {"model", {{"kind", identity.kind}, {"sha256", identity.sha256}}},
                   {"prompt_set_sha256", plan.prompt_set_sha256}};
  if (!design.is_null()) manifest["sequential"] = design;
  return manifest;
}

// Paths of the values in which two JSON documents differ, e.g. "options.seed (1, now 2)".
void list_differences(const Json& before, const Json& now, const std::string& path,
                      std::vector<std::string>& differences) {
  if (before.is_object() && now.is_object()) {
    for (const auto& [key, value] : before.items()) {
      const std::string inner = path.empty() ? key : path + "." + key;
      list_differences(value, now.contains(key) ? now.at(key) : Json(nullptr), inner, differences);
    }
    for (const auto& [key, value] : now.items()) {
      if (!before.contains(key)) {
        list_differences(nullptr, value, path.empty() ? key : path + "." + key, differences);
      }
    }
  } else if (before != now) {
    differences.push_back(fmt::format("{} ({}, now {})", path, before.dump(), now.dump()));
  }
}

void check_manifest(const std::filesystem::path& path, const Json& manifest) {
  const Json before = base::parse_json(base::read_file(path), path.string());
  std::vector<std::string> differences;
  list_differences(before, manifest, "", differences);
  if (!differences.empty()) {
    throw base::usage_error("audit",
                            "expected to resume with the configuration of {}, got another one: {}",
                            path.string(), fmt::join(differences, "; "));
  }
}

record::Observation observe(const task::Task& task, const task::Prompt& prompt,
                            const lm::ScoreReply& reply) {
  record::Observation observation{
      .item = prompt.item,
      .residue = prompt.residue,
      .target_position = prompt.target_position,
      .query_position = prompt.query_position,
      .length = static_cast<std::int64_t>(prompt.request.prompt.size()),
      .expected = task.token_name(prompt.request.target),
  };
  if (!reply.answered()) {
    observation.reply_class = reply.missing;
    return observation;
  }
  const bool correct = reply.top == prompt.request.target;
  const bool other = std::find(prompt.other_answers.begin(), prompt.other_answers.end(),
                               reply.top) != prompt.other_answers.end();
  observation.answer = reply.answer_text.empty() ? task.token_name(reply.top) : reply.answer_text;
  observation.reply_class = correct ? "exact" : other ? "other_record" : "wrong";
  observation.correct = correct;
  observation.logprob = reply.target_logprob;
  observation.margin = reply.margin;
  return observation;
}

PlanCheck checked_plan(const lm::LanguageModel& model, const task::Task& task) {
  if (const std::int64_t context = model.traits().context_length;
      context > 0 && task.longest_prompt() > context) {
    throw base::usage_error(
        "audit",
        "expected prompts of at most {} tokens (the model's context), got {}; use fewer "
        "records, demonstrations or a shorter haystack",
        context, task.longest_prompt());
  }
  PlanCheck plan = check_plan(task);
  if (base::stop_requested()) {
    throw base::Error(base::ErrorKind::kInterrupted, "audit", "stopped before the first prompt");
  }
  if (!plan.positions.ok) {
    throw base::Error(
        base::ErrorKind::kPhaseControl, "audit",
        fmt::format("expected residues that differ in phase only, got: {}; use at least {} items "
                    "({} balance "
                    "them exactly)",
                    plan.positions.note, 2 * task.modulus(), task.modulus() * task.modulus()));
  }
  return plan;
}

// The journal's path in a folder whose manifest is written, or, resuming, agrees.
std::filesystem::path open_folder(const std::filesystem::path& folder, bool resume,
                                  const Json& manifest) {
  const auto path = folder / "manifest.json";
  if (resume) {
    check_manifest(path, manifest);
  } else {
    base::create_new_folder(folder, "audit");
    try {
      base::write_file_atomically(path, manifest.dump(2) + "\n");
    } catch (...) {  // a full disk must not leave a folder that can be neither made nor resumed
      std::error_code ignored;
      std::filesystem::remove_all(folder, ignored);
      throw;
    }
  }
  return folder / "journal.jsonl";
}

}  // namespace

PromptRun::PromptRun(lm::LanguageModel& model, const task::Task& task,
                     const std::filesystem::path& folder, bool resume, const Json& design)
    : model_(model),
      task_(task),
      plan_(checked_plan(model, task)),
      journal_path_(open_folder(folder, resume, make_manifest(model, task, plan_, design))),
      journal_(journal_path_),
      observations_(record::read_journal(journal_path_)),
      replies_(static_cast<std::size_t>(task.items() * task.modulus())) {
  for (const record::Observation& observation : observations_) {
    const std::int64_t index = observation.item * task.modulus() + observation.residue;
    if (index < 0 || index >= std::ssize(replies_) || replies_[static_cast<std::size_t>(index)]) {
      throw base::usage_error("audit",
                              "expected one line per planned prompt in {}, got item {} residue {} "
                              "again or outside the plan",
                              journal_path_.string(), observation.item, observation.residue);
    }
    take(observation);
  }
  done_before_ = done_;
}

void PromptRun::take(const record::Observation& observation) {
  replies_[static_cast<std::size_t>(observation.item * task_.modulus() + observation.residue)] =
      Reply{observation.correct};
  ++done_;
  correct_ += observation.correct.value_or(false) ? 1 : 0;
}

bool PromptRun::has(std::int64_t item, std::int64_t residue) const {
  return replies_[static_cast<std::size_t>(item * task_.modulus() + residue)].has_value();
}

std::optional<bool> PromptRun::correct(std::int64_t item, std::int64_t residue) const {
  return replies_[static_cast<std::size_t>(item * task_.modulus() + residue)].value().correct;
}

bool PromptRun::ask(const std::vector<PromptKey>& keys) {
  std::vector<task::Prompt> prompts;
  std::vector<lm::ScoreRequest> requests;
  for (const PromptKey& key : keys) {
    if (has(key.item, key.residue)) continue;
    prompts.push_back(task_.prompt(key.item, key.residue));
    requests.push_back(prompts.back().request);
  }
  if (prompts.empty()) return false;
  const std::vector<lm::ScoreReply> replies = model_.score_next(requests);
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    observations_.push_back(observe(task_, prompts[i], replies.at(i)));
    journal_.append(observations_.back());
    take(observations_.back());
  }
  journal_.sync();
  return true;
}

RunProgress PromptRun::progress(std::int64_t planned) const {
  RunProgress progress{.done = done_, .planned = planned, .correct = correct_};
  progress.prompts_per_second =
      static_cast<double>(done_ - done_before_) / std::max(1e-9, watch_.seconds());
  progress.seconds_left = static_cast<double>(planned - done_) / progress.prompts_per_second;
  return progress;
}

}  // namespace kvphase::audit
