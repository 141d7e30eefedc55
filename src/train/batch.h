// Training data: a step's sequences as tensors, made from the seed and the step alone, so that a
// resumed run needs no state of the data. B sequences, T tokens, Q queries per sequence.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <string_view>

#include "task/lookup_language.h"

namespace kvphase::train {

struct Batch {
  torch::Tensor tokens;   // [B,T] int64
  torch::Tensor rows;     // [Q] int64: positions of the query keys, the same in every sequence
  torch::Tensor targets;  // [B,Q] int64: the answers
};

// Streams of different names share nothing; audits use names of their own.
inline constexpr std::string_view kTrainStream = "train";
inline constexpr std::string_view kValidationStream = "validate";

// `sequences` sequences of step `step` of a stream.
Batch make_batch(const task::LookupLanguage& language, std::uint64_t seed, std::string_view stream,
                 std::uint64_t step, std::int64_t sequences);

}  // namespace kvphase::train
