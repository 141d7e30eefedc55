// Useful floating point operations of the network's operations: what its definition asks for, not
// what an implementation spends. Knows no tensors and no machine.
//
// A multiplication and an addition count as one each. Counted, with B = 1, dimensions as in
// model/config.h, q = positions whose output is asked for:
//   projections  2 C H D q of queries, as many of the output map, 2 C G D T of keys, as many of
//                values (none with tied K/V)
//   compression  per KV head and branch (keys; values unless tied), and per pair of a completed
//                window and one of its tokens: 2 C D of the payload map and 2 C E of the gate map
//                where the window's offsets have maps of their own, 2 D of the weighted mean (D of
//                a plain one). A gate map that all offsets share is applied once per token, 2 C E;
//                a shared payload map is the token's own key or value and costs nothing.
//   attention    4 D per query head and pair of a query and something it sees: causal pairs only
//   MLP          6 C F q
//   logits       2 C V q
// Of the last layer everything but keys, values and compression is asked for at q positions only.
// Not counted: norms, RoPE, softmax, SwiGLU, the optimiser, all linear in T C, and the embedding.
// A backward pass has two products for each of the forward pass: training counts 3 times forward.
#pragma once

#include <cstdint>
#include <span>

#include "model/config.h"

namespace kvphase::speed {

struct Flops {
  double projections = 0;
  double compression = 0;
  double attention = 0;
  double mlp = 0;
  double logits = 0;

  double total() const { return projections + compression + attention + mlp + logits; }
};

inline constexpr double kTrainingPasses = 3;  // forward and backward in forward passes

// Pairs of a query and what it sees in a layer, over all query heads; the queries are at `rows`, or
// with no rows at every position of 0..tokens-1.
double attention_pairs(const model::ModelConfig& config, std::int64_t layer, std::int64_t tokens,
                       std::span<const std::int64_t> rows = {});

// One sequence, logits at `rows`, or with no rows everywhere (Transformer::forward_at, forward).
Flops forward_flops(const model::ModelConfig& config, std::int64_t tokens,
                    std::span<const std::int64_t> rows = {});

// One sequence's cache without logits (Transformer::prefill): of the last layer only keys, values
// and compression.
Flops prefill_flops(const model::ModelConfig& config, std::int64_t tokens);

// One more token behind `tokens` (Transformer::decode); compression as it is on average.
Flops decode_flops(const model::ModelConfig& config, std::int64_t tokens);

// The softmax part of one chunked, full or local layer alone: scores and values, forward.
double attend_flops(const model::ModelConfig& config, std::int64_t layer, std::int64_t tokens);

}  // namespace kvphase::speed
