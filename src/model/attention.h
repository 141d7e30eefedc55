// One layer's attention: full, local or chunked, over all tokens at once or token by token.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "compress/chunk_cache.h"
#include "compress/compressor.h"
#include "kernels/attention.h"
#include "kernels/rope.h"
#include "model/config.h"
#include "model/look.h"

namespace kvphase::model {

// A learned matrix [outputs, inputs] or vector, zero until it is initialised.
struct Weight : torch::nn::Module {
  explicit Weight(torch::IntArrayRef shape) {
    weight = register_parameter("weight", torch::zeros(shape));
  }
  torch::Tensor weight;
};

// x [B, T, C] at rows [B, Q] int64: [B, Q, C].
torch::Tensor gather_rows(const torch::Tensor& x, const torch::Tensor& rows);

// Parameters: q_proj, k_proj, v_proj (none with tied K/V), o_proj, q_norm and k_norm (with
// qk_norm), sinks (with attention_sink), compressor.* (in chunked layers, see
// compress/gated_pool.h).
class Attention : public torch::nn::Module {
 public:
  Attention(const ModelConfig& config, std::int64_t layer);

  // inputs [B, T, C], already normalised. rows [B, Q]: the query positions, and queries [B, Q, C]
  // the inputs there; both undefined: all positions. table: RoPE of positions 0..T-1 at least.
  // Returns [B, Q, C].
  torch::Tensor forward(const torch::Tensor& inputs, const torch::Tensor& rows,
                        const torch::Tensor& queries, const kernels::RopeTable& table);

  compress::LayerCache start(std::int64_t batch) const;
  // inputs [B, n, C] of the next n tokens; table: RoPE of positions 0..cache.tokens + n - 1 at
  // least. look: null, or what to record and to replace in this call.
  torch::Tensor decode(const torch::Tensor& inputs, compress::LayerCache& cache,
                       const kernels::RopeTable& table, LayerLook* look = nullptr);
  // The same cache afterwards, without asking for the tokens' own outputs.
  void absorb(const torch::Tensor& inputs, compress::LayerCache& cache,
              const kernels::RopeTable& table);

  const kernels::ChunkGrid& grid() const { return grid_; }  // of chunked layers
  // Windows `later` tokens later than the configuration says, until another call; for sequences
  // that are begun afterwards.
  void shift_grid(std::int64_t later);
  // Null unless the layer is chunked.
  const compress::Compressor* compressor() const { return compressor_.get(); }

 private:
  struct Keyed {
    torch::Tensor keys, values;  // [B, X, G, D], keys normalised and rotated
  };
  // Products with the inputs, before norm and rotation.
  struct Projected {
    torch::Tensor queries;                  // [B, T, H, D]; undefined unless asked for
    torch::Tensor keys;                     // [B, T, G, D]
    torch::Tensor values;                   // [B, T, G, D]; undefined with tied K/V
    std::vector<torch::Tensor> compressor;  // what the compressor wants, [B, T, ...]
  };

  Projected project(const torch::Tensor& inputs, bool with_queries) const;
  torch::Tensor split_heads(const torch::Tensor& x) const;  // [B, T, heads * D] as [B, T, heads, D]
  torch::Tensor finish_query(const torch::Tensor& queries, const kernels::RopeTable& table) const;
  torch::Tensor finish_key(const torch::Tensor& keys, const kernels::RopeTable& table) const;
  // Entries of the windows of `grid`, which counts from position `first`, of inputs and their
  // products.
  Keyed entries(const torch::Tensor& inputs, const Projected& projected,
                const kernels::ChunkGrid& grid, std::int64_t first,
                const kernels::RopeTable& table) const;
  // Adds the tokens to the cache; returns what their queries, still missing, attend to.
  kernels::Attention extend(const torch::Tensor& inputs, compress::LayerCache& cache,
                            const kernels::RopeTable& table) const;

  ModelConfig config_;
  std::int64_t layer_ = 0;
  bool chunked_ = false;
  bool tied_ = false;
  kernels::ChunkGrid grid_;
  kernels::Recent recent_;
  std::shared_ptr<Weight> q_proj_, k_proj_, v_proj_, o_proj_, q_norm_, k_norm_;
  torch::Tensor sinks_;  // [H]
  std::shared_ptr<compress::Compressor> compressor_;
};

}  // namespace kvphase::model
