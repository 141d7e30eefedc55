#include "record/claim.h"

#include <fmt/format.h>

#include <algorithm>

namespace kvphase::record {

std::string_view name_of(ClaimOutcome outcome) {
  switch (outcome) {
    case ClaimOutcome::kHolds:
      return "holds";
    case ClaimOutcome::kFails:
      return "fails";
    case ClaimOutcome::kMixed:
      return "mixed";
    case ClaimOutcome::kOpen:
      return "open";
    case ClaimOutcome::kNoRuns:
      return "no runs";
  }
  return "";
}

base::Json to_json(const Claim& claim) {
  base::Json parts = base::Json::array();
  for (const ClaimPart& part : claim.parts) {
    parts.push_back(
        {{"name", part.name}, {"finding", part.finding}, {"outcome", name_of(part.outcome)}});
  }
  return {{"name", claim.name},         {"text", claim.text},
          {"test", claim.test},         {"outcome", name_of(claim.outcome)},
          {"sentence", claim.sentence}, {"parts", std::move(parts)}};
}

void conclude(Claim& claim) {
  const auto count = [&](ClaimOutcome outcome) {
    return std::ranges::count(claim.parts, outcome, &ClaimPart::outcome);
  };
  const auto holds = count(ClaimOutcome::kHolds);
  const auto fails = count(ClaimOutcome::kFails);
  const auto open = count(ClaimOutcome::kOpen);
  if (claim.parts.empty()) {
    claim.outcome = ClaimOutcome::kNoRuns;
    claim.sentence = "no run of the study bears on it" + claim.sentence;
    return;
  }
  claim.outcome = holds > 0 && fails > 0 ? ClaimOutcome::kMixed
                  : holds > 0            ? ClaimOutcome::kHolds
                  : fails > 0            ? ClaimOutcome::kFails
                                         : ClaimOutcome::kOpen;
  claim.sentence = fmt::format("holds in {} of {}{}{}{}", holds, claim.parts.size(),
                               fails > 0 ? fmt::format(", fails in {}", fails) : "",
                               open > 0 ? fmt::format(", open in {}", open) : "", claim.sentence);
}

}  // namespace kvphase::record
