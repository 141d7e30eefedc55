// The task of an audit of a server, and the proof of where the server reads its tokens.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/audit_task.h"
#include "cli/endpoint_options.h"
#include "endpoint/positions.h"
#include "task/task.h"

namespace kvphase::cli {

// What the task is made from.
struct EndpointTaskChoices {
  std::string name;  // a task's name
  TaskChoices task;
  std::filesystem::path language;  // of lookup: checkpoint folder whose card says it
  std::uint64_t seed = 1;
  // Candidates for words of one token in place of our own list, e.g. those that several servers
  // share.
  std::vector<std::string> words;
  std::optional<task::MitigationOptions> mitigation;  // empty: plain prompts
};

// A task as it will be asked of a server.
struct EndpointTask {
  std::unique_ptr<task::Task> task;
  endpoint::PromptForm form = endpoint::PromptForm::kTokens;
  bool cold = true;
  bool in_ids = true;
  task::TaskSettings settings;       // of a task in words
  std::int64_t constant_tokens = 0;  // of a prompt, that the task does not count; an estimate
  std::int64_t shared_constant = 0;  // of these, in front of what a haystack's prompts share
  std::int64_t proof_requests = 0;   // about what the proof costs
};

// Filled in by prove_positions().
struct ProvenPositions {
  endpoint::PositionProof proof;
  std::int64_t offset = 0;  // tokens in front of the task's first
  bool relative = true;     // the offset is unknown
  // Tokens between the filler and the prompt's end that the task counts as 0; empty: unknown, then
  // the phases of the end are relative.
  std::optional<std::int64_t> behind;
  std::string relative_reason;  // where it is not the proof's note
};

// A failed request after which no other form of prompt is worth trying: nobody is there. A route
// that the server does not have says nothing about the others.
bool must_stop(endpoint::Outcome outcome);

// The stride of its model, where the server says it (`kvphase serve`).
std::optional<std::int64_t> said_stride(const endpoint::ServerInfo& server);

// "lookup" where the server says its model's language or the choices name it, else "records".
std::string default_task(const EndpointTaskChoices& choices, const endpoint::Client& client);

// Words that are one token each on all of these servers, as many as the task needs: with them the
// same prompts can be asked of all. Empty for a task in ids.
std::vector<std::string> shared_words(const std::vector<std::string>& urls,
                                      const EndpointTaskChoices& choices,
                                      const EndpointChoices& how, std::uint64_t seed);

// `free_only`: asks nothing that costs; words that cannot be verified for free are assumed then.
// Throws a usage error for choices that do not fit, a phase-control error when too few words are
// one token.
EndpointTask make_endpoint_task(const EndpointTaskChoices& choices, const EndpointChoices& how,
                                endpoint::PromptForm form,
                                const std::shared_ptr<endpoint::Client>& client, bool free_only);

// Asks the server; the caller looks at proof.ok. May make the task again, with the token counts
// that were found.
ProvenPositions prove_positions(EndpointTask& made, const EndpointChoices& how,
                                const std::string& task_name,
                                const std::shared_ptr<endpoint::Client>& client);

endpoint::EndpointModelOptions model_options(const EndpointTask& made, const EndpointChoices& how);

}  // namespace kvphase::cli
