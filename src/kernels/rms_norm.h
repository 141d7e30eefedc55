// Root mean square normalisation (Zhang and Sennrich, arXiv 1910.07467), as Qwen3 computes it,
// alone and followed by RoPE.
#pragma once

#include <torch/torch.h>

#include "kernels/rope.h"

namespace kvphase::kernels {

// y = weight * x / sqrt(mean(x^2) + epsilon) over the last dimension. x [..., D], weight [D]. In
// float at least: narrower types are widened inside.
torch::Tensor rms_norm(const torch::Tensor& x, const torch::Tensor& weight, double epsilon);
torch::Tensor rms_norm_plain(const torch::Tensor& x, const torch::Tensor& weight, double epsilon);

// rope(rms_norm(x)) of x [B, X, heads, D]; without the norm when weight is undefined. table is
// broadcastable to [B, X, heads, r/2].
torch::Tensor norm_rope(const torch::Tensor& x, const torch::Tensor& weight, double epsilon,
                        const RopeTable& table);
torch::Tensor norm_rope_plain(const torch::Tensor& x, const torch::Tensor& weight, double epsilon,
                              const RopeTable& table);

}  // namespace kvphase::kernels
