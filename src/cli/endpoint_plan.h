// What an audit of a server will cost, before anything is paid.
#pragma once

#include <cstdint>
#include <string>

#include "cli/endpoint_options.h"
#include "cli/endpoint_task.h"
#include "endpoint/client.h"

namespace kvphase::cli {

struct EndpointPlan {
  std::int64_t prompts = 0;         // planned in all
  std::int64_t journalled = 0;      // of these, answered by earlier sessions
  std::int64_t proof_requests = 0;  // of the position proof, about
  std::int64_t primers = 0;         // requests that only fill a cache
  endpoint::Spent spent;            // of this session, everything together, at most
};

// `share`: of the task's prompts that are asked at most (a sequential audit asks fewer).
EndpointPlan plan_endpoint(const EndpointTask& made, double share, std::int64_t journalled,
                           const EndpointChoices& choices);

// Throws a usage error when the plan breaks a cap.
void check_caps(const EndpointPlan& plan, const EndpointChoices& choices);

// What --dry-run prints.
std::string plan_text(const EndpointPlan& plan, const EndpointTask& made,
                      const EndpointChoices& choices, const endpoint::ServerInfo& server);

}  // namespace kvphase::cli
