// What one attention layer keeps between decoding steps: compressed entries, recent exact tokens
// and the inputs of windows that are not complete yet.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <vector>

#include "kernels/attention.h"
#include "kernels/chunk_grid.h"

namespace kvphase::compress {

struct LayerCache {
  std::int64_t tokens = 0;                // seen so far
  torch::Tensor keys;                     // [B, R, G, D], normalised and rotated, the last R tokens
  torch::Tensor values;                   // the same; undefined with tied K/V
  std::vector<torch::Tensor> entry_keys;  // per KV head [B, M_g, D], normalised and rotated
  std::vector<torch::Tensor> entry_values;  // empty with tied K/V
  torch::Tensor pending;                    // [B, P, C] inputs of tokens of incomplete windows

  std::int64_t bytes() const;
};

// Position of the first token that is still needed once `tokens` have been seen: by the exact
// tokens of the next query, or by an incomplete window.
std::int64_t first_recent(const kernels::Recent& recent, const kernels::ChunkGrid& grid,
                          std::int64_t tokens);
std::int64_t first_pending(const kernels::ChunkGrid& grid, std::int64_t tokens);

// The grid of the windows that end at or after `tokens`, counted from position `first`, where the
// earliest of them begins or before.
kernels::ChunkGrid upcoming(const kernels::ChunkGrid& grid, std::int64_t tokens,
                            std::int64_t first);

// Heads [B, M_g, D] as one tensor [B, M, G, D], zeros behind the shorter ones.
torch::Tensor join_heads(const std::vector<torch::Tensor>& heads);

}  // namespace kvphase::compress
