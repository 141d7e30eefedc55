// An audit of a server: finds out what it is, makes the task, proves token positions, keeps within
// the caps; the rest is audit_run.h's.
#pragma once

#include <string>

#include "cli/audit_run.h"
#include "cli/endpoint_options.h"
#include "cli/endpoint_task.h"

namespace kvphase::cli {

struct EndpointAudit {
  std::string url;
  EndpointTaskChoices task;  // its name empty: what the server can
  MitigationChoices mitigation;
  EndpointChoices choices;
  bool keep_top = false;  // as audit::RunOptions
};

struct EndpointOutcome {
  AuditOutcome audit;
  std::string dry_run;            // what --dry-run has to say; the audit is empty then
  bool too_much_missing = false;  // more than --max-missing
};

EndpointOutcome audit_endpoint(const EndpointAudit& audit, const AuditSettings& settings,
                               const Session& session);

}  // namespace kvphase::cli
