// An audit of a checkpoint in this process: opens it and makes its task; the rest is audit_run.h's.
#pragma once

#include <cstdint>
#include <filesystem>

#include "cli/audit_run.h"
#include "cli/audit_task.h"

namespace kvphase::cli {

struct CheckpointAudit {
  std::filesystem::path checkpoint;
  TaskChoices task;  // of lookup
  MitigationChoices mitigation;
  std::int64_t threads = 0;  // 0: all cores
};

AuditOutcome audit_checkpoint(const CheckpointAudit& audit, const AuditSettings& settings,
                              const Session& session);

}  // namespace kvphase::cli
