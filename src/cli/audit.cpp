// kvphase audit: does this model have periodic weak spots, with which period, and how bad is the
// worst phase?
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "base/error.h"
#include "cli/audit_checkpoint.h"
#include "cli/command.h"
#include "report/terminal.h"
#include "report/write.h"

namespace kvphase::cli {
namespace {

struct AuditArguments {
  std::string model;
  std::string task = "lookup";
  std::string out;
  std::string resume;
  std::string control;
  std::vector<std::string> require;
  bool sequential = false;
  std::optional<std::int64_t> block_items;
  bool json = false;
  std::string padding = "prefix";
  std::int64_t seed = 1;
  CheckpointAudit audit;
};

task::Padding padding_of(const std::string& name) {
  if (name == "prefix") return task::Padding::kPrefix;
  if (name == "in-sequence") return task::Padding::kInSequence;
  throw base::usage_error("audit", "expected --padding prefix or in-sequence, got '{}'", name);
}

ExitCode run_audit_command(const AuditArguments& arguments, const Session& session) {
  if (arguments.model.find("://") != std::string::npos) {
    throw base::usage_error("audit", "expected a checkpoint folder, got the address {}",
                            arguments.model);
  }
  if (!arguments.out.empty() && !arguments.resume.empty()) {
    throw base::usage_error("audit",
                            "expected --out or --resume, got both; --resume names the folder");
  }
  CheckpointAudit audit = arguments.audit;
  audit.padding = padding_of(arguments.padding);
  if (arguments.seed < 0) {
    throw base::usage_error("audit", "expected a --seed of at least 0, got {}", arguments.seed);
  }
  audit.seed = static_cast<std::uint64_t>(arguments.seed);
  audit.checkpoint = arguments.model;
  audit.control = arguments.control;
  for (const std::string& text : arguments.require) {
    audit.requirements.push_back(audit::parse_requirement(text));
  }
  audit.sequential = arguments.sequential;
  if (arguments.block_items && !audit.sequential) {
    throw base::usage_error("audit", "expected --sequential with --block-items, got it alone");
  }
  audit.block_items = arguments.block_items.value_or(audit.block_items);
  if (audit.sequential && (audit.requirements.size() > 1 ||
                           std::ranges::any_of(audit.requirements, [](const auto& requirement) {
                             return requirement.kind != audit::RequirementKind::kWorst;
                           }))) {
    throw base::usage_error(
        "audit",
        "expected at most one requirement, worst>=X, with --sequential, got {}; "
        "gap and period need a fixed number of items",
        fmt::join(arguments.require, " and "));
  }
  audit.resume = !arguments.resume.empty();
  audit.out = audit.resume ? arguments.resume : arguments.out;
  if (audit.out.empty()) {
    const auto folder = std::filesystem::weakly_canonical(audit.checkpoint).filename().string();
    audit.out = fmt::format("runs/{}-{}-{}", folder, arguments.task,
                            audit.padding == task::Padding::kPrefix ? "prefix" : "in-sequence");
  }
  const AuditOutcome outcome = audit_checkpoint(audit, session);
  if (!outcome.complete) {
    session.console.warning(
        fmt::format("stopped; what was answered is kept. Go on with the same options and --resume "
                    "{} in place of --out",
                    audit.out.string()));
    return kInterrupted;
  }
  if (arguments.json) {
    session.console.result(report::result_json(outcome.result));
  } else {
    session.console.result(
        report::terminal_report(outcome.result, {.color = session.console.color_on_stdout()}));
  }
  session.console.progress(fmt::format("report: {}", (audit.out / "report.html").string()));
  return exit_code_of(outcome.result);
}

}  // namespace

Action add_audit(CLI::App& options) {
  auto arguments = std::make_shared<AuditArguments>();
  CheckpointAudit& audit = arguments->audit;
  options.add_option("model", arguments->model, "Checkpoint folder of `kvphase train`")->required();
  options.add_option("--task", arguments->task, "lookup (default)")
      ->check(CLI::IsMember({"lookup"}).description(""));
  options.add_option("--padding", arguments->padding,
                     "prefix (default): the records move together; in-sequence: each by itself");
  options.add_option("-R,--modulus", audit.modulus,
                     "Residues of the target's position (default 24)");
  options.add_option("--items", audit.items,
                     "Items, each asked at every residue (default 576; at least 2R; R*R balance "
                     "positions exactly)");
  options.add_option("--seed", arguments->seed, "Seed of prompts and resampling (default 1)");
  options.add_option("--records", audit.records, "Records per prompt (default: as trained)");
  options.add_option("--haystack", audit.haystack,
                     "Tokens before the question (default: as trained)");
  options.add_option("--demonstrations", audit.demonstrations,
                     "Answered questions before the target's (default 8, fewer with few records)");
  options.add_option("--stride", audit.stride,
                     "Stride to fold by when the model has no chunked layer of its own");
  options.add_option("--min-accuracy", audit.min_accuracy,
                     "Mean below which flat means 'not learned' (exit 3)");
  options.add_option("--require", arguments->require, kRequireHelp)
      ->type_name("WHAT")
      ->allow_extra_args(false);
  options.add_flag("--sequential", arguments->sequential,
                   "Stop as soon as the worst phase is known (and worst>=X decided)");
  options
      .add_option("--block-items", arguments->block_items,
                  "Items between looks of a sequential audit (default 10)")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1000000}).description(""));
  options.add_option("--control", arguments->control,
                     "Folder of an audited control to draw beside");
  options.add_option("--threads", audit.threads, "Threads (default: all cores)");
  options.add_option("-o,--out", arguments->out,
                     "New run folder (default runs/MODEL-TASK-PADDING)");
  options.add_option("--resume", arguments->resume, "Finish the interrupted run in this folder");
  options.add_flag("--json", arguments->json, "The result object on stdout");
  return [arguments](const Session& session) { return run_audit_command(*arguments, session); };
}

}  // namespace kvphase::cli
