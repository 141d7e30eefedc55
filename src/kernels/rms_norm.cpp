#include "kernels/rms_norm.h"

#include "kernels/dispatch.h"
#include "kernels/fused.h"

namespace kvphase::kernels {

torch::Tensor rms_norm(const torch::Tensor& x, const torch::Tensor& weight, double epsilon) {
  if (use_fused({x, weight})) return fused_norm_rope(x, weight, epsilon, {});
  return rms_norm_plain(x, weight, epsilon);
}

torch::Tensor rms_norm_plain(const torch::Tensor& x, const torch::Tensor& weight, double epsilon) {
  const bool wide = x.scalar_type() == torch::kDouble;
  const torch::Tensor y = x.to(wide ? torch::kDouble : torch::kFloat);
  const torch::Tensor scale = torch::rsqrt(y.pow(2).mean(-1, true) + epsilon);
  return (y * scale).to(x.scalar_type()) * weight;
}

torch::Tensor norm_rope(const torch::Tensor& x, const torch::Tensor& weight, double epsilon,
                        const RopeTable& table) {
  if (use_fused({x, weight, table.cos})) return fused_norm_rope(x, weight, epsilon, table);
  return norm_rope_plain(x, weight, epsilon, table);
}

torch::Tensor norm_rope_plain(const torch::Tensor& x, const torch::Tensor& weight, double epsilon,
                              const RopeTable& table) {
  return rope(weight.defined() ? rms_norm_plain(x, weight, epsilon) : x, table);
}

}  // namespace kvphase::kernels
