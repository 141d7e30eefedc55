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

std::vector<torch::Tensor> GatedPool::projections() const {
  std::vector<torch::Tensor> matrices;
  for (const Branch* branch : {&keys_, &values_}) {
    if (branch->gate) matrices.push_back(branch->gate->weight);
    if (branch->payload) matrices.push_back(branch->payload->weight);
  }
  return matrices;
}

kernels::Gate GatedPool::gate(const Branch& branch, const torch::Tensor& logits) const {
  const GatedPoolOptions& o = options_;
  kernels::Gate gate;
  gate.logits =
      logits.reshape({logits.size(0), logits.size(1), o.gate_maps, o.kv_heads, o.gate_width});
  if (branch.gate->bias.defined()) {
    gate.bias = branch.gate->bias.view({o.window, o.kv_heads, o.gate_width});
  }
  return gate;
}

Entries GatedPool::compress(const std::vector<torch::Tensor>& projected, const torch::Tensor& keys,
                            const torch::Tensor& values, const kernels::ChunkGrid& grid) const {
  const GatedPoolOptions& o = options_;
  std::size_t next = 0;
  const auto pool = [&](const Branch& branch, const torch::Tensor& exact) {
    kernels::Gate gates;
    if (branch.gate) gates = gate(branch, projected.at(next++));
    torch::Tensor payload = exact.unsqueeze(2);
    if (branch.payload) {
      payload = projected.at(next++).reshape(
          {exact.size(0), exact.size(1), o.payload_maps, o.kv_heads, o.head_width});
    }
    return kernels::pool_chunks(gates, payload, grid);
  };
  Entries entries;
  entries.keys = pool(keys_, keys);
  if (!o.tied) entries.values = pool(values_, values);
  return entries;
}

torch::Tensor GatedPool::weights(const torch::Tensor& inputs, const kernels::ChunkGrid& grid,
                                 bool of_values) const {
  const Branch& branch = of_values ? values_ : keys_;
  const kernels::Gate gates =
      branch.gate ? gate(branch, torch::linear(inputs, branch.gate->weight)) : kernels::Gate{};
  return kernels::gate_weights(gates, grid, inputs.size(1), inputs.options());
}

}  // namespace kvphase::compress
