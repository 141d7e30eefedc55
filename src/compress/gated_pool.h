// The compressor of Zhu et al. (arXiv 2609.36322, section 2): an entry is the gate-weighted mean of
// its tokens' payloads, keys and values each with their own gate and payload maps.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "compress/compressor.h"
#include "kernels/pool.h"

namespace kvphase::compress {

struct GatedPoolOptions {
  std::int64_t width = 0;         // C
  std::int64_t kv_heads = 1;      // G
  std::int64_t head_width = 0;    // D
  std::int64_t window = 1;        // W
  std::int64_t stride = 1;        // S, of every grid that compress() is given
  std::int64_t gate_width = 0;    // E: 0 uniform gates (a mean), 1 scalar, D vector
  std::int64_t gate_maps = 1;     // K: 1 for all offsets, W one each, between: offset i uses i / S
  bool gate_bias = true;          // per offset and gate channel
  std::int64_t payload_maps = 0;  // K'; 0: pool the exact tokens' own keys and values
  bool tied = false;              // no value branch
};

// Maps of their own for every offset are applied where they are used alone: a token is at ceil(W/S)
// offsets of a head's windows, not at W, so with W = S that is a W-th of the products.
// Parameters of the key branch (the value branch has the same, v_...):
//   k_gate.weight [K*G*E, C], k_gate.bias [W, G*E], k_payload.weight [K'*G*D, C].
class GatedPool : public Compressor {
 public:
  explicit GatedPool(const GatedPoolOptions& options);

  std::vector<torch::Tensor> projections() const override;
  Entries compress(const torch::Tensor& inputs, const std::vector<torch::Tensor>& projected,
                   const torch::Tensor& keys, const torch::Tensor& values,
                   const kernels::ChunkGrid& grid) const override;
  Entries compress_window(const torch::Tensor& inputs, std::int64_t first_head, std::int64_t heads,
                          const torch::Tensor& key_matrix,
                          const torch::Tensor& value_matrix) const override;

  // Gate weights [B, M, G, W, E] of the key or the value branch for normalised inputs [B, T, C],
  // for looking into a model.
  torch::Tensor weights(const torch::Tensor& inputs, const kernels::ChunkGrid& grid,
                        bool of_values) const;

 private:
  struct Map : torch::nn::Module {
    torch::Tensor weight;  // [outputs, C]
    torch::Tensor bias;    // gates: [W, G*E] or undefined
  };
  struct Branch {
    std::shared_ptr<Map> gate;     // null: uniform
    std::shared_ptr<Map> payload;  // null: pool the exact tokens' own
  };

  Branch make_branch(const std::string& name);
  // Are `maps` maps applied to the tokens at their offsets alone?
  bool by_offset(std::int64_t maps) const;
  // inputs [B, w, C] of a window's last w tokens times the maps [maps*G*X, C] of their offsets,
  // the rows of some heads: [B, w, heads, X].
  torch::Tensor at_offsets(const torch::Tensor& inputs, const torch::Tensor& matrix,
                           std::int64_t maps, std::int64_t first_head, std::int64_t heads) const;
  // logits [B, T, maps*G*E]
  kernels::Gate gate(const Branch& branch, const torch::Tensor& logits, std::int64_t maps) const;

  GatedPoolOptions options_;
  Branch keys_;
  Branch values_;  // empty when tied
};

}  // namespace kvphase::compress
