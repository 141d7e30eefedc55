// The fused CPU versions of the kernels, with their gradients; callers use the functions of
// norm_rope.h, swiglu.h, pool.h and attention.h, which choose. Float or double on the CPU only.
// Gradients of gradients are refused: use PlainKernels (dispatch.h).
// Every reduction has a fixed order: results depend neither on threads nor on timing.
#pragma once

#include <torch/torch.h>

#include "kernels/attention.h"
#include "kernels/pool.h"
#include "kernels/rope.h"

namespace kvphase::kernels {

torch::Tensor fused_norm_rope(const torch::Tensor& x, const torch::Tensor& weight, double epsilon,
                              const RopeTable& table);
torch::Tensor fused_swiglu(const torch::Tensor& gate_and_up);
torch::Tensor fused_pool_chunks(const Gate& gate, const torch::Tensor& payload,
                                const ChunkGrid& grid);
torch::Tensor fused_attend(const Attention& attention);

}  // namespace kvphase::kernels
