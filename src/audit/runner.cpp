#include "audit/runner.h"

#include <algorithm>

#include "audit/prompt_run.h"
#include "base/stop.h"

namespace kvphase::audit {

std::string_view journal_name(const task::Task& task) {
  return task.votes() > 1 ? "votes.jsonl" : "journal.jsonl";
}

AuditRun run_audit(lm::LanguageModel& model, const task::Task& task, const RunOptions& options,
                   const std::function<void(const RunProgress&)>& on_progress) {
  PromptRun run(model, task,
                {.folder = options.folder,
                 .resume = options.resume,
                 .position_offset = options.position_offset,
                 .sync_each = options.sync_each,
                 .server = options.server,
                 .ask_again = options.ask_again,
                 .keep_top = options.keep_top});
  const std::vector<std::int64_t> residues = asked_residues(task, options.position_offset);
  // Whole groups of items that share a haystack.
  const std::int64_t group = task.block_items();
  const std::int64_t block = (options.block_items + group - 1) / group * group;
  for (std::int64_t first = 0; first < task.items(); first += block) {
    if (base::stop_requested()) return run.result(false);
    std::vector<PromptKey> keys;
    const std::int64_t end = std::min(first + block, task.items());
    for (std::int64_t item = first; item < end; ++item) {
      for (const std::int64_t residue : residues) keys.push_back({item, residue});
    }
    run.ask(keys, on_progress, task.items() * std::ssize(residues));
    if (run.stopped()) return run.result(false);
  }
  return run.result(true);
}

}  // namespace kvphase::audit
