// A network as Qwen3 sees it: what another program needs to compute the same function. Full
// attention only; everything that Qwen3 lacks is refused by name. Must not know file formats.
#pragma once

#include <string_view>
#include <vector>

#include "model/checkpoint.h"

namespace kvphase::model {

struct Qwen3Network {
  bool tied = true;                  // the head is the embedding
  std::vector<NamedTensor> weights;  // float32, contiguous, Hugging Face's qwen3 names
};

// Qwen3 has no embedding_scale: the embedding is exported multiplied by it, and a tied head, which
// uses the embedding without the factor, becomes a tensor of its own. Throws a usage error naming
// the layer or the key that Qwen3 cannot express: chunked or local-only attention, no Q/K norm,
// post-norms, attention sinks, RoPE on a part of the dims.
Qwen3Network qwen3_network(const Checkpoint& checkpoint, std::string_view scope);

}  // namespace kvphase::model
