// How prompts of the lookup task are run through a model by the commands of this folder. Knows no
// tensors.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace kvphase::lab {

struct RunOptions {
  std::int64_t threads = 1;
  // Prompt tokens in one pass: more is faster until it no longer fits the cache.
  std::int64_t batch_tokens = 4096;
  std::string scope = "lab";  // whose error it is when the user stops it
};

// Prompts done of all. Called from one thread at a time.
using OnProgress = std::function<void(std::int64_t done, std::int64_t all)>;

}  // namespace kvphase::lab
