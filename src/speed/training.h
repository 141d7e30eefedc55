// The training that a benchmark steps through: the lookup recipe stretched to a length. Knows no
// tensors.
#pragma once

#include <cstdint>
#include <vector>

#include "speed/cell.h"
#include "train/options.h"

namespace kvphase::speed {

inline constexpr std::int64_t kShortestTraining = 5;  // tokens of a sequence with one record

// The cell's network on lookup sequences of `tokens` tokens, 64 records and queries (fewer where
// they do not fit) and for the rest filler; options as the recipes have them. Throws a usage error
// for fewer than kShortestTraining tokens.
train::TrainOptions training_of(const Cell& cell);

// Positions whose logits a step asks for.
std::vector<std::int64_t> asked_rows(const train::TrainOptions& options);

}  // namespace kvphase::speed
