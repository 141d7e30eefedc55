// What a user can do to a prompt against weak phases, as transforms of any task's prompts: the same
// items at the same residues as the plain task, so that what a transform buys and costs is measured
// prompt by prompt. One table of them serves help, documentation and code.
//
// The position that the task moves stays at the residue that the design names: a transform that
// puts d tokens in front of it takes the plain prompt of the residue d earlier. Nothing but a
// prompt's own question is used to choose what is repeated, never its answer.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "task/task.h"

namespace kvphase::task {

enum class Mitigation { kRestate, kList, kRetrieve, kQueryFirst, kRandomPadding, kMajority };

struct MitigationInfo {
  Mitigation mitigation;
  std::string_view name;
  std::string_view what;   // it does
  std::string_view tasks;  // that can do it
};

// All of them, in this order.
std::span<const MitigationInfo> mitigations();
const MitigationInfo& info_of(Mitigation mitigation);
std::vector<std::string> mitigation_names();
Mitigation mitigation_from_name(std::string_view name);  // usage error with the nearest name

struct MitigationOptions {
  Mitigation mitigation = Mitigation::kRestate;
  // restate, list: how many key facts, the asked one among them; the others are drawn at random.
  // Empty: all that the task knows. Fewer: shorter, and more must be known beforehand.
  std::optional<std::int64_t> facts;
  // retrieve: how many passages, and the length of each in tokens. Empty: the task's own.
  std::optional<std::int64_t> passages;
  std::optional<std::int64_t> passage_tokens;
  std::int64_t votes = 4;  // majority: k prompts, 0 to k-1 tokens further on
  std::uint64_t seed = 1;  // of what is drawn
};

// Throws a usage error where the task cannot do it, with the reason and what can be done instead.
std::unique_ptr<Task> mitigate(std::unique_ptr<Task> plain, const MitigationOptions& options);

// What the mitigated prompts of a task have more than its plain ones.
struct MitigationCost {
  double tokens_per_prompt = 0;   // mean over items, as the task counts
  std::int64_t votes = 1;         // prompts per answer
  std::int64_t plain_tokens = 0;  // of a plain prompt, at most
};
// Empty: the task is plain.
std::optional<MitigationCost> mitigation_cost(const Task& task);

}  // namespace kvphase::task
