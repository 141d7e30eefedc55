// A trained checkpoint as a language model: prompts in batches through our own network. Must not
// know tasks or what a position means.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "lm/language_model.h"

namespace kvphase::engine {

struct EngineOptions {
  std::int64_t threads = 1;  // batches run side by side
  // Prompt tokens in one forward pass: more is faster until it no longer fits the cache, and needs
  // memory in proportion.
  std::int64_t batch_tokens = 4096;
  // Longer prompts are read so many tokens at a time into a cache, one prompt after the other: more
  // is faster for full attention, and needs memory in proportion.
  std::int64_t block_tokens = 1024;
  std::string name;  // what a person calls the model; empty: the folder's name
};

// Text is token names separated by blanks ("f3 k12 v7 | k12"); an unknown name is a usage error.
// Models whose tokens.json holds the bytes (lm/byte_tokens.h) read text as it is.
// Prompts of equal length, up to block_tokens, share a pass and only their last position's logits
// are computed; log probabilities are taken in double. A reply to one of them depends on the other
// prompts of the call at most in the last bits (matrix products of other sizes may add in another
// order). Longer prompts with equal first blocks share the cache of those, and a reply has the same
// bits whatever else is in the call: blocks begin at the same tokens of a prompt in any case.
// Generation reads the prompt in such blocks and then one token per step.
// Throws a usage error for a folder that is no complete checkpoint.
std::unique_ptr<lm::LanguageModel> open_checkpoint(const std::filesystem::path& folder,
                                                   const EngineOptions& options = {});

}  // namespace kvphase::engine
