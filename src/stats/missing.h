// Prompts without a usable reply: never counted as wrong silently, never dropped silently.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "stats/score_table.h"

namespace kvphase::stats {

// A value known only to lie between two bounds, whatever the missing replies would have been.
struct Bounds {
  std::optional<double> low;
  std::optional<double> high;
};

struct MissingResult {
  std::int64_t planned = 0;
  std::int64_t missing = 0;
  std::vector<Bounds> groups;  // share per group: all missing wrong, all missing right
  Bounds mean;                 // over all planned prompts
  Bounds worst;                // lowest share
  Bounds best;
  Bounds gap;  // smallest and largest best - worst that the bounds of the groups allow
  // Does the chance of a missing reply depend on the group? Chi-squared statistic of the missing
  // counts, against dealing the missing at random over all planned prompts. Prompts are taken as
  // independent. Empty when nothing or everything is missing, with a reason.
  std::optional<double> p_depends_on_group;
  std::string method;
  std::string reason;
};

// counts: scored replies per group; missing: prompts without one, per group.
MissingResult bound_missing(const ResidueCounts& counts, const std::vector<std::int64_t>& missing,
                            std::int64_t draws = 10000, std::uint64_t seed = 1);

}  // namespace kvphase::stats
