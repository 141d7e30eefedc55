#include "kernels/rms_norm.h"

namespace kvphase::kernels {

torch::Tensor rms_norm(const torch::Tensor& x, const torch::Tensor& weight, double epsilon) {
  const bool wide = x.scalar_type() == torch::kDouble;
  const torch::Tensor y = x.to(wide ? torch::kDouble : torch::kFloat);
  const torch::Tensor scale = torch::rsqrt(y.pow(2).mean(-1, true) + epsilon);
  return (y * scale).to(x.scalar_type()) * weight;
}

}  // namespace kvphase::kernels
