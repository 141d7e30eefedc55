// One softmax over compressed entries, exact tokens and an optional sink.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <limits>
#include <optional>

#include "kernels/chunk_grid.h"

namespace kvphase::kernels {

// Which exact tokens u <= t the query at t sees.
struct Recent {
  static constexpr std::int64_t kAll = std::numeric_limits<std::int64_t>::max();
  std::int64_t window = kAll;  // the last `window` ones, its own included
  // Only those after the last window (of the KV head) that is complete at t; `window` is ignored.
  bool tail = false;
};

// What the queries of one layer attend to. Dimensions: B, Q queries, T exact tokens, M entries, H
// query heads (head h reads KV head h / (H / G)), G, D.
struct Attention {
  torch::Tensor queries;     // [B, Q, H, D]
  torch::Tensor rows;        // [B, Q] int64: the queries' positions
  torch::Tensor keys;        // [B, T, G, D] exact tokens
  torch::Tensor values;      // [B, T, G, D]
  std::int64_t first = 0;    // position of the first exact token
  torch::Tensor entry_keys;  // [B, M, G, D] or undefined; entry j of head g ends at grid.end(g, j)
  torch::Tensor entry_values;  // [B, M, G, D]
  torch::Tensor sinks;         // [H] or undefined: logits that only add to the denominator
  ChunkGrid grid;              // of the entries and of the tail
  Recent recent;
};

// Scores are scaled by D^-0.5. Returns [B, Q, H, D]. Memory for scores in the plain version: Q (N +
// M) per head with a local window of N, Q (T + M) without one; in the fused one: T + M per thread.
// Every query must see something, if only itself.
torch::Tensor attend(const Attention& attention);
torch::Tensor attend_plain(const Attention& attention);

}  // namespace kvphase::kernels
