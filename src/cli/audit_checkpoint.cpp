#include "cli/audit_checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <thread>

#include "audit/analysis.h"
#include "audit/runner.h"
#include "audit/sequential_audit.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/files.h"
#include "cli/lab_api.h"
#include "record/table.h"
#include "report/write.h"

namespace kvphase::cli {
namespace {

task::LookupLanguage trained_language(const std::filesystem::path& checkpoint) {
  const std::filesystem::path path = checkpoint / "card.json";
  const base::Json card = base::parse_json(base::read_file(path), path.string());
  if (!card.is_object() || !card.contains("language") || card.at("language").is_null()) {
    throw base::usage_error(
        "audit", "expected a model trained on the lookup language, got none in {}", path.string());
  }
  return task::lookup_language_from_json(card.at("language"), path.string() + ".language");
}

task::LookupOptions lookup_options(const CheckpointAudit& audit) {
  task::LookupOptions options{.language = trained_language(audit.checkpoint),
                              .padding = audit.padding,
                              .modulus = audit.modulus,
                              .items = audit.items,
                              .seed = audit.seed};
  options.language.records = audit.records.value_or(options.language.records);
  options.language.haystack = audit.haystack.value_or(options.language.haystack);
  options.demonstrations =
      audit.demonstrations.value_or(std::min(options.demonstrations, options.language.records - 1));
  return options;
}

void check_stride(const lm::ModelTraits& traits, const CheckpointAudit& audit) {
  if (traits.stride && audit.stride && *traits.stride != *audit.stride) {
    throw base::usage_error("audit", "expected --stride {} (the model's own), got {}; leave it out",
                            *traits.stride, *audit.stride);
  }
  const auto stride = traits.stride ? traits.stride : audit.stride;
  if (stride && audit.modulus % *stride != 0) {
    throw base::usage_error(
        "audit", "expected a modulus that is a multiple of the stride {}, got {}; use --modulus {}",
        *stride, audit.modulus, (audit.modulus / *stride + 1) * *stride);
  }
}

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

audit::SequentialAuditOptions sequential_options(const CheckpointAudit& audit,
                                                 const lm::ModelTraits& traits) {
  audit::SequentialAuditOptions options{.folder = audit.out,
                                        .resume = audit.resume,
                                        .block_items = audit.block_items,
                                        .seed = audit.seed};
  if (!audit.sequential) return options;
  const auto stride = traits.stride ? traits.stride : audit.stride;
  if (!stride || *stride < 2) {
    throw base::usage_error("audit",
                            "expected a stride for --sequential, which searches among its phases, "
                            "got none from this model; give --stride S");
  }
  options.stride = *stride;
  if (!audit.requirements.empty()) options.requirement = audit.requirements.front();
  return options;
}

}  // namespace

record::Result read_result(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / "result.json";
  return record::result_from_json(base::parse_json(base::read_file(path), path.string()),
                                  path.string());
}

AuditOutcome audit_checkpoint(const CheckpointAudit& audit, const Session& session) {
  // What can be refused without loading a model is refused first.
  constexpr std::int64_t kMostThreads = 1024;
  if (audit.threads < 0 || audit.threads > kMostThreads) {
    throw base::usage_error("audit", "expected 1 to {} --threads, got {}", kMostThreads,
                            audit.threads);
  }
  if (audit.min_accuracy && !(*audit.min_accuracy >= 0 && *audit.min_accuracy <= 1)) {
    throw base::usage_error("audit", "expected a --min-accuracy of 0 to 1, got {}",
                            *audit.min_accuracy);
  }
  if (audit.stride && *audit.stride < 1) {
    throw base::usage_error("audit", "expected a --stride of at least 1, got {}", *audit.stride);
  }
  if (!std::filesystem::is_directory(audit.checkpoint)) {
    throw base::usage_error("audit", "expected a checkpoint folder of `kvphase train`, got {}",
                            audit.checkpoint.string());
  }
  if (audit.resume && !std::filesystem::exists(audit.out / "manifest.json")) {
    throw base::usage_error("audit",
                            "expected the folder of an interrupted audit, got {}, which has no "
                            "manifest.json; start it with --out",
                            audit.out.string());
  }
  const task::LookupTask task(lookup_options(audit));
  std::optional<record::Result> control;
  if (!audit.control.empty()) control = read_result(audit.control);

  const std::int64_t threads = audit.threads > 0
                                   ? audit.threads
                                   : std::max<std::int64_t>(1, std::thread::hardware_concurrency());
  const auto model = load_lab().open_checkpoint(audit.checkpoint, threads);
  const lm::ModelTraits traits = model->traits();
  check_stride(traits, audit);

  const audit::SequentialAuditOptions sequential = sequential_options(audit, traits);
  audit::SequentialAudit stopped;
  if (audit.sequential) {
    stopped = audit::run_sequential_audit(*model, task, sequential, progress_line(session));
  } else {
    stopped.run = audit::run_audit(*model, task, {.folder = audit.out, .resume = audit.resume},
                                   progress_line(session));
  }
  const audit::AuditRun& run = stopped.run;
  AuditOutcome outcome{.complete = run.complete};
  if (!run.complete) return outcome;

  const lm::ModelIdentity identity = model->identity();
  record::Dataset data = record::dataset_from(run.observations, task.modulus(), "audit");
  data.name = identity.name;
  data.task = task.name();
  data.padding = task.padding();
  // On staggered grids no phase is the boundary of every head, so none is marked.
  if (!traits.staggered_grid) data.window = traits.window;
  data.stride = traits.stride;
  data.positions = run.plan.positions;
  record::RunContext context = record::make_context();
  context.command = session.command_line;
  context.threads = threads;
  context.model_name = identity.name;
  context.model_kind = identity.kind;
  context.model_sha256 = identity.sha256;
  context.model_config = identity.config;
  context.prompt_set_sha256 = run.plan.prompt_set_sha256;
  if (audit.sequential) {
    outcome.result = audit::sequential_result(
        stopped, task, sequential,
        {.title = fmt::format("{} on {} ({} padding), sequential", identity.name, task.name(),
                              task.padding()),
         .mark_boundary = !traits.staggered_grid && traits.window == sequential.stride,
         .stride_source = traits.stride ? "model" : "given",
         .min_accuracy = audit.min_accuracy,
         .context = context});
    report::write_report(audit.out, outcome.result, control);
    return outcome;
  }
  outcome.result = audit::analyse(data, {.stride = audit.stride,
                                         .seed = audit.seed,
                                         .min_accuracy = audit.min_accuracy,
                                         .requirements = audit.requirements,
                                         .context = context,
                                         .task_options = task.options()});
  report::write_report(audit.out, outcome.result, control);
  return outcome;
}

}  // namespace kvphase::cli
