#include "task/plan_cost.h"

namespace kvphase::task {

PlanCost plan_cost(const Task& task, bool warm, const CostOptions& options) {
  const CostShape shape = task.cost_shape();
  const std::int64_t prompts = task.items() * std::ssize(task.residues());
  const std::int64_t per_prompt =
      options.completion_tokens > 0 ? options.completion_tokens : shape.completion_tokens;
  PlanCost cost{.requests = prompts,
                .prompt_tokens = prompts * (shape.prompt_tokens + options.constant_tokens),
                .completion_tokens = prompts * per_prompt};
  if (!warm || shape.haystacks == 0) return cost;
  const std::int64_t shared = shape.shared_tokens + options.constant_shared;
  cost.primers = shape.haystacks;
  cost.requests += cost.primers;
  cost.prompt_tokens += cost.primers * shared;
  cost.completion_tokens += cost.primers;
  cost.cached_tokens = prompts * shared;
  return cost;
}

}  // namespace kvphase::task
