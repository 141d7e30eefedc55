#include "kernels/swiglu.h"

#include "kernels/dispatch.h"
#include "kernels/fused.h"

namespace kvphase::kernels {

torch::Tensor swiglu(const torch::Tensor& x) {
  return use_fused({x}) ? fused_swiglu(x) : swiglu_plain(x);
}

torch::Tensor swiglu_plain(const torch::Tensor& x) {
  const std::int64_t width = x.size(-1) / 2;
  return torch::silu(x.narrow(-1, 0, width)) * x.narrow(-1, width, width);
}

}  // namespace kvphase::kernels
