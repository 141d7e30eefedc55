// What a plan costs before anything is asked: requests and tokens, with and without sharing the
// beginnings of prompts in the server's cache. Knows no prices.
#pragma once

#include <cstdint>

#include "task/task.h"

namespace kvphase::task {

struct CostOptions {
  // Tokens that every prompt has beside those that the task counts: constant texts, BOS, chat
  // template. Those of the preamble are shared.
  std::int64_t constant_tokens = 0;
  std::int64_t constant_shared = 0;    // of these, in front of the haystack
  std::int64_t completion_tokens = 0;  // per prompt; 0: as the task says
};

struct PlanCost {
  std::int64_t requests = 0;       // the cache-filling ones included
  std::int64_t primers = 0;        // of these, requests that only fill the cache, one per haystack
  std::int64_t prompt_tokens = 0;  // sent, in all requests
  std::int64_t cached_tokens = 0;  // of these, taken from the cache when all of it works
  std::int64_t completion_tokens = 0;  // at most
  std::int64_t fresh_tokens() const { return prompt_tokens - cached_tokens; }
};

// `warm`: one request per haystack fills the cache, then its prompts find their beginning there.
// Otherwise every prompt is read from its first token.
PlanCost plan_cost(const Task& task, bool warm, const CostOptions& options = {});

}  // namespace kvphase::task
