// Looking into one pass of Transformer::decode(): what every layer saw and gave, and outputs of
// heads replaced at the pass's positions. A look is an argument of the one call that it belongs to,
// so it cannot be left behind in a model. Must not know why somebody looks.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <vector>

#include "kernels/attention.h"

namespace kvphase::model {

// The outputs of some query heads (before the output projection), replaced in some rows of the
// batch at all n positions of the call.
struct HeadEdit {
  std::int64_t first_row = 0, rows = 0;    // of the batch
  std::int64_t first_head = 0, heads = 0;  // query heads
  torch::Tensor values;                    // broadcastable to [rows, n, heads, D]
};

struct LayerLook {
  std::vector<HeadEdit> edits;   // in order; where two meet, the later one holds
  torch::Tensor inputs;          // recorded: [B, n, C], normalised
  kernels::Attention attention;  // recorded: what the queries attend to, cached tokens included
  torch::Tensor outputs;         // recorded: [B, n, H, D], with the edits
};

struct Look {
  std::vector<LayerLook> layers;  // [L]
};

}  // namespace kvphase::model
