#include "task/task.h"

#include <fmt/format.h>

#include <numeric>

namespace kvphase::task {

std::vector<std::int64_t> Task::residues() const {
  std::vector<std::int64_t> all(static_cast<std::size_t>(modulus()));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

std::int64_t Task::haystack(std::int64_t, std::int64_t) const { return -1; }

std::int64_t Task::recount(const Prompt& prompt) const {
  return prompt.words ? prompt.length : static_cast<std::int64_t>(prompt.request.prompt.size());
}

Anatomy Task::anatomy(const Prompt&) const {
  const std::string why = fmt::format("the task {} says nothing of its prompts' parts", name());
  return {.why_no_help = why, .why_no_facts = why, .why_no_query_first = why};
}

CostShape Task::cost_shape() const { return {.prompt_tokens = longest_prompt()}; }

}  // namespace kvphase::task
