#include "audit/runner.h"

#include <algorithm>

#include "base/build_info.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/files.h"
#include "base/stop.h"
#include "record/journal.h"

namespace kvphase::audit {
namespace {

using base::Json;

Json make_manifest(const lm::LanguageModel& model, const task::Task& task, const PlanCheck& plan) {
  const lm::ModelIdentity identity = model.identity();
  return {{"schema", "kvphase.manifest/1"},
          {"version", base::build_version()},
          {"task", task.name()},
          {"options", task.options()},
          {"model", {{"kind", identity.kind}, {"sha256", identity.sha256}}},
          {"prompt_set_sha256", plan.prompt_set_sha256}};
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

}  // namespace

AuditRun run_audit(lm::LanguageModel& model, const task::Task& task, const RunOptions& options,
                   const std::function<void(const RunProgress&)>& on_progress) {
  if (const std::int64_t context = model.traits().context_length;
      context > 0 && task.longest_prompt() > context) {
    throw base::usage_error(
        "audit",
        "expected prompts of at most {} tokens (the model's context), got {}; use fewer "
        "records, demonstrations or a shorter haystack",
        context, task.longest_prompt());
  }
  AuditRun run;
  run.plan = check_plan(task);
  if (base::stop_requested()) {
    throw base::Error(base::ErrorKind::kInterrupted, "audit", "stopped before the first prompt");
  }
  if (!run.plan.positions.ok) {
    throw base::Error(
        base::ErrorKind::kPhaseControl, "audit",
        fmt::format("expected residues that differ in phase only, got: {}; use at least {} items "
                    "({} balance "
                    "them exactly)",
                    run.plan.positions.note, 2 * task.modulus(), task.modulus() * task.modulus()));
  }

  const auto manifest_path = options.folder / "manifest.json";
  const auto journal_path = options.folder / "journal.jsonl";
  const Json manifest = make_manifest(model, task, run.plan);
  if (options.resume) {
    check_manifest(manifest_path, manifest);
  } else {
    base::create_new_folder(options.folder, "audit");
    try {
      base::write_file_atomically(manifest_path, manifest.dump(2) + "\n");
    } catch (...) {  // a full disk must not leave a folder that can be neither made nor resumed
      std::error_code ignored;
      std::filesystem::remove_all(options.folder, ignored);
      throw;
    }
  }

  const std::int64_t R = task.modulus();
  record::JournalWriter journal(journal_path);
  run.observations = record::read_journal(journal_path);
  std::vector<bool> have(static_cast<std::size_t>(task.items() * R));
  RunProgress progress{.planned = task.items() * R};
  const auto count = [&](const record::Observation& observation) {
    ++progress.done;
    progress.correct += observation.correct.value_or(false) ? 1 : 0;
  };
  for (const auto& observation : run.observations) {
    const std::int64_t index = observation.item * R + observation.residue;
    if (index < 0 || index >= progress.planned || have[static_cast<std::size_t>(index)]) {
      throw base::usage_error("audit",
                              "expected one line per planned prompt in {}, got item {} residue {} "
                              "again or outside the plan",
                              journal_path.string(), observation.item, observation.residue);
    }
    have[static_cast<std::size_t>(index)] = true;
    count(observation);
  }

  const base::Stopwatch watch;
  const std::int64_t done_before = progress.done;
  for (std::int64_t first = 0; first < task.items(); first += options.block_items) {
    if (base::stop_requested()) return run;
    std::vector<task::Prompt> prompts;
    std::vector<lm::ScoreRequest> requests;
    for (std::int64_t item = first; item < std::min(first + options.block_items, task.items());
         ++item) {
      for (std::int64_t residue = 0; residue < R; ++residue) {
        if (have[static_cast<std::size_t>(item * R + residue)]) continue;
        prompts.push_back(task.prompt(item, residue));
        requests.push_back(prompts.back().request);
      }
    }
    if (prompts.empty()) continue;
    const std::vector<lm::ScoreReply> replies = model.score_next(requests);
    for (std::size_t i = 0; i < prompts.size(); ++i) {
      run.observations.push_back(observe(task, prompts[i], replies.at(i)));
      journal.append(run.observations.back());
      count(run.observations.back());
    }
    journal.sync();
    progress.prompts_per_second =
        static_cast<double>(progress.done - done_before) / std::max(1e-9, watch.seconds());
    progress.seconds_left =
        static_cast<double>(progress.planned - progress.done) / progress.prompts_per_second;
    if (on_progress) on_progress(progress);
  }
  run.complete = true;
  return run;
}

}  // namespace kvphase::audit
