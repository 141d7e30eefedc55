// The published claims about chunked KV-cache compression (Zhu et al., arXiv 2609.36322), each
// tested on a family of audited models, and our own about staggered grids. Reads results and paired
// differences; must not know files or models.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "record/claim.h"
#include "record/result.h"
#include "stats/paired.h"

namespace kvphase::audit {

struct ClaimRun {
  std::string design;  // a preset's name: "w8s8-1kv", "full-8kv"
  std::uint64_t seed = 0;
  std::string padding;                 // "prefix" | "in-sequence" | "around-target"
  std::optional<std::int64_t> window;  // empty: full attention, a control
  std::optional<std::int64_t> stride;
  bool staggered = false;
  std::int64_t steps = 0;  // of the training
  std::string name = {};   // in the claims; empty: made of the above
  record::Result result;
  // Items x phases (position mod stride), for the tests that need items; may be empty.
  std::optional<stats::PhaseMatrix> phases;
};

// Two runs on the same prompts; differences are run - reference.
struct ClaimPair {
  std::size_t run = 0;  // index into the runs
  std::size_t reference = 0;
  record::Estimate mean;
  record::Estimate worst;
  record::Estimate gap;
};

// All claims, in the order of the paper; those without a run say so.
std::vector<record::Claim> test_claims(const std::vector<ClaimRun>& runs,
                                       const std::vector<ClaimPair>& pairs);

}  // namespace kvphase::audit
