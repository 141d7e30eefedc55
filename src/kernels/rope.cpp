#include "kernels/rope.h"

#include <cmath>

namespace kvphase::kernels {

RopeTable RopeTable::at(const torch::Tensor& positions) const {
  if (!cos.defined()) return {};
  return {.cos = cos.index({positions}), .sin = sin.index({positions})};
}

RopeTable RopeTable::per_head() const {
  if (!cos.defined()) return {};
  return {.cos = cos.unsqueeze(-2), .sin = sin.unsqueeze(-2)};
}

RopeTable rope_table(std::int64_t count, std::int64_t dims, double base,
                     const torch::TensorOptions& options, std::int64_t first) {
  if (dims == 0) return {};
  const auto wide = torch::TensorOptions().dtype(torch::kDouble).device(options.device());
  const torch::Tensor pair = torch::arange(dims / 2, wide);
  const torch::Tensor frequency =
      torch::exp(pair * (-2.0 * std::log(base) / static_cast<double>(dims)));
  const torch::Tensor angle = torch::outer(torch::arange(first, first + count, wide), frequency);
  return {.cos = angle.cos().to(options), .sin = angle.sin().to(options)};
}

torch::Tensor rope(const torch::Tensor& x, const RopeTable& table) {
  if (!table.cos.defined()) return x;
  const std::int64_t half = table.cos.size(-1), width = x.size(-1);
  const torch::Tensor a = x.narrow(-1, 0, half), b = x.narrow(-1, half, half);
  const torch::Tensor rotated_a = a * table.cos - b * table.sin;
  const torch::Tensor rotated_b = b * table.cos + a * table.sin;
  if (2 * half == width) return torch::cat({rotated_a, rotated_b}, -1);
  return torch::cat({rotated_a, rotated_b, x.narrow(-1, 2 * half, width - 2 * half)}, -1);
}

}  // namespace kvphase::kernels
