// Rotary position embedding, rotate-half form (Su et al., RoFormer, arXiv 2104.09864; the pairing
// of dim i with dim i + r/2 as in GPT-NeoX and Qwen3): with angle a = position * base^(-2 i / r),
//   x'_i = x_i cos a - x_{i+r/2} sin a,  x'_{i+r/2} = x_{i+r/2} cos a + x_i sin a,  i < r/2,
// on the first r dims; the others pass unchanged.
#pragma once

#include <torch/torch.h>

#include <cstdint>

namespace kvphase::kernels {

struct RopeTable {
  torch::Tensor cos;  // [P, r/2], undefined when r = 0
  torch::Tensor sin;  // [P, r/2]

  // Rows of the table at positions [...]: [..., r/2].
  RopeTable at(const torch::Tensor& positions) const;
  // With a dimension of 1 for the heads: [..., 1, r/2].
  RopeTable per_head() const;
};

// Angles of positions first..first+count-1, computed in double, stored as options say.
RopeTable rope_table(std::int64_t count, std::int64_t dims, double base,
                     const torch::TensorOptions& options, std::int64_t first = 0);

// x [..., D]; table broadcastable to [..., r/2]. Returns x when the table is empty.
torch::Tensor rope(const torch::Tensor& x, const RopeTable& table);

}  // namespace kvphase::kernels
