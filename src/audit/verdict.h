// The verdict in one sentence with its numbers, and what the reader should do now. Internal to
// audit/.
#pragma once

#include <optional>

#include "record/result.h"

namespace kvphase::audit {

struct VerdictInput {
  std::optional<double> min_accuracy;
  // How far one phase of `findable_stride` must lie below the others for this much data to find it
  // in four of five runs; empty: unknown.
  std::optional<double> findable;
  std::int64_t findable_stride = 4;
  bool all_equal = false;  // every scored reply is the same
};

record::Verdict decide(const record::Result& result, const VerdictInput& input);

}  // namespace kvphase::audit
