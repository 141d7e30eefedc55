// Chunk pooling: the W tokens of a window become one entry, weighted by a softmax over the window.
//   logit(j,i) = gate[m(i)] of token begin(j) + i, plus bias_i;  weight = softmax over i = 0..W-1
//   entry_j = sum_i weight(j,i) * payload[m'(i)] of the same token
// (the compressor of Zhu et al., arXiv 2609.36322, section 2; DeepSeek-V4's has the same form).
// Offsets before token 0 (cut windows, see chunk_grid.h) have weight 0.
#pragma once

#include <torch/torch.h>

#include "kernels/chunk_grid.h"

namespace kvphase::kernels {

// The gate logits of every token under every map.
struct Gate {
  torch::Tensor logits;  // [B, T, K, G, E], E = 1 (scalar) or D (vector); undefined: uniform gate
  torch::Tensor bias;    // [W, G, E] or undefined
};

// Which of `maps` maps offset i uses: 1: the only one; W: its own; else i / S.
std::int64_t map_of_offset(const ChunkGrid& grid, std::int64_t maps, std::int64_t offset);

// Gate weights [B, M, G, W, E] of every entry of the first T tokens, M = grid.completed(T) (heads
// with fewer entries carry a meaningless last one, visible to no query). They sum to 1 over W.
// Uniform gates: [1, M, G, W, 1].
torch::Tensor gate_weights(const Gate& gate, const ChunkGrid& grid, std::int64_t tokens,
                           const torch::TensorOptions& options);

// Entries [B, M, G, D] from payload [B, T, K', G, D].
torch::Tensor pool_chunks(const Gate& gate, const torch::Tensor& payload, const ChunkGrid& grid);
torch::Tensor pool_chunks_plain(const Gate& gate, const torch::Tensor& payload,
                                const ChunkGrid& grid);

}  // namespace kvphase::kernels
