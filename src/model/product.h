// Products of decoding steps, whose rows are few: what costs is reading the matrices.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <vector>

#include "kernels/linear.h"

namespace kvphase::model {

// x [..., C] times matrix [n, C] transposed: [..., n]. One row goes to BLAS as a vector: of the
// same library (OpenBLAS 0.3.21) the product of a matrix of one row reads the matrix at a third of
// the rate, and starts more than a microsecond later.
inline torch::Tensor product(const torch::Tensor& x, const torch::Tensor& matrix) {
  const std::int64_t width = matrix.size(1);
  if (x.numel() != width) return kernels::linear(x, matrix);
  std::vector<std::int64_t> shape = x.sizes().vec();
  shape.back() = matrix.size(0);
  return torch::mv(matrix, x.reshape({width})).view(shape);
}

}  // namespace kvphase::model
