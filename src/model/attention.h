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

// Rows from which on joining matrices for one product costs less than several products do.
inline constexpr std::int64_t kRowsToJoin = 64;

// x [B, T, C] at rows [B, Q] int64: [B, Q, C].
torch::Tensor gather_rows(const torch::Tensor& x, const torch::Tensor& rows);

// RoPE of `count` positions from `first` on.
struct RopeSpan {
  std::int64_t first = 0, count = 0;
  kernels::RopeTable table;  // [count, r/2]; undefined without RoPE

  bool covers(std::int64_t begin, std::int64_t end) const {
    return begin >= first && end <= first + count;
  }
  // Of positions begin..begin+n-1, for rows [n, heads, D].
  kernels::RopeTable at(std::int64_t begin, std::int64_t n) const;
};

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

  // Memory for so many tokens is taken at once where what is kept grows with them; 0: as it grows.
  compress::LayerCache start(std::int64_t batch, std::int64_t reserved_tokens = 0) const;
  // inputs [B, n, C] of the next n tokens; rope: of their positions and the earlier ones of
  // incomplete windows. look: null, or what to record and to replace in this call.
  torch::Tensor decode(const torch::Tensor& inputs, compress::LayerCache& cache,
                       const RopeSpan& rope, LayerLook* look = nullptr);
  // The same cache afterwards, without asking for the tokens' own outputs.
  void absorb(const torch::Tensor& inputs, compress::LayerCache& cache, const RopeSpan& rope);

  const kernels::ChunkGrid& grid() const { return grid_; }  // of chunked layers
  // Windows `later` tokens later than the configuration says, until another call; for sequences
  // that are begun afterwards.
  void shift_grid(std::int64_t later);
  // Null unless the layer is chunked.
  const compress::Compressor* compressor() const { return compressor_.get(); }

 private:
  // Products with the inputs, before norm and rotation.
  struct Projected {
    torch::Tensor queries;                  // [B, T, H, D]; undefined unless asked for
    torch::Tensor keys;                     // [B, T, G, D]
    torch::Tensor values;                   // [B, T, G, D]; undefined with tied K/V
    std::vector<torch::Tensor> compressor;  // what the compressor wants, [B, T, ...], if asked for
  };

  Projected project(const torch::Tensor& inputs, bool with_queries, bool with_compressor) const;
  torch::Tensor split_heads(const torch::Tensor& x) const;  // [B, T, heads * D] as [B, T, heads, D]
  torch::Tensor finish_query(const torch::Tensor& queries, const kernels::RopeTable& table) const;
  torch::Tensor finish_key(const torch::Tensor& keys, const kernels::RopeTable& table) const;
  // Entries of the windows of `grid`, which counts from position `first`, of inputs and their
  // products; keys normalised and rotated.
  compress::Entries entries(const torch::Tensor& inputs, const Projected& projected,
                            const kernels::ChunkGrid& grid, std::int64_t first,
                            const RopeSpan& rope) const;
  // Adds the tokens to the cache; returns what their queries, still missing, attend to.
  kernels::Attention extend(const torch::Tensor& inputs, compress::LayerCache& cache,
                            const RopeSpan& rope) const;
  // Adds the entries of windows that end among the n tokens that follow `before`. waiting
  // [B, P + n, C]: the inputs since the earliest of them began, the n tokens' own last. All at once
  // from their products, or for n <= S one by one.
  void add_entries(const torch::Tensor& waiting, const Projected& projected, std::int64_t before,
                   compress::LayerCache& cache, const RopeSpan& rope) const;
  void add_windows(const torch::Tensor& waiting, std::int64_t before, compress::LayerCache& cache,
                   const RopeSpan& rope) const;
  // Drops what no later token needs.
  void forget(compress::LayerCache& cache) const;

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
