// A local audit from checkpoint to report: the composition that `kvphase audit CHECKPOINT` and its
// relatives share. Model, task, run, analysis and report come from their folders; only the wiring
// is here.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "audit/requirement.h"
#include "cli/command.h"
#include "record/result.h"
#include "task/lookup.h"

namespace kvphase::cli {

struct CheckpointAudit {
  std::filesystem::path checkpoint;
  std::filesystem::path out;  // run folder: manifest, journal, result, report
  bool resume = false;
  task::Padding padding = task::Padding::kPrefix;
  std::int64_t modulus = 24;  // R
  std::int64_t items = 576;
  std::uint64_t seed = 1;                      // of the prompts and of the resampling
  std::optional<std::int64_t> records;         // default: what the checkpoint was trained on
  std::optional<std::int64_t> haystack;        // likewise
  std::optional<std::int64_t> demonstrations;  // default: 8, fewer when there are few records
  std::optional<std::int64_t> stride;          // to fold by, for a model without chunked layers
  std::int64_t threads = 0;                    // 0: all cores
  std::optional<double> min_accuracy;          // a mean below it means "not learned"
  std::vector<audit::Requirement> requirements;
  bool sequential = false;        // stop when the worst phase is known
  std::int64_t block_items = 10;  // between looks of a sequential audit
  std::filesystem::path control;  // folder of an audited control to draw beside; empty: none
};

struct AuditOutcome {
  record::Result result;
  bool complete = true;  // false: interrupted; nothing but the journal was written
};

AuditOutcome audit_checkpoint(const CheckpointAudit& audit, const Session& session);

// The result.json of a run folder.
record::Result read_result(const std::filesystem::path& folder);

}  // namespace kvphase::cli
