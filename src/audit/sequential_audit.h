// An audit that stops when it knows its worst phase (or whether a requirement on it is met): whole
// items in blocks, over the phases of a known stride that are still in question.
//
// Each item is asked once per phase, because several prompts of one item and phase are not
// independent: at residue phase + stride * q, q drawn per item from the seed and the same for all
// its phases. The decisions depend on the answers and the seed only, so that a resumed run takes
// the same ones from its journal. What is left has no fixed-sample p-value and no fixed-sample
// interval; the record holds e-values instead (stats/sequential.h).
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>

#include "audit/requirement.h"
#include "audit/runner.h"
#include "record/context.h"
#include "record/result.h"
#include "stats/sequential.h"

namespace kvphase::audit {

struct SequentialAuditOptions {
  std::filesystem::path folder;  // as RunOptions
  bool resume = false;
  std::int64_t stride = 0;        // S >= 2, a divisor of the task's modulus
  std::int64_t block_items = 10;  // between looks
  double alpha = 0.05;
  std::optional<Requirement> requirement;  // worst>=X only; more: a usage error by the caller
  std::uint64_t seed = 1;                  // of the residues
  std::int64_t position_offset = 0;        // as RunOptions
  bool sync_each = false;                  // likewise
  base::Json server;                       // likewise
};

struct SequentialAudit {
  AuditRun run;
  stats::SequentialResult search;
};

// Throws as run_audit(), and a usage error for a stride that does not divide the modulus.
SequentialAudit run_sequential_audit(lm::LanguageModel& model, const task::Task& task,
                                     const SequentialAuditOptions& options,
                                     const std::function<void(const RunProgress&)>& on_progress);

struct SequentialReport {
  std::string title;
  bool mark_boundary = false;           // phase S-1 is the boundary (S = W)
  std::string stride_source = "model";  // "model" | "given"
  std::optional<double> min_accuracy;
  record::RunContext context;
};

// The complete record of a complete audit.
record::Result sequential_result(const SequentialAudit& audit, const task::Task& task,
                                 const SequentialAuditOptions& options,
                                 const SequentialReport& report);

}  // namespace kvphase::audit
