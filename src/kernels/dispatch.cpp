#include "kernels/dispatch.h"

namespace kvphase::kernels {
namespace {

thread_local bool plain_only = false;

}  // namespace

PlainKernels::PlainKernels() : before_(plain_only) { plain_only = true; }

PlainKernels::~PlainKernels() { plain_only = before_; }

bool use_fused(std::initializer_list<torch::Tensor> tensors) {
  if (plain_only) return false;
  auto type = c10::ScalarType::Undefined;
  for (const torch::Tensor& tensor : tensors) {
    if (!tensor.defined()) continue;
    if (!tensor.is_cpu()) return false;
    if (type == c10::ScalarType::Undefined) type = tensor.scalar_type();
    if (tensor.scalar_type() != type) return false;
  }
  return type == torch::kFloat || type == torch::kDouble;
}

}  // namespace kvphase::kernels
