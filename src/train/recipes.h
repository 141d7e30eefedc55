// The named training recipes: two sizes, six layouts of the two layers. Knows no tensors.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "train/options.h"

namespace kvphase::train {

struct Recipe {
  std::string name;     // "main-wc"
  std::string meaning;  // one line for help texts
  TrainOptions options;
};

// All of them, small ones first.
//
// Sizes: `small` (width 48, 8 records in 48 tokens) and `main` (width 64, 12 records in 72 tokens).
// Layouts, layer 0 then layer 1: `wc` local window, chunked; `wf` local window, full attention (the
// exact control of wc); `cc` both chunked; `ff` both full (the exact control of cc).
// `family`: the paper's lookup format, 64 records, for the designs of model/presets.h at the small
// shape. It begins with the main size's 12 records in 72 tokens, since nothing learns 64 records
// from the start, and ends with 64 in 216, as many tokens per step throughout.
// `-staggered`: 2 KV heads of half the width on staggered grids; as many cache bytes as the layout
// it is named after.
const std::vector<Recipe>& recipes();

// The options of one; an unknown name is a usage error with the nearest valid one.
TrainOptions recipe(std::string_view name);

}  // namespace kvphase::train
