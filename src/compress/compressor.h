// What a chunk compressor does: it turns the tokens of every window into one key and one value. It
// must not know positions' meaning, attention or the cache.
#pragma once

#include <torch/torch.h>

#include "kernels/chunk_grid.h"

namespace kvphase::compress {

// Before Q/K norm and RoPE, which attention applies to entries and exact tokens alike.
struct Entries {
  torch::Tensor keys;    // [B, M, G, D], M = grid.completed(T)
  torch::Tensor values;  // [B, M, G, D]; undefined with tied K/V
};

class Compressor : public torch::nn::Module {
 public:
  // inputs [B, T, C] are the layer's normalised inputs, keys and values [B, T, G, D] the exact
  // tokens' projections of them (values undefined with tied K/V). grid counts tokens from inputs'
  // first one. Entry j of head g may depend on the tokens of its window only; a head with fewer
  // than M entries has meaningless last ones.
  virtual Entries compress(const torch::Tensor& inputs, const torch::Tensor& keys,
                           const torch::Tensor& values, const kernels::ChunkGrid& grid) = 0;
};

}  // namespace kvphase::compress
