// What only the caller of a server knows about an audit, in words for its record: positions,
// caches, errors, cost.
#pragma once

#include <string>
#include <vector>

#include "audit/runner.h"
#include "cli/endpoint_options.h"
#include "cli/endpoint_task.h"
#include "endpoint/client.h"
#include "record/result.h"

namespace kvphase::cli {

void add_endpoint_notes(const audit::AuditRun& run, const ProvenPositions& proven,
                        const endpoint::Client& client, const EndpointChoices& choices,
                        record::Result& result);

// The first distinct failure of each kind of this session, with its count; most frequent first.
std::vector<std::string> error_lines(const endpoint::Client& client);

}  // namespace kvphase::cli
