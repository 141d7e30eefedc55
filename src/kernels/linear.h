// Matrix products of the network's linear maps, with their gradients, by oneDNN on the CPU (on the
// sizes of this project's models 5 to 25% faster than OpenBLAS), and of few rows as fast as the
// matrix can be read (few_rows.h).
#pragma once

#include <torch/torch.h>

namespace kvphase::kernels {

// y = x W^T: x [..., C], weight [N, C], y [..., N]. Another device or type is left to
// torch::linear.
torch::Tensor linear(const torch::Tensor& x, const torch::Tensor& weight);

// The same with a matrix of its own for every position mod S: y[b, t] = W[t mod S] x[b, t], for x
// [B, T, C], weight [S, N, C], y [B, T, N].
torch::Tensor linear_by_phase(const torch::Tensor& x, const torch::Tensor& weight);

// While one lives, this thread's float32 products of 16 rows and more are of numbers rounded to
// bfloat16 (8 significant bits: a relative error of at most 2^-8 per factor), summed in float32; so
// are the products of their gradients, whenever those are made. Throws an environment error where
// the processor has no instructions for it.
class BFloat16Products {
 public:
  BFloat16Products();
  ~BFloat16Products();
  BFloat16Products(const BFloat16Products&) = delete;
  BFloat16Products& operator=(const BFloat16Products&) = delete;

 private:
  bool before_;
};

bool has_bfloat16_products();  // does this processor?

}  // namespace kvphase::kernels
