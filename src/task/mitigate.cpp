#include "task/mitigate.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/nearest.h"
#include "task/mitigated_task.h"

namespace kvphase::task {
namespace {

constexpr std::array<MitigationInfo, 6> kAll = {{
    {Mitigation::kRestate, "restate",
     "the key facts once more behind the context, as it says them; for who knows which are key",
     "lookup, records, needle, templates with {needle} and {filler_after}"},
    {Mitigation::kList, "list", "the key facts as a short list, right in front of the question",
     "lookup, records, needle, templates with {needle} and {filler_after}"},
    {Mitigation::kRetrieve, "retrieve",
     "the context's best passages for the question (BM25), right in front of it",
     "lookup, records, needle, templates with {question} and {filler_after}"},
    {Mitigation::kQueryFirst, "query-first", "the question before the context as well as behind it",
     "lookup, records, needle, templates with {question}"},
    {Mitigation::kRandomPadding, "random-padding",
     "a random number of filler tokens in front, 0 to R-1, drawn for every item", "all"},
    {Mitigation::kMajority, "majority",
     "k prompts, 0 to k-1 filler tokens in front; the most frequent answer counts", "all"},
}};

}  // namespace

std::span<const MitigationInfo> mitigations() { return kAll; }

const MitigationInfo& info_of(Mitigation mitigation) {
  return kAll.at(static_cast<std::size_t>(mitigation));
}

std::vector<std::string> mitigation_names() {
  std::vector<std::string> names;
  for (const MitigationInfo& info : kAll) names.emplace_back(info.name);
  return names;
}

Mitigation mitigation_from_name(std::string_view name) {
  const auto found = std::ranges::find(kAll, name, &MitigationInfo::name);
  if (found == kAll.end()) {
    const std::vector<std::string> names = mitigation_names();
    throw base::usage_error("mitigate", "expected a mitigation of {}, got '{}'; did you mean '{}'?",
                            fmt::join(names, " | "), name, base::nearest_name(name, names));
  }
  return found->mitigation;
}

std::unique_ptr<Task> mitigate(std::unique_ptr<Task> plain, const MitigationOptions& options) {
  return std::make_unique<MitigatedTask>(std::move(plain), options);
}

std::optional<MitigationCost> mitigation_cost(const Task& task) {
  const auto* mitigated = dynamic_cast<const MitigatedTask*>(&task);
  if (mitigated == nullptr) return std::nullopt;
  return MitigationCost{.tokens_per_prompt = mitigated->mean_extra_tokens(),
                        .votes = mitigated->votes(),
                        .plain_tokens = mitigated->plain().longest_prompt()};
}

}  // namespace kvphase::task
