// What a person may set about the server.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/json.h"

namespace kvphase::serve {

struct ServeOptions {
  std::string model_name;  // the id in /v1/models; empty: the model's own name
  std::string api_key;     // clients must send it as a bearer token; empty: none is asked for
  std::size_t max_body_bytes = std::size_t{32} << 20;  // of a request; beyond: 413
  std::int64_t max_prompts = 1024;                     // of one request; beyond: 400
  std::int64_t max_waiting = 64;   // requests waiting for the model; beyond: 503
  base::Json about_model;          // more members of "kvphase" in /v1/models; null: none
  std::int64_t max_logprobs = 20;  // log-probabilities per token, as vLLM; -1: the vocabulary
};

}  // namespace kvphase::serve
