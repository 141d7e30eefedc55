#include "audit/prompt_run.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "base/build_info.h"
#include "base/error.h"
#include "base/files.h"
#include "base/stop.h"

namespace kvphase::audit {
namespace {

using base::Json;

Json make_manifest(const lm::LanguageModel& model, const task::Task& task, const PlanCheck& plan,
                   const PromptRunOptions& options) {
  const lm::ModelIdentity identity = model.identity();
  Json manifest = {{"schema", "kvphase.manifest/1"},
                   {"version", base::build_version()},
                   {"task", task.name()},
                   {"options", task.options()},
                   {"model", {{"kind", identity.kind}, {"sha256", identity.sha256}}},
                   {"prompt_set_sha256", plan.prompt_set_sha256}};
  if (!options.design.is_null()) manifest["sequential"] = options.design;
  if (!options.server.is_null()) manifest["server"] = options.server;
  if (options.position_offset != 0) manifest["position_offset"] = options.position_offset;
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

// What is known of a prompt before its reply.
record::Observation asked(const task::Prompt& prompt, const std::string& expected,
                          std::int64_t offset, std::int64_t modulus) {
  return {.item = prompt.item,
          .residue = (prompt.residue + offset) % modulus,
          .target_position = prompt.target_position + offset,
          .query_position = prompt.query_position + offset,
          .length = prompt.length + offset,
          .expected = expected};
}

record::Observation observe(const task::Task& task, const task::Prompt& prompt,
                            const lm::ScoreReply& reply, std::int64_t offset) {
  record::Observation observation =
      asked(prompt, task.token_name(prompt.request.target), offset, task.modulus());
  observation.cached = reply.cached_tokens;
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

record::Observation observe(const task::Task& task, const task::Prompt& prompt,
                            const lm::AnswerReply& reply, std::int64_t offset) {
  record::Observation observation = asked(prompt, prompt.expected, offset, task.modulus());
  observation.cached = reply.cached_tokens;
  observation.answer = reply.text;
  if (!reply.answered()) {
    observation.reply_class = reply.missing;
    return observation;
  }
  const task::Grade grade = task.grade(prompt, reply);
  observation.reply_class = grade.reply_class;
  observation.correct = grade.correct;
  if (!reply.candidate_logprobs.empty()) observation.logprob = reply.candidate_logprobs.front();
  observation.margin = reply.margin;
  return observation;
}

PlanCheck checked_plan(const lm::LanguageModel& model, const task::Task& task,
                       std::int64_t position_offset) {
  if (const std::int64_t context = model.traits().context_length;
      context > 0 && task.longest_prompt() > context) {
    throw base::usage_error(
        "audit",
        "expected prompts of at most {} tokens (the model's context), got {}; use fewer "
        "records, demonstrations or a shorter haystack",
        context, task.longest_prompt());
  }
  PlanCheck plan = check_plan(task, position_offset);
  require_controlled(plan, task);
  return plan;
}

// A folder that a kill left before its manifest was written.
bool is_left_empty(const std::filesystem::path& folder) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(folder, ignored)) return false;
  return std::ranges::all_of(std::filesystem::directory_iterator(folder), [](const auto& entry) {
    return entry.path().filename() == "manifest.json.part";
  });
}

// Writes the folder's manifest, or, resuming, sees that it agrees; the folder.
std::filesystem::path open_folder(const std::filesystem::path& folder, bool resume,
                                  const Json& manifest) {
  const auto path = folder / "manifest.json";
  if (resume) {
    check_manifest(path, manifest);
  } else {
    if (!is_left_empty(folder)) base::create_new_folder(folder, "audit");
    try {
      base::write_file_atomically(path, manifest.dump(2) + "\n");
    } catch (...) {  // a full disk must not leave a folder that can be neither made nor resumed
      std::error_code ignored;
      std::filesystem::remove_all(folder, ignored);
      throw;
    }
  }
  return folder;
}

}  // namespace

PromptRun::PromptRun(lm::LanguageModel& model, const task::Task& task,
                     const PromptRunOptions& options)
    : model_(model),
      task_(task),
      offset_(options.position_offset),
      sync_each_(options.sync_each),
      keep_top_(options.keep_top),
      plan_(checked_plan(model, task, options.position_offset)),
      journal_path_(
          open_folder(options.folder, options.resume, make_manifest(model, task, plan_, options)) /
          journal_name(task)),
      journal_(journal_path_),
      replies_(static_cast<std::size_t>(task.items() * task.modulus())) {
  for (record::Observation& observation : record::read_journal(journal_path_)) {
    const bool planned = observation.item >= 0 && observation.item < task.items() &&
                         observation.residue >= 0 && observation.residue < task.modulus();
    const auto& before =
        planned ? replies_[index(observation.item, planned_residue(observation.residue))]
                : std::nullopt;
    if (!planned || (before && before->correct)) {
      throw base::usage_error("audit",
                              "expected one reply per planned prompt in {}, got item {} residue {} "
                              "again or outside the plan",
                              journal_path_.string(), observation.item, observation.residue);
    }
    take(std::move(observation));
  }
  done_before_ = done_;
  for (std::optional<Reply>& reply : replies_) {
    if (!reply || reply->correct || !options.ask_again) continue;
    reply->to_ask_again = options.ask_again(observations_[reply->line].reply_class);
    done_before_ -= reply->to_ask_again ? 1 : 0;
    done_ -= reply->to_ask_again ? 1 : 0;
  }
}

std::int64_t PromptRun::planned_residue(std::int64_t residue) const {
  const std::int64_t R = task_.modulus();
  return ((residue - offset_) % R + R) % R;
}

std::size_t PromptRun::index(std::int64_t item, std::int64_t residue) const {
  return static_cast<std::size_t>(item * task_.modulus() + residue);
}

void PromptRun::take(record::Observation&& observation) {
  std::optional<Reply>& reply =
      replies_[index(observation.item, planned_residue(observation.residue))];
  correct_ += observation.correct.value_or(false) ? 1 : 0;
  if (reply) {  // a later line replaces one without a reply
    done_ += reply->to_ask_again ? 1 : 0;
    ++asked_again_;
    reply->correct = observation.correct;
    reply->to_ask_again = false;
    observations_[reply->line] = std::move(observation);
    return;
  }
  reply = Reply{.correct = observation.correct, .line = observations_.size()};
  observations_.push_back(std::move(observation));
  ++done_;
}

bool PromptRun::has(std::int64_t item, std::int64_t residue) const {
  const auto& reply = replies_[index(item, residue)];
  return reply && !reply->to_ask_again;
}

std::optional<bool> PromptRun::correct(std::int64_t item, std::int64_t residue) const {
  return replies_[index(item, residue)].value().correct;
}

void PromptRun::keep(record::Observation observation) {
  journal_.append(observation);
  if (sync_each_) journal_.sync();
  take(std::move(observation));
}

void PromptRun::ask(const std::vector<task::Prompt>& prompts,
                    const std::function<void()>& on_kept) {
  std::vector<lm::ScoreRequest> in_ids;
  std::vector<lm::AnswerRequest> in_words;
  for (const task::Prompt& prompt : prompts) {
    if (prompt.words) {
      in_words.push_back(*prompt.words);
    } else {
      in_ids.push_back(prompt.request);
    }
  }
  if (!in_ids.empty() && !in_words.empty()) {
    throw std::logic_error("a task's prompts are all in ids or all in words");
  }
  const auto on_reply = [&](std::size_t i, const auto& reply) {
    record::Observation observation = observe(task_, prompts[i], reply, offset_);
    if (keep_top_) {
      for (const auto& [token, logprob] : reply.top_tokens) {
        observation.top.push_back({.token = token, .logprob = logprob});
      }
    }
    keep(std::move(observation));
    on_kept();
  };
  if (!in_ids.empty()) model_.score_each(in_ids, on_reply);
  if (!in_words.empty()) model_.answer_each(in_words, on_reply);
}

void PromptRun::ask(std::vector<PromptKey> keys,
                    const std::function<void(const RunProgress&)>& on_progress,
                    std::int64_t planned) {
  std::erase_if(keys, [&](const PromptKey& key) { return has(key.item, key.residue); });
  if (keys.empty()) return;
  std::ranges::stable_sort(
      keys, {}, [&](const PromptKey& key) { return task_.haystack(key.item, key.residue); });
  try {
    // One haystack's prompts exist at a time: they can be long.
    for (auto begin = keys.begin(); begin != keys.end();) {
      const std::int64_t haystack = task_.haystack(begin->item, begin->residue);
      std::vector<task::Prompt> prompts;
      for (; begin != keys.end() && task_.haystack(begin->item, begin->residue) == haystack;
           ++begin) {
        prompts.push_back(task_.prompt(begin->item, begin->residue));
      }
      ask(prompts, [&] {
        if (sync_each_ && on_progress) on_progress(progress(planned));
      });
    }
  } catch (const base::Error& error) {
    journal_.sync();
    if (error.kind() != base::ErrorKind::kInterrupted) throw;
    stopped_ = true;
    why_stopped_ = base::stop_requested() ? "" : error.what();
    return;
  } catch (...) {
    journal_.sync();
    throw;
  }
  journal_.sync();
  if (!sync_each_ && on_progress) on_progress(progress(planned));
}

AuditRun PromptRun::result(bool complete) const {
  AuditRun run{.observations = observations_,
               .plan = plan_,
               .asked_again = asked_again_,
               .complete = complete,
               .stopped = why_stopped_};
  std::sort(run.observations.begin(), run.observations.end(), [](const auto& a, const auto& b) {
    return std::pair(a.item, a.residue) < std::pair(b.item, b.residue);
  });
  return run;
}

RunProgress PromptRun::progress(std::int64_t planned) const {
  RunProgress progress{.done = done_, .planned = planned, .correct = correct_};
  progress.prompts_per_second =
      static_cast<double>(done_ - done_before_) / std::max(1e-9, watch_.seconds());
  progress.seconds_left = static_cast<double>(planned - done_) / progress.prompts_per_second;
  return progress;
}

}  // namespace kvphase::audit
