// A recipe's options with a user's changes, and the sizes that follow from them. Knows no tensors.
#pragma once

#include "base/json.h"
#include "train/options.h"

namespace kvphase::train {

// `model` (null: the recipe's) replaces the model, then `overrides` are merged in (JSON merge
// patch). What neither says is fitted:
//   language  with text in bytes: task::lookup_language_in_bytes() in the recipe's sizes
//   model     vocab_size and context_length: the least that language and text need
// Throws a usage error for contradictory options and for text that cannot be read.
TrainOptions options_with(const TrainOptions& recipe, const base::Json& model,
                          const base::Json& overrides);

// What a checkpoint's card says that it was trained with, for training it further: without the
// curriculum and without what that training itself began from.
TrainOptions post_training_of(const base::Json& card_options);

}  // namespace kvphase::train
