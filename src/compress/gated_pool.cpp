#include "compress/gated_pool.h"

#include <string>

namespace kvphase::compress {

GatedPool::GatedPool(const GatedPoolOptions& options) : options_(options) {
  keys_ = make_branch("k");
  if (!options_.tied) values_ = make_branch("v");
}

GatedPool::Branch GatedPool::make_branch(const std::string& name) {
  const GatedPoolOptions& o = options_;
  Branch branch;
  if (o.gate_width > 0) {
    branch.gate = register_module(name + "_gate", std::make_shared<Map>());
    const std::int64_t scores = o.kv_heads * o.gate_width;
    branch.gate->weight =
        branch.gate->register_parameter("weight", torch::zeros({o.gate_maps * scores, o.width}));
    if (o.gate_bias) {
      branch.gate->bias = branch.gate->register_parameter("bias", torch::zeros({o.window, scores}));
    }
  }
  if (o.payload_maps > 0) {
    branch.payload = register_module(name + "_payload", std::make_shared<Map>());
    branch.payload->weight = branch.payload->register_parameter(
        "weight", torch::zeros({o.payload_maps * o.kv_heads * o.head_width, o.width}));
  }
  return branch;
}

kernels::Gate GatedPool::gate(const Branch& branch, const torch::Tensor& inputs) const {
  if (!branch.gate) return {};
  const GatedPoolOptions& o = options_;
  kernels::Gate gate;
  gate.logits = torch::linear(inputs, branch.gate->weight)
                    .view({inputs.size(0), inputs.size(1), o.gate_maps, o.kv_heads, o.gate_width});
  if (branch.gate->bias.defined()) {
    gate.bias = branch.gate->bias.view({o.window, o.kv_heads, o.gate_width});
  }
  return gate;
}

torch::Tensor GatedPool::pool(const Branch& branch, const torch::Tensor& inputs,
                              const torch::Tensor& exact, const kernels::ChunkGrid& grid) const {
  const GatedPoolOptions& o = options_;
  const torch::Tensor payload =
      branch.payload
          ? torch::linear(inputs, branch.payload->weight)
                .view({inputs.size(0), inputs.size(1), o.payload_maps, o.kv_heads, o.head_width})
          : exact.unsqueeze(2);
  return kernels::pool_chunks(gate(branch, inputs), payload, grid);
}

Entries GatedPool::compress(const torch::Tensor& inputs, const torch::Tensor& keys,
                            const torch::Tensor& values, const kernels::ChunkGrid& grid) {
  Entries entries;
  entries.keys = pool(keys_, inputs, keys, grid);
  if (!options_.tied) entries.values = pool(values_, inputs, values, grid);
  return entries;
}

torch::Tensor GatedPool::weights(const torch::Tensor& inputs, const kernels::ChunkGrid& grid,
                                 bool of_values) {
  return kernels::gate_weights(gate(of_values ? values_ : keys_, inputs), grid, inputs.size(1),
                               inputs.options());
}

}  // namespace kvphase::compress
