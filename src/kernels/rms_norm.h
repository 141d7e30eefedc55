// Root mean square normalisation (Zhang and Sennrich, arXiv 1910.07467), as Qwen3 computes it.
#pragma once

#include <torch/torch.h>

namespace kvphase::kernels {

// y = weight * x / sqrt(mean(x^2) + epsilon) over the last dimension. x [..., D], weight [D]. In
// float at least: narrower types are widened inside.
torch::Tensor rms_norm(const torch::Tensor& x, const torch::Tensor& weight, double epsilon);

}  // namespace kvphase::kernels
