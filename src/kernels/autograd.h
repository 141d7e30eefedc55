// Running a kernel's autograd function.
#pragma once

#include <torch/torch.h>

#include <utility>

namespace kvphase::kernels {

// F::apply, or where gradients are off, F::forward alone: a node of the graph takes microseconds,
// which is what a decoding step of a small network mostly consists of.
template <class F, class... Arguments>
torch::Tensor apply(Arguments&&... arguments) {
  if (torch::GradMode::is_enabled()) return F::apply(std::forward<Arguments>(arguments)...);
  torch::autograd::AutogradContext unused;
  return F::forward(&unused, std::forward<Arguments>(arguments)...);
}

}  // namespace kvphase::kernels
