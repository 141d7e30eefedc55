#include "cli/audit_checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <thread>

#include "base/error.h"
#include "cli/checkpoint_language.h"
#include "cli/lab_api.h"

namespace kvphase::cli {

AuditOutcome audit_checkpoint(const CheckpointAudit& audit, const AuditSettings& settings,
                              const Session& session) {
  // What can be refused without loading a model is refused first.
  constexpr std::int64_t kMostThreads = 1024;
  if (audit.threads < 0 || audit.threads > kMostThreads) {
    throw base::usage_error("audit", "expected 1 to {} --threads, got {}", kMostThreads,
                            audit.threads);
  }
  check_settings(settings);
  if (!std::filesystem::is_directory(audit.checkpoint)) {
    throw base::usage_error(
        "audit", "expected a checkpoint folder of `kvphase train` or a server's address, got {}",
        audit.checkpoint.string());
  }
  mitigation_options(audit.mitigation, settings.seed, {});
  check_resumed_mitigation(settings, audit.mitigation.name);
  std::unique_ptr<task::Task> task = std::make_unique<task::LookupTask>(
      lookup_options(audit.task, trained_language(audit.checkpoint), settings.seed));
  const std::int64_t threads = audit.threads > 0
                                   ? audit.threads
                                   : std::max<std::int64_t>(1, std::thread::hardware_concurrency());
  const auto model = load_lab().open_checkpoint(audit.checkpoint, threads);
  const lm::ModelTraits traits = model->traits();
  check_stride(traits, settings, task->modulus());
  const auto stride = traits.stride ? traits.stride : settings.stride;
  if (const auto mitigation = mitigation_options(audit.mitigation, settings.seed, stride)) {
    task = task::mitigate(std::move(task), *mitigation);
  }
  return run_and_report({.model = *model,
                         .task = *task,
                         .threads = threads,
                         .items_at_once = {},
                         .server = {},
                         .ask_again = {},
                         .annotate = {},
                         .wanted_items = audit.task.items},
                        settings, session);
}

}  // namespace kvphase::cli
