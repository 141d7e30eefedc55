#include "audit/wording.h"

#include <fmt/format.h>

namespace kvphase::audit {

std::string p_text(std::optional<double> p) {
  if (!p) return "p unknown";
  return *p < 0.0001 ? "p < 0.0001" : fmt::format("p = {:.2g}", *p);
}

std::string why_empty(const record::Group& group, const std::string& interval) {
  if (group.n == 0) return group.planned == 0 ? "no prompt" : "no scored prompt";
  std::string why;
  const auto add = [&](const std::string& text) { why += (why.empty() ? "" : "; ") + text; };
  if (!group.low || !group.high) add(interval.empty() ? "no interval" : interval);
  if (!group.worst_share) add("no bootstrap, so no share of being the worst");
  if (!group.mean_logprob) add("no log-probabilities");
  return why;
}

}  // namespace kvphase::audit
