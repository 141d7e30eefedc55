// The softmax of one query position, as weights instead of its result, and the values behind them.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/attention.h"
#include "lab/opened.h"

namespace kvphase::lab {

// Q = 1 query per sequence, all at the same position. They sum to 1 over all three.
struct Weights {
  torch::Tensor exact;    // [B, H, T] of the exact tokens, 0 where not visible
  torch::Tensor entries;  // [B, H, M] likewise; M may be 0
  torch::Tensor sink;     // [B, H]
};
Weights attention_weights(const kernels::Attention& attention);

// What a layer's attention at the last position could read of one token of every prompt.
struct Held {
  // The entry that holds the token: of those whose window has it and is complete, the one whose
  // value gate weighs it most. [B, G]; full attention: the token itself.
  torch::Tensor entry;
  torch::Tensor as_written;  // [B, G, D] the entry's value
  // [B, G, D] the value that the entry would have if its gate kept this token alone.
  torch::Tensor alone;
};
// inputs [B, T, C]: the layer's normalised inputs at all positions. position: of the token, one per
// prompt; a usage error where a chunked layer has no complete window with it.
Held held(const Opened& opened, std::int64_t layer, const torch::Tensor& inputs,
          const kernels::Attention& attention, const std::vector<std::int64_t>& position);

// Whether the layer's queries see beyond a local window: chunked and full attention.
bool reaches_far(const Opened& opened, std::int64_t layer);

}  // namespace kvphase::lab
