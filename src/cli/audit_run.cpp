#include "cli/audit_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <span>
#include <vector>

#include "audit/analysis.h"
#include "audit/sequential_audit.h"
#include "audit/some_residues.h"
#include "audit/two_factor.h"
#include "audit/votes.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/files.h"
#include "record/table.h"
#include "report/write.h"
#include "task/mitigate.h"
#include "task/position_design.h"

namespace kvphase::cli {
namespace {

constexpr const char* kByEnd = "by-end";  // folder of the second factor's report

// Shows progress a few times a second on a terminal, else every few seconds.
std::function<void(const audit::RunProgress&)> progress_line(const Session& session) {
  return [&session, since_line = base::Stopwatch(),
          first = true](const audit::RunProgress& progress) mutable {
    const bool last = progress.done == progress.planned;
    if (!first && !last &&
        since_line.seconds() < (session.console.stderr_is_terminal() ? 0.2 : 5)) {
      return;
    }
    first = false;
    since_line = base::Stopwatch();
    session.console.progress_in_place(
        fmt::format(
            "prompt {}/{}  right {:.1f}%  {:.0f} prompts/s  {} left", progress.done,
            progress.planned,
            100.0 * static_cast<double>(progress.correct) / static_cast<double>(progress.done),
            progress.prompts_per_second, base::format_duration(progress.seconds_left)),
        last);
  };
}

audit::SequentialAuditOptions sequential_options(const AuditSubject& subject,
                                                 const AuditSettings& settings,
                                                 const lm::ModelTraits& traits) {
  audit::SequentialAuditOptions options{.folder = settings.out,
                                        .resume = settings.resume,
                                        .block_items = settings.block_items,
                                        .seed = settings.seed,
                                        .position_offset = subject.position_offset,
                                        .sync_each = subject.sync_each,
                                        .server = subject.server};
  if (!settings.sequential) return options;
  const auto stride = traits.stride ? traits.stride : settings.stride;
  if (!stride || *stride < 2) {
    throw base::usage_error("audit",
                            "expected a stride for --sequential, which searches among its phases, "
                            "got none from this model; give --stride S");
  }
  options.stride = *stride;
  if (!settings.requirements.empty()) options.requirement = settings.requirements.front();
  return options;
}

record::RunContext context_of(const AuditSubject& subject, const audit::AuditRun& run,
                              const Session& session) {
  const lm::ModelIdentity identity = subject.model.identity();
  record::RunContext context = record::make_context();
  context.command = session.command_line;
  context.threads = subject.threads;
  context.model_name = identity.name;
  context.model_kind = identity.kind;
  context.model_sha256 = identity.sha256;
  context.model_config = identity.config;
  context.prompt_set_sha256 = run.plan.prompt_set_sha256;
  return context;
}

record::Result analyse_observations(std::span<const record::Observation> observations,
                                    const AuditSubject& subject, const AuditSettings& settings,
                                    const audit::AuditRun& run, const lm::ModelTraits& traits,
                                    const record::RunContext& context) {
  const task::Task& task = subject.task;
  record::Dataset data = record::dataset_from(observations, task.modulus(), "audit");
  data.name = context.model_name;
  data.task = task.name();
  data.padding = task.padding();
  data.mitigation = task.mitigation();
  // On staggered grids no phase is the boundary of every head, and relative phases have no names:
  // none is marked.
  if (!traits.staggered_grid && !subject.relative) data.window = traits.window;
  data.stride = traits.stride;
  data.positions = run.plan.positions;
  const audit::AnalysisOptions options{.stride = settings.stride,
                                       .seed = settings.seed,
                                       .min_accuracy = settings.min_accuracy,
                                       .requirements = settings.requirements,
                                       .context = context,
                                       .task_options = task.options()};
  const std::vector<std::int64_t> residues = task.residues();
  return std::ssize(residues) < task.modulus() ? audit::analyse_some(data, residues, options)
                                               : audit::analyse(data, options);
}

// By the position that the task moves, and, where both move, by the prompt's end beside it: a
// report of its own, and a note of it.
record::Result analyse_run(const AuditSubject& subject, const AuditSettings& settings,
                           const audit::AuditRun& run, const lm::ModelTraits& traits,
                           std::span<const record::Observation> observations,
                           const record::RunContext& context) {
  const task::PadAt pad_at = subject.task.pad_at();
  const auto by_end = [&] {
    std::vector<record::Observation> moved(observations.begin(), observations.end());
    for (record::Observation& o : moved) o.query_position += subject.behind.value_or(0);
    record::Result result = analyse_observations(audit::by_end(moved, subject.task.modulus()),
                                                 subject, settings, run, traits, context);
    result.title += ", by the prompt's end";
    result.notes.push_back(fmt::format(
        "Residues and phases here are of the prompt's last position, not of the target{}.",
        subject.behind ? "" : "; they are relative: the tokens of the question are not known"));
    return result;
  };
  if (pad_at == task::PadAt::kAfterNeedle) return by_end();
  record::Result result =
      analyse_observations(observations, subject, settings, run, traits, context);
  if (pad_at == task::PadAt::kTwoFactor) {
    const record::Result end = by_end();
    report::write_report(settings.out / kByEnd, end, std::nullopt);
    result.notes.push_back(fmt::format("By the phase of the prompt's end ({}/{}/report.html): {}",
                                       settings.out.string(), kByEnd, end.verdict.sentence));
  }
  return result;
}

// The answers that the replies' votes make, also as the journal that comparisons and analyses read.
std::vector<record::Observation> count_votes(const AuditSubject& subject,
                                             const AuditSettings& settings,
                                             const audit::AuditRun& run) {
  const std::vector<record::Observation> answers =
      audit::majority(run.observations, subject.task.votes(), subject.task.modulus());
  std::string lines;
  for (const record::Observation& answer : answers) {
    lines += record::format_observation(answer) + "\n";
  }
  base::write_file_atomically(settings.out / "journal.jsonl", lines);
  return answers;
}

// What the prompts went through, and what they cost.
void add_mitigation(const AuditSubject& subject, const audit::AuditRun& run,
                    record::Result& result) {
  const task::Task& task = subject.task;
  double tokens = 0;
  for (const record::Observation& o : run.observations) {
    tokens += static_cast<double>(o.length + subject.uncounted);
  }
  if (!run.observations.empty()) {
    result.design.tokens_per_answer =
        tokens / static_cast<double>(run.observations.size()) * static_cast<double>(task.votes());
  }
  result.design.mitigation = task.mitigation();
  const auto cost = task::mitigation_cost(task);
  if (!cost) return;
  std::string note = fmt::format("Mitigation {}: {:.1f} tokens more per prompt than plain",
                                 task.mitigation(), cost->tokens_per_prompt);
  if (cost->votes > 1) {
    const auto missing = std::ranges::count_if(
        run.observations, [](const record::Observation& o) { return !o.correct; });
    note += fmt::format(
        ", and {} prompts per answer ({} in all, {} of them without a reply; one by one in "
        "votes.jsonl)",
        cost->votes, run.observations.size(), missing);
  }
  result.notes.push_back(note + ".");
}

}  // namespace

void check_settings(const AuditSettings& settings) {
  if (settings.min_accuracy && !(*settings.min_accuracy >= 0 && *settings.min_accuracy <= 1)) {
    throw base::usage_error("audit", "expected a --min-accuracy of 0 to 1, got {}",
                            *settings.min_accuracy);
  }
  if (settings.stride && *settings.stride < 1) {
    throw base::usage_error("audit", "expected a --stride of at least 1, got {}", *settings.stride);
  }
  std::error_code ignored;
  // An empty folder, as a kill leaves it, may be begun again.
  if (!settings.resume && std::filesystem::exists(settings.out / "manifest.json", ignored)) {
    throw base::usage_error("audit",
                            "expected a new folder, got {}, which exists; choose another name, or "
                            "go on with --resume",
                            settings.out.string());
  }
  if (settings.resume && !std::filesystem::exists(settings.out / "manifest.json")) {
    throw base::usage_error("audit",
                            "expected the folder of an interrupted audit, got {}, which has no "
                            "manifest.json; start it with --out",
                            settings.out.string());
  }
}

void check_resumed_mitigation(const AuditSettings& settings, const std::string& mitigation) {
  if (!settings.resume) return;
  const std::filesystem::path path = settings.out / "manifest.json";
  const base::Json manifest = base::parse_json(base::read_file(path), path.string());
  const auto at = base::Json::json_pointer("/options/mitigation/name");
  const std::string begun =
      manifest.is_object() && manifest.contains(at) && manifest.at(at).is_string()
          ? manifest.at(at).get<std::string>()
          : "";
  if (begun == mitigation) return;
  const auto named = [](const std::string& name) {
    return name.empty() ? std::string("plain prompts") : "--mitigate " + name;
  };
  throw base::usage_error("audit",
                          "expected {} to go on with {}, got {}; --resume takes the options that "
                          "the run was begun with",
                          named(begun), settings.out.string(), named(mitigation));
}

void check_stride(const lm::ModelTraits& traits, const AuditSettings& settings,
                  std::int64_t modulus) {
  if (traits.stride && settings.stride && *traits.stride != *settings.stride) {
    throw base::usage_error("audit", "expected --stride {} (the model's own), got {}; leave it out",
                            *traits.stride, *settings.stride);
  }
  const auto stride = traits.stride ? traits.stride : settings.stride;
  if (stride && modulus % *stride != 0) {
    throw base::usage_error(
        "audit", "expected a modulus that is a multiple of the stride {}, got {}; use --modulus {}",
        *stride, modulus, (modulus / *stride + 1) * *stride);
  }
}

AuditOutcome run_and_report(const AuditSubject& subject, const AuditSettings& settings,
                            const Session& session) {
  std::optional<record::Result> control;
  if (!settings.control.empty()) control = read_result(settings.control);
  const lm::ModelTraits traits = subject.model.traits();
  const task::Task& task = subject.task;
  if (settings.sequential && task.votes() > 1) {
    throw base::usage_error("audit",
                            "expected a fixed number of items with --mitigate majority, got "
                            "--sequential; leave it out");
  }
  const std::string rounded = task::rounded_items(subject.wanted_items.value_or(task.items()),
                                                  task.items(), task.modulus());
  if (!rounded.empty()) session.console.warning(rounded);
  const audit::SequentialAuditOptions sequential = sequential_options(subject, settings, traits);
  audit::SequentialAudit stopped;
  if (settings.sequential) {
    stopped = audit::run_sequential_audit(subject.model, task, sequential, progress_line(session));
  } else {
    audit::RunOptions options{.folder = settings.out,
                              .resume = settings.resume,
                              .position_offset = subject.position_offset,
                              .sync_each = subject.sync_each,
                              .server = subject.server,
                              .ask_again = subject.ask_again,
                              .keep_top = subject.keep_top};
    options.block_items = subject.items_at_once.value_or(options.block_items);
    stopped.run = audit::run_audit(subject.model, task, options, progress_line(session));
  }
  const audit::AuditRun& run = stopped.run;
  AuditOutcome outcome{.complete = run.complete, .stopped = run.stopped};
  if (!run.complete) return outcome;

  record::RunContext context = context_of(subject, run, session);
  if (!rounded.empty()) context.warnings.push_back(rounded);
  std::vector<record::Observation> answers;
  if (task.votes() > 1) answers = count_votes(subject, settings, run);
  if (settings.sequential) {
    outcome.result = audit::sequential_result(
        stopped, task, sequential,
        {.title = fmt::format("{} on {} ({} padding){}, sequential", context.model_name,
                              task.name(), task.padding(),
                              task.mitigation().empty() ? "" : ", mitigation " + task.mitigation()),
         .mark_boundary =
             !traits.staggered_grid && !subject.relative && traits.window == sequential.stride,
         .stride_source = traits.stride ? "model" : "given",
         .min_accuracy = settings.min_accuracy,
         .context = context});
  } else {
    const std::span<const record::Observation> scored =
        task.votes() > 1 ? std::span<const record::Observation>(answers)
                         : std::span<const record::Observation>(run.observations);
    outcome.result = analyse_run(subject, settings, run, traits, scored, context);
  }
  add_mitigation(subject, run, outcome.result);
  if (subject.annotate) subject.annotate(run, outcome.result);
  report::write_report(settings.out, outcome.result, control);
  return outcome;
}

record::Result read_result(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / "result.json";
  return record::result_from_json(base::parse_json(base::read_file(path), path.string()),
                                  path.string());
}

}  // namespace kvphase::cli
