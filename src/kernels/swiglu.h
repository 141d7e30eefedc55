// The gated activation of the MLP (Shazeer, arXiv 2002.05202): silu(gate) * up.
#pragma once

#include <torch/torch.h>

namespace kvphase::kernels {

// x [..., 2F]: gate, then up. Returns [..., F].
torch::Tensor swiglu(const torch::Tensor& x);
torch::Tensor swiglu_plain(const torch::Tensor& x);

}  // namespace kvphase::kernels
