// Bytes that a decoding step cannot avoid to read, in float32: weights and cache. Knows no tensors
// and no machine.
//
// Weights: every learned number once, but
//   an untied embedding: the token's row alone (the output map is read whole), and
//   the compressors' maps: once per S tokens, when a window completes.
// Cache: entries and exact tokens of model::cache_size(). The inputs that wait for their window are
// left out: running sums would do, so reading them again is not unavoidable.
// A step whose bytes fit the processor's own cache may be faster than memory allows.
#pragma once

#include <cstdint>

#include "model/config.h"

namespace kvphase::speed {

inline constexpr std::int64_t kNumberBytes = 4;  // float32

struct StepBytes {
  double weights = 0;
  double cache = 0;
  double total() const { return weights + cache; }
};

// One more token behind `tokens`, one sequence.
StepBytes decode_bytes(const model::ModelConfig& config, std::int64_t tokens);

// What the cache of one sequence holds after `tokens` tokens: entries, exact tokens and inputs that
// wait.
std::int64_t cache_bytes(const model::ModelConfig& config, std::int64_t tokens);

}  // namespace kvphase::speed
