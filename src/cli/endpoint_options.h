// What the command line says of a server and of how to ask it.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "endpoint/client.h"
#include "endpoint/endpoint_model.h"
#include "endpoint/spending.h"

namespace kvphase::cli {

struct EndpointChoices {
  // The server.
  std::string api;
  std::string model;
  std::string api_key_env;
  std::string env_file = ".env";
  std::int64_t context = 0;
  std::string extra;  // a JSON object's text
  // How it is asked.
  std::string form;
  int concurrency = 4;
  std::optional<double> timeout;  // seconds
  int tries = 7;
  std::int64_t top_logprobs = 20;
  bool cold = false;
  bool warm = false;
  bool stream = false;
  std::int64_t answer_tokens = 0;
  bool reasoning = false;
  // What it may cost.
  bool dry_run = false;
  endpoint::Prices prices;
  endpoint::Caps caps;
  bool priced = false;  // any --price was given
  // What becomes of missing replies.
  bool retry_errors = false;
  double max_missing = 0.1;  // share
};

// The options' names, so that they can be refused for a checkpoint.
std::vector<const CLI::Option*> declare_endpoint_options(CLI::App& app, EndpointChoices& choices);

// Throws a usage error for choices that cannot be.
endpoint::ClientOptions client_options(const EndpointChoices& choices, std::uint64_t seed);

// Forms to try, in order: the chosen one, or what the server has.
std::vector<endpoint::PromptForm> prompt_forms(const EndpointChoices& choices,
                                               const endpoint::Client& client, bool in_ids);
std::string_view name_of(endpoint::PromptForm form);

}  // namespace kvphase::cli
