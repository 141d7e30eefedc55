#include "model/gate_sums.h"

#include "compress/gated_pool.h"

namespace kvphase::model {
namespace {

using torch::Tensor;

const compress::GatedPool* pool_of(const Transformer& network, std::int64_t layer) {
  return dynamic_cast<const compress::GatedPool*>(network.attention(layer).compressor());
}

// The first window of a head that is not cut at the sequence's start.
std::int64_t first_whole(const kernels::ChunkGrid& grid, std::size_t head) {
  std::int64_t entry = 0;
  while (grid.end(head, entry) - grid.window + 1 < 0) ++entry;
  return entry;
}

}  // namespace

std::vector<GatePlace> gates_of(const Transformer& network) {
  std::vector<GatePlace> gates;
  const ModelConfig& config = network.config();
  if (!why_no_gates(config).empty()) return gates;
  for (std::int64_t layer = 0; layer < config.layers; ++layer) {
    if (pool_of(network, layer) == nullptr) continue;
    const kernels::ChunkGrid& grid = network.attention(layer).grid();
    for (std::int64_t head = 0; head < config.kv_heads; ++head) {
      for (const bool of_values : {false, true}) {
        if (of_values && config.chunk.tied_kv) continue;
        GatePlace gate{.layer = layer,
                       .head = head,
                       .of_values = of_values,
                       .window = grid.window,
                       .channels = config.chunk.gate == GateKind::kVector ? config.head_width : 1};
        const std::int64_t begin =
            grid.first_end[static_cast<std::size_t>(head)] - grid.window + 1;  // may be negative
        for (std::int64_t i = 0; i < grid.window; ++i) {
          gate.phase_of_offset.push_back(((begin + i) % grid.stride + grid.stride) % grid.stride);
        }
        gates.push_back(std::move(gate));
      }
    }
  }
  return gates;
}

Tensor gate_sums(const Transformer& network, const GatePlace& gate,
                 const std::vector<Tensor>& inputs) {
  const torch::NoGradGuard no_grad;
  const Tensor& input = inputs.at(static_cast<std::size_t>(gate.layer));
  const kernels::ChunkGrid& grid = network.attention(gate.layer).grid();
  const auto head = static_cast<std::size_t>(gate.head);
  const std::int64_t batch = input.size(0);
  const std::int64_t first = first_whole(grid, head);
  const std::int64_t count = grid.completed(head, input.size(1)) - first;
  if (count < 1) return torch::zeros({batch, gate.sums()}, torch::kDouble);
  const Tensor own = pool_of(network, gate.layer)
                         ->weights(input, grid, gate.of_values)  // [B or 1, M, G, W, E]
                         .select(2, gate.head)
                         .narrow(1, first, count)
                         .to(torch::kDouble)
                         .expand({batch, count, gate.window, -1});  // [B, M', W, E]
  const Tensor entropy = -torch::special::xlogy(own, own).sum(2);   // [B, M', E]
  const Tensor effective = entropy.exp().mean(2).sum(1);            // [B]
  const Tensor mass = own.sum(1).transpose(1, 2).flatten(1);        // [B, E * W]
  const Tensor windows = torch::full_like(effective, static_cast<double>(count));
  return torch::cat({mass, effective.unsqueeze(1), windows.unsqueeze(1)}, 1).cpu().contiguous();
}

}  // namespace kvphase::model
