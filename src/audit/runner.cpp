#include "audit/runner.h"

#include <algorithm>

#include "audit/prompt_run.h"
#include "base/stop.h"

namespace kvphase::audit {

AuditRun run_audit(lm::LanguageModel& model, const task::Task& task, const RunOptions& options,
                   const std::function<void(const RunProgress&)>& on_progress) {
  PromptRun run(model, task,
                {.folder = options.folder,
                 .resume = options.resume,
                 .position_offset = options.position_offset,
                 .sync_each = options.sync_each});
  const auto result = [&](bool complete) {
    return AuditRun{.observations = run.observations(), .plan = run.plan(), .complete = complete};
  };
  const std::int64_t R = task.modulus();
  for (std::int64_t first = 0; first < task.items(); first += options.block_items) {
    if (base::stop_requested()) return result(false);
    std::vector<PromptKey> keys;
    const std::int64_t end = std::min(first + options.block_items, task.items());
    for (std::int64_t item = first; item < end; ++item) {
      for (std::int64_t residue = 0; residue < R; ++residue) keys.push_back({item, residue});
    }
    if (run.ask(keys) && on_progress) on_progress(run.progress(task.items() * R));
  }
  return result(true);
}

}  // namespace kvphase::audit
