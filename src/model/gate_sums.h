// A network's gates, read from its layers' inputs; what the sums mean: model/gate_measures.h.
#pragma once

#include <torch/torch.h>

#include <vector>

#include "model/gate_measures.h"
#include "model/transformer.h"

namespace kvphase::model {

// Layer by layer, head by head, keys before values; none where why_no_gates(config) says so.
std::vector<GatePlace> gates_of(const Transformer& network);

// Of B sequences of T tokens: [B, gate.sums()], double, on the CPU. inputs: [B, T, C] of every
// layer, as Transformer::prefill gives them from an empty state. Windows that are cut at the
// sequence's start are left out; zeros where no whole one is complete.
torch::Tensor gate_sums(const Transformer& network, const GatePlace& gate,
                        const std::vector<torch::Tensor>& inputs);

}  // namespace kvphase::model
