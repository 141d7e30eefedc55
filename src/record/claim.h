// What was claimed of a family of models, and what our runs say to it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace kvphase::record {

enum class ClaimOutcome {
  kHolds,
  kFails,   // tested, and not so
  kMixed,   // of a whole claim: some parts hold, some fail
  kOpen,    // the data cannot decide
  kNoRuns,  // of a whole claim: nothing to test it on
};
std::string_view name_of(ClaimOutcome outcome);  // "holds" | "fails" | "mixed" | "open" | "no runs"

// One run, or one comparison, that bears on a claim.
struct ClaimPart {
  std::string name;     // "w8s8-1kv, seed 42, prefix"
  std::string finding;  // the statistic in words: "period 8, p < 0.0001"
  ClaimOutcome outcome = ClaimOutcome::kOpen;
};

struct Claim {
  std::string name;  // short: "period"
  std::string text;  // what is claimed, in our words
  std::string test;  // how a part is judged
  ClaimOutcome outcome = ClaimOutcome::kNoRuns;
  std::string sentence;  // the parts counted, with what goes beyond them
  std::vector<ClaimPart> parts;
};

base::Json to_json(const Claim& claim);

// Sets `outcome` from the parts (open ones count only when there are no others) and begins
// `sentence` with their numbers.
void conclude(Claim& claim);

}  // namespace kvphase::record
