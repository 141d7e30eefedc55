#include "compress/gated_pool.h"

#include <algorithm>
#include <cassert>
#include <string>

#include "kernels/linear.h"

namespace kvphase::compress {
namespace {

// Offsets that a token has in windows of one head, at most.
std::int64_t visits(std::int64_t window, std::int64_t stride) {
  return (window + stride - 1) / stride;
}

// [S, V, G]: row of a matrix [W, G, ...] that tokens of each class mod S need for visit v: token t
// is at offset i = (t + W - 1 - first_end[g]) mod S + v S of windows of head g. Offsets beyond W
// are read by no window; any row does.
torch::Tensor rows_of_classes(const kernels::ChunkGrid& grid) {
  const auto heads = static_cast<std::int64_t>(grid.first_end.size());
  std::vector<std::int64_t> rows;
  for (std::int64_t token = 0; token < grid.stride; ++token) {
    for (std::int64_t visit = 0; visit < visits(grid.window, grid.stride); ++visit) {
      for (std::int64_t head = 0; head < heads; ++head) {
        const std::int64_t end = grid.first_end[static_cast<std::size_t>(head)] % grid.stride;
        const std::int64_t first = (token + grid.window - 1 - end + grid.stride) % grid.stride;
        rows.push_back((first + visit * grid.stride) % grid.window * heads + head);
      }
    }
  }
  return torch::tensor(rows, torch::TensorOptions().dtype(torch::kLong));
}

// inputs [B, T, C] times matrices [W*G*X, C] where their offsets meet the tokens: [B, T, V*G*X]
// each, V = visits(W, S), as matrices of V maps would give it: offset i is visit i / S.
std::vector<torch::Tensor> multiply_by_offset(const torch::Tensor& inputs,
                                              const std::vector<torch::Tensor>& matrices,
                                              const kernels::ChunkGrid& grid) {
  const torch::Tensor rows = rows_of_classes(grid).to(inputs.device());
  const auto heads = static_cast<std::int64_t>(grid.first_end.size());
  std::vector<torch::Tensor> chosen;
  std::vector<std::int64_t> sizes;
  for (const torch::Tensor& matrix : matrices) {
    chosen.push_back(matrix.view({grid.window * heads, -1})
                         .index_select(0, rows)
                         .view({grid.stride, -1, inputs.size(2)}));  // [S, V*G*X, C]
    sizes.push_back(chosen.back().size(1));
  }
  return kernels::linear_by_phase(inputs, torch::cat(chosen, 1)).split_with_sizes(sizes, -1);
}

}  // namespace

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
    if (branch->gate && !by_offset(options_.gate_maps)) matrices.push_back(branch->gate->weight);
    if (branch->payload && !by_offset(options_.payload_maps)) {
      matrices.push_back(branch->payload->weight);
    }
  }
  return matrices;
}

bool GatedPool::by_offset(std::int64_t maps) const {
  return maps == options_.window && visits(options_.window, options_.stride) < maps;
}

kernels::Gate GatedPool::gate(const Branch& branch, const torch::Tensor& logits,
                              std::int64_t maps) const {
  const GatedPoolOptions& o = options_;
  kernels::Gate gate;
  gate.logits = logits.reshape({logits.size(0), logits.size(1), maps, o.kv_heads, o.gate_width});
  if (branch.gate->bias.defined()) {
    gate.bias = branch.gate->bias.view({o.window, o.kv_heads, o.gate_width});
  }
  return gate;
}

Entries GatedPool::compress(const torch::Tensor& inputs,
                            const std::vector<torch::Tensor>& projected, const torch::Tensor& keys,
                            const torch::Tensor& values, const kernels::ChunkGrid& grid) const {
  const GatedPoolOptions& o = options_;
  assert(grid.window == o.window && grid.stride == o.stride);
  std::vector<torch::Tensor> matrices;
  for (const Branch* branch : {&keys_, &values_}) {
    if (branch->gate && by_offset(o.gate_maps)) matrices.push_back(branch->gate->weight);
    if (branch->payload && by_offset(o.payload_maps)) matrices.push_back(branch->payload->weight);
  }
  std::vector<torch::Tensor> apart;
  if (!matrices.empty()) apart = multiply_by_offset(inputs, matrices, grid);

  std::size_t next = 0, next_apart = 0;
  // The products with the next matrix of so many maps, and as how many maps they are laid out.
  const auto take = [&](std::int64_t maps) {
    return by_offset(maps) ? std::pair(apart.at(next_apart++), visits(o.window, o.stride))
                           : std::pair(projected.at(next++), maps);
  };
  const auto pool = [&](const Branch& branch, const torch::Tensor& exact) {
    kernels::Gate gates;
    if (branch.gate) {
      const auto [logits, maps] = take(o.gate_maps);
      gates = gate(branch, logits, maps);
    }
    torch::Tensor payload = exact.unsqueeze(2);
    if (branch.payload) {
      const auto [product, maps] = take(o.payload_maps);
      payload = product.reshape({exact.size(0), exact.size(1), maps, o.kv_heads, o.head_width});
    }
    return kernels::pool_chunks(gates, payload, grid);
  };
  Entries entries;
  entries.keys = pool(keys_, keys);
  if (!o.tied) entries.values = pool(values_, values);
  return entries;
}

torch::Tensor GatedPool::at_offsets(const torch::Tensor& inputs, const torch::Tensor& matrix,
                                    std::int64_t maps, std::int64_t first_head,
                                    std::int64_t heads) const {
  const GatedPoolOptions& o = options_;
  const std::int64_t tokens = inputs.size(1), first_offset = o.window - tokens;
  const torch::Tensor rows = matrix.view({maps, o.kv_heads, -1, o.width})
                                 .narrow(1, first_head, heads)
                                 .flatten(1, 2);  // [maps, heads*X, C]
  const auto split = [&](const torch::Tensor& x) { return x.unflatten(-1, {heads, -1}); };
  if (maps == o.window && maps > 1) {
    const torch::Tensor own = rows.narrow(0, first_offset, tokens);
    return split(torch::bmm(inputs.transpose(0, 1), own.transpose(1, 2)).transpose(0, 1));
  }
  std::vector<torch::Tensor> parts;  // of the offsets that share a map
  for (std::int64_t token = 0; token < tokens;) {
    const std::int64_t map = maps == 1 ? 0 : (first_offset + token) / o.stride;
    const std::int64_t end =
        maps == 1 ? tokens : std::min(tokens, (map + 1) * o.stride - first_offset);
    parts.push_back(kernels::linear(inputs.narrow(1, token, end - token), rows[map]));
    token = end;
  }
  return split(parts.size() == 1 ? parts[0] : torch::cat(parts, 1));
}

Entries GatedPool::compress_window(const torch::Tensor& inputs, std::int64_t first_head,
                                   std::int64_t heads, const torch::Tensor& key_matrix,
                                   const torch::Tensor& value_matrix) const {
  const GatedPoolOptions& o = options_;
  const std::int64_t tokens = inputs.size(1);
  const auto pool = [&](const Branch& branch, const torch::Tensor& matrix) {
    const torch::Tensor payload =
        branch.payload
            ? at_offsets(inputs, branch.payload->weight, o.payload_maps, first_head, heads)
            : kernels::linear(inputs, matrix).unflatten(-1, {heads, -1});
    if (!branch.gate) return payload.mean(1, true);
    torch::Tensor logits = at_offsets(inputs, branch.gate->weight, o.gate_maps, first_head, heads);
    if (branch.gate->bias.defined()) {
      logits = logits + branch.gate->bias.view({o.window, o.kv_heads, o.gate_width})
                            .narrow(0, o.window - tokens, tokens)
                            .narrow(1, first_head, heads);
    }
    const bool wide = logits.scalar_type() == torch::kDouble;
    const torch::Tensor weights =
        torch::softmax(logits, 1, wide ? torch::kDouble : torch::kFloat).to(logits.scalar_type());
    return (weights * payload).sum(1, true);
  };
  Entries entries;
  entries.keys = pool(keys_, key_matrix);
  if (!o.tied) entries.values = pool(values_, value_matrix);
  return entries;
}

torch::Tensor GatedPool::weights(const torch::Tensor& inputs, const kernels::ChunkGrid& grid,
                                 bool of_values) const {
  const Branch& branch = of_values ? values_ : keys_;
  const kernels::Gate gates =
      branch.gate ? gate(branch, kernels::linear(inputs, branch.gate->weight), options_.gate_maps)
                  : kernels::Gate{};
  return kernels::gate_weights(gates, grid, inputs.size(1), inputs.options());
}

}  // namespace kvphase::compress
