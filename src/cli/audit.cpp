// kvphase audit: does this model have periodic weak spots, with which period, and how bad is the
// worst phase?
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "base/error.h"
#include "base/files.h"
#include "cli/audit_checkpoint.h"
#include "cli/audit_endpoint.h"
#include "cli/command.h"
#include "cli/target.h"
#include "report/junit.h"
#include "report/terminal.h"
#include "report/write.h"
#include "task/catalog.h"

namespace kvphase::cli {
namespace {

struct AuditArguments {
  std::string model;
  std::string task;
  std::string out;
  std::string resume;
  std::string junit;
  std::vector<std::string> require;
  std::optional<std::int64_t> block_items;
  bool json = false;
  std::int64_t seed = 1;
  AuditSettings settings;
  CheckpointAudit checkpoint;
  EndpointAudit endpoint;  // with the choices of the task, for both
  std::vector<const CLI::Option*> only_checkpoint;
  std::vector<const CLI::Option*> only_endpoint;
};

AuditSettings settings_of(const AuditArguments& arguments) {
  AuditSettings settings = arguments.settings;
  if (!arguments.out.empty() && !arguments.resume.empty()) {
    throw base::usage_error("audit",
                            "expected --out or --resume, got both; --resume names the folder");
  }
  if (arguments.seed < 0) {
    throw base::usage_error("audit", "expected a --seed of at least 0, got {}", arguments.seed);
  }
  settings.seed = static_cast<std::uint64_t>(arguments.seed);
  for (const std::string& text : arguments.require) {
    settings.requirements.push_back(audit::parse_requirement(text));
  }
  if (arguments.block_items && !settings.sequential) {
    throw base::usage_error("audit", "expected --sequential with --block-items, got it alone");
  }
  settings.block_items = arguments.block_items.value_or(settings.block_items);
  if (settings.sequential &&
      (settings.requirements.size() > 1 ||
       std::ranges::any_of(settings.requirements, [](const auto& requirement) {
         return requirement.kind != audit::RequirementKind::kWorst;
       }))) {
    throw base::usage_error(
        "audit",
        "expected at most one requirement, worst>=X, with --sequential, got {}; "
        "gap and period need a fixed number of items",
        fmt::join(arguments.require, " and "));
  }
  settings.resume = !arguments.resume.empty();
  settings.out = settings.resume ? arguments.resume : arguments.out;
  if (settings.out.empty()) {
    const std::string model =
        is_address(arguments.model)
            ? name_of_address(arguments.model)
            : std::filesystem::weakly_canonical(arguments.model).filename().string();
    const std::string& padding = arguments.endpoint.task.task.padding;
    const std::string& mitigation = arguments.endpoint.mitigation.name;
    settings.out = fmt::format(
        "runs/{}-{}-{}{}{}", model, arguments.task.empty() ? "lookup" : arguments.task,
        padding.empty() ? "prefix" : padding, mitigation.empty() ? "" : "-", mitigation);
  }
  return settings;
}

ExitCode finish(const AuditArguments& arguments, const AuditSettings& settings,
                const EndpointOutcome& outcome, const Session& session) {
  const AuditOutcome& audit = outcome.audit;
  if (!audit.complete) {
    session.console.warning(fmt::format(
        "stopped{}; what was answered is kept. Go on with the same options and --resume {} in "
        "place of --out",
        audit.stopped.empty() ? "" : ": " + audit.stopped, settings.out.string()));
    return kInterrupted;
  }
  if (!arguments.junit.empty()) {
    const report::JunitSuite suite{.result = audit.result,
                                   .too_much_missing = outcome.too_much_missing};
    base::write_file_atomically(arguments.junit, report::junit_xml({&suite, 1}));
  }
  if (arguments.json) {
    session.console.result(report::result_json(audit.result));
  } else {
    session.console.result(
        report::terminal_report(audit.result, {.color = session.console.color_on_stdout()}));
  }
  session.console.progress(fmt::format("report: {}", (settings.out / "report.html").string()));
  const ExitCode code = exit_code_of(audit.result);
  if (!outcome.too_much_missing || code == kRequirementNotMet) return code;
  session.console.warning(fmt::format(
      "{} of {} replies are missing, more than --max-missing allows; --resume {} --retry-errors "
      "asks again where the model did not speak; for empty, cut or reasoning-only replies give "
      "--answer-tokens or --reasoning in a new run",
      audit.result.design.missing, audit.result.design.observations, settings.out.string()));
  return kEnvironment;
}

ExitCode audit_any(const AuditArguments& arguments, const Session& session) {
  const AuditSettings settings = settings_of(arguments);
  if (is_address(arguments.model)) {
    refuse_given(arguments.only_checkpoint, kACheckpoint, "audit");
    EndpointAudit endpoint = arguments.endpoint;
    endpoint.url = arguments.model;
    endpoint.task.name = arguments.task;
    const EndpointOutcome outcome = audit_endpoint(endpoint, settings, session);
    if (!outcome.dry_run.empty()) {
      session.console.result(outcome.dry_run);
      return kSuccess;
    }
    return finish(arguments, settings, outcome, session);
  }
  refuse_given(arguments.only_endpoint, kAServer, "audit");
  if (!arguments.task.empty() && arguments.task != "lookup") {
    throw base::usage_error("audit",
                            "expected --task lookup for a checkpoint, got {}: it reads the lookup "
                            "language only",
                            arguments.task);
  }
  CheckpointAudit checkpoint = arguments.checkpoint;
  checkpoint.checkpoint = arguments.model;
  checkpoint.task = arguments.endpoint.task.task;
  checkpoint.mitigation = arguments.endpoint.mitigation;
  return finish(arguments, settings, {.audit = audit_checkpoint(checkpoint, settings, session)},
                session);
}

ExitCode run_audit_command(const AuditArguments& arguments, const Session& session) {
  if (arguments.junit.empty()) return audit_any(arguments, session);
  try {
    return audit_any(arguments, session);
  } catch (const base::Error& error) {
    // A CI server should show why there is no result; a wrong command line is not its matter.
    if (error.kind() == base::ErrorKind::kEnvironment ||
        error.kind() == base::ErrorKind::kPhaseControl) {
      base::write_file_atomically(arguments.junit,
                                  report::junit_error(arguments.model, error.what()));
    }
    throw;
  }
}

}  // namespace

Action add_audit(CLI::App& options) {
  auto arguments = std::make_shared<AuditArguments>();
  AuditSettings& settings = arguments->settings;
  options
      .add_option("model", arguments->model,
                  "Checkpoint folder of `kvphase train`, or a server: http://HOST:PORT[/v1]")
      ->required();
  std::vector<std::string> tasks = task::task_names();
  tasks.insert(tasks.begin(), "lookup");
  options
      .add_option("--task", arguments->task,
                  fmt::format("{} (default: lookup, or records on a server that does not say its "
                              "language)",
                              fmt::join(tasks, " | ")))
      ->check(CLI::IsMember(tasks).description(""));
  const auto in_words = declare_task_options(options, arguments->endpoint.task.task);
  declare_mitigation_options(options, arguments->endpoint.mitigation);
  options.add_option("--seed", arguments->seed, "Seed of prompts and resampling (default 1)")
      ->check(CLI::NonNegativeNumber);
  options.add_option("--stride", settings.stride,
                     "Stride to fold by when the model has no chunked layer of its own");
  options.add_option("--min-accuracy", settings.min_accuracy,
                     "Mean below which flat means 'not learned' (exit 3)");
  options.add_option("--require", arguments->require, kRequireHelp)
      ->type_name("WHAT")
      ->allow_extra_args(false);
  options.add_flag("--sequential", settings.sequential,
                   "Stop as soon as the worst phase is known (and worst>=X decided)");
  options
      .add_option("--block-items", arguments->block_items,
                  "Items between looks of a sequential audit (default 10)")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1000000}).description(""));
  options.add_option("--control", settings.control, "Folder of an audited control to draw beside");
  arguments->only_checkpoint.push_back(options.add_option(
      "--threads", arguments->checkpoint.threads, "Threads (default: all cores)"));
  options.add_option("-o,--out", arguments->out,
                     "New run folder (default runs/MODEL-TASK-PADDING)");
  options.add_option("--resume", arguments->resume, "Finish the interrupted run in this folder");
  options.add_flag("--json", arguments->json, "The result object on stdout");
  options.add_option("--junit", arguments->junit, kJunitHelp)->type_name("FILE");
  arguments->only_endpoint = declare_endpoint_options(options, arguments->endpoint.choices);
  arguments->only_endpoint.push_back(
      options
          .add_option("--language", arguments->endpoint.task.language,
                      "Checkpoint folder that says the lookup language, for a server that cannot")
          ->group(arguments->only_endpoint.front()->get_group()));
  arguments->only_endpoint.insert(arguments->only_endpoint.end(), in_words.begin(), in_words.end());
  return [arguments](const Session& session) { return run_audit_command(*arguments, session); };
}

}  // namespace kvphase::cli
