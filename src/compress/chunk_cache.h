// What one attention layer keeps between decoding steps: compressed entries, recent exact tokens
// and the inputs of windows that are not complete yet. A copy is a snapshot: it costs nothing, and
// both go on by themselves (see rows.h).
//
// The inputs wait, rather than their products or sums of the window so far: a product with a map of
// its own offset is wanted once, when the window ends, and then the map is read once for the whole
// window instead of once per token. Only a shared map with overlapping windows multiplies a token
// again, W/S times in all.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <vector>

#include "compress/rows.h"
#include "kernels/attention.h"
#include "kernels/chunk_grid.h"

namespace kvphase::compress {

struct LayerCache {
  std::int64_t tokens = 0;  // seen so far
  Rows keys;                // [B, R, G, D], normalised and rotated, the last R tokens
  Rows values;              // the same; undefined with tied K/V
  HeadRows entry_keys;      // [B, M, G, D], normalised and rotated; undefined unless chunked
  HeadRows entry_values;    // the same; undefined with tied K/V
  Rows pending;             // [B, P, C] inputs of tokens of incomplete windows; as entry_keys

  // What is kept, and the memory that it lies in: up to half as much again and a few rows, where
  // it was not reserved; copies may share it.
  std::int64_t bytes() const;
  std::int64_t allocated_bytes() const;
  // All that is kept, in a fixed order: entries per KV head.
  std::vector<torch::Tensor> tensors() const;
  // Every row of the batch as many times: row k * B + b is row b.
  LayerCache repeated(std::int64_t times) const;
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

}  // namespace kvphase::compress
