#include "kernels/pool.h"

#include <limits>
#include <vector>

#include "kernels/dispatch.h"
#include "kernels/fused.h"

namespace kvphase::kernels {
namespace {

using torch::indexing::Slice;

// Token of every window slot, -1 and less before the sequence: [M, G, W].
torch::Tensor window_tokens(const ChunkGrid& grid, std::int64_t tokens, torch::Device device) {
  const auto heads = static_cast<std::int64_t>(grid.first_end.size());
  const auto options = torch::TensorOptions().dtype(torch::kLong);
  const torch::Tensor entry = torch::arange(grid.completed(tokens), options).view({-1, 1, 1});
  const torch::Tensor first_end = torch::tensor(grid.first_end, options).view({1, heads, 1});
  const torch::Tensor offset = torch::arange(grid.window, options).view({1, 1, -1});
  return (first_end + entry * grid.stride - grid.window + 1 + offset).to(device);
}

// values [B, T, K, G, X] at every window slot under the slot's map: [B, M, G, W, X].
torch::Tensor at_slots(const torch::Tensor& values, const ChunkGrid& grid) {
  const auto options = torch::TensorOptions().dtype(torch::kLong);
  const std::int64_t tokens = values.size(1), maps = values.size(2), heads = values.size(3);
  std::vector<std::int64_t> map;
  for (std::int64_t i = 0; i < grid.window; ++i) map.push_back(map_of_offset(grid, maps, i));
  const torch::Tensor token =
      window_tokens(grid, tokens, values.device()).clamp(0, tokens - 1);  // the rest has weight 0
  const torch::Tensor head = torch::arange(heads, options).view({1, heads, 1});
  return values.index(
      {Slice(), token, torch::tensor(map, options).to(values.device()), head.to(values.device())});
}

}  // namespace

std::int64_t map_of_offset(const ChunkGrid& grid, std::int64_t maps, std::int64_t offset) {
  if (maps == 1) return 0;
  return maps == grid.window ? offset : offset / grid.stride;
}

torch::Tensor gate_weights(const Gate& gate, const ChunkGrid& grid, std::int64_t tokens,
                           const torch::TensorOptions& options) {
  const torch::Tensor missing =
      (window_tokens(grid, tokens, options.device()) < 0).unsqueeze(-1);  // [M, G, W, 1]
  torch::Tensor logits;
  if (gate.logits.defined()) {
    logits = at_slots(gate.logits, grid);
    if (gate.bias.defined()) logits = logits + gate.bias.transpose(0, 1);
  } else {
    logits = torch::zeros(missing.sizes(), options).unsqueeze(0);
  }
  const bool wide = logits.scalar_type() == torch::kDouble;
  return torch::softmax(logits.masked_fill(missing, -std::numeric_limits<double>::infinity()), 3,
                        wide ? torch::kDouble : torch::kFloat)
      .to(logits.scalar_type());
}

torch::Tensor pool_chunks(const Gate& gate, const torch::Tensor& payload, const ChunkGrid& grid) {
  if (use_fused({gate.logits, gate.bias, payload})) return fused_pool_chunks(gate, payload, grid);
  return pool_chunks_plain(gate, payload, grid);
}

torch::Tensor pool_chunks_plain(const Gate& gate, const torch::Tensor& payload,
                                const ChunkGrid& grid) {
  const torch::Tensor weights = gate_weights(gate, grid, payload.size(1), payload.options());
  return (weights * at_slots(payload, grid)).sum(3);
}

}  // namespace kvphase::kernels
