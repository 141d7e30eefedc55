// What the nulls of the gap (gap.h) share. Internal to stats.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "stats/gap.h"

namespace kvphase::stats {

inline constexpr const char* kOneGroup = "fewer than two groups have observations";

void check_gap_options(const GapOptions& options);

// Best minus worst mean of the groups with observations; empty when there are fewer than two.
std::optional<double> gap_of(const std::vector<double>& sum, const std::vector<std::int64_t>& n);

// The gaps of one null's draws, and the observed one, computed as they are.
struct NullGaps {
  std::vector<double> gaps;
  double observed = 0;
  std::vector<double> noise;  // without what items share; empty: the same gaps
};

// Fills noise, p-value and replicates. Equal gaps that differ by the order of additions are ties.
void summarise(GapNoise& result, NullGaps null);

}  // namespace kvphase::stats
