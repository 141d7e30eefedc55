#include "train/adamw.h"

#include <cassert>
#include <cmath>

namespace kvphase::train {

FlatParameters::FlatParameters(std::vector<torch::Tensor> parameters)
    : leaves(std::move(parameters)) {
  assert(!leaves.empty());
  const torch::NoGradGuard no_grad;
  std::vector<torch::Tensor> pieces;
  for (const torch::Tensor& leaf : leaves) pieces.push_back(leaf.detach().flatten());
  values = torch::cat(pieces);
  gradients = torch::zeros_like(values);
  std::int64_t offset = 0;
  for (torch::Tensor& leaf : leaves) {
    const std::int64_t size = leaf.numel();
    leaf.set_data(values.narrow(0, offset, size).view(leaf.sizes()));
    gradient_views.push_back(gradients.narrow(0, offset, size).view(leaf.sizes()));
    offset += size;
  }
}

void adamw_step(FlatParameters& parameters, AdamWState& state, double learning_rate,
                const AdamWOptions& options) {
  const torch::NoGradGuard no_grad;
  const torch::Tensor& gradient = parameters.gradients;
  ++state.step;
  const auto t = static_cast<double>(state.step);
  const double correction1 = 1 - std::pow(options.beta1, t);
  const double correction2 = 1 - std::pow(options.beta2, t);
  if (options.weight_decay != 0) {
    parameters.values.mul_(1 - learning_rate * options.weight_decay);
  }
  state.first.mul_(options.beta1).add_(gradient, 1 - options.beta1);
  state.second.mul_(options.beta2).addcmul_(gradient, gradient, 1 - options.beta2);
  const torch::Tensor root =
      torch::sqrt(state.second).mul_(1 / std::sqrt(correction2)).add_(options.epsilon);
  parameters.values.addcdiv_(state.first, root, -learning_rate / correction1);
}

double clip_gradients(FlatParameters& parameters, double max_norm) {
  const torch::NoGradGuard no_grad;
  const double norm = parameters.gradients.norm().item<double>();
  if (max_norm > 0 && norm > max_norm && std::isfinite(norm)) {
    parameters.gradients.mul_(max_norm / norm);
  }
  return norm;
}

}  // namespace kvphase::train
