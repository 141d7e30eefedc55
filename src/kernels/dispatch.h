// Which of two implementations runs: the fused loops (fused.h) for float and double on the CPU,
// else the plain composition of tensor operations, which also serves gradients of gradients.
#pragma once

#include <torch/torch.h>

#include <initializer_list>

namespace kvphase::kernels {

// While one lives, this thread uses the plain compositions only.
class PlainKernels {
 public:
  PlainKernels();
  ~PlainKernels();
  PlainKernels(const PlainKernels&) = delete;
  PlainKernels& operator=(const PlainKernels&) = delete;

 private:
  bool before_;
};

// True iff all defined tensors are on the CPU, of one type that the loops know, and no PlainKernels
// lives.
bool use_fused(std::initializer_list<torch::Tensor> tensors);

}  // namespace kvphase::kernels
