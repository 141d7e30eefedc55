// What a chunk compressor does: it turns the tokens of every window into one key and one value. It
// must not know positions' meaning, attention or the cache.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <vector>

#include "kernels/chunk_grid.h"

namespace kvphase::compress {

// Before Q/K norm and RoPE, which attention applies to entries and exact tokens alike.
struct Entries {
  torch::Tensor keys;    // [B, M, G, D], M = grid.completed(T)
  torch::Tensor values;  // [B, M, G, D]; undefined with tied K/V
};

class Compressor : public torch::nn::Module {
 public:
  // Matrices [n_i, C] that compress() wants all of the layer's normalised inputs multiplied with:
  // attention does it together with its own projections, in one product.
  virtual std::vector<torch::Tensor> projections() const = 0;

  // inputs [B, T, C]: the layer's normalised inputs. projected holds [B, T, n_i] in the order of
  // projections(); keys and values [B, T, G, D] are the
  // exact tokens' own projections (values undefined with tied K/V). grid counts tokens from the
  // first one given. Entry j of head g may depend on the tokens of its window only; a head with
  // fewer than M entries has meaningless last ones.
  virtual Entries compress(const torch::Tensor& inputs, const std::vector<torch::Tensor>& projected,
                           const torch::Tensor& keys, const torch::Tensor& values,
                           const kernels::ChunkGrid& grid) const = 0;

  // The entry of one window of `heads` KV heads from first_head on, as compress() would give it:
  // [B, 1, heads, D]. inputs [B, w, C]: the window's last w <= W tokens, all that it has (w < W
  // where it was cut at token 0). The matrices [heads D, C] are these heads' rows of the exact
  // tokens' projections (the value's undefined with tied K/V). For decoding, without gradients.
  virtual Entries compress_window(const torch::Tensor& inputs, std::int64_t first_head,
                                  std::int64_t heads, const torch::Tensor& key_matrix,
                                  const torch::Tensor& value_matrix) const = 0;
};

}  // namespace kvphase::compress
