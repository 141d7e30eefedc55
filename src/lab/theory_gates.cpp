#include "lab/theory_gates.h"

#include <algorithm>
#include <cassert>
#include <cmath>

#include "lab/theory_heads.h"

namespace kvphase::lab {
namespace {

struct Shape {
  std::size_t S, rows, width, chunk;  // rows = 2 m gates; width = N + 1; chunk = rows * S
};

Shape shape_of(const GatedSetting& s) {
  const auto S = static_cast<std::size_t>(s.task.stride);
  const auto rows = static_cast<std::size_t>(2 * s.task.heads);
  return {S, rows, static_cast<std::size_t>(s.task.vocabulary + 1), rows * S};
}

}  // namespace

std::size_t weight_count(const GatedSetting& s) {
  const Shape shape = shape_of(s);
  return shape.chunk * shape.width;
}

std::vector<double> random_weights(const GatedSetting& s, double scale, base::Random& random) {
  std::vector<double> weights(weight_count(s));
  for (double& w : weights) w = scale * random.normal();
  return weights;
}

std::vector<double> static_weights(const GatedSetting& s, std::span<const double> logits) {
  assert(s.kappa > 0 && logits.size() == coefficient_count(s.task));
  std::vector<double> weights(weight_count(s), 0.0);
  for (std::size_t i = 0; i < logits.size(); ++i) {
    weights[i * shape_of(s).width] = logits[i] / std::sqrt(s.kappa);
  }
  return weights;
}

std::vector<double> gates_of_prompts(const GatedSetting& s, std::span<const double> weights,
                                     std::span<const TokenId> prompts) {
  const Shape shape = shape_of(s);
  const double common = std::sqrt(s.kappa);
  std::vector<double> logits;
  logits.reserve(prompts.size() * shape.rows);
  for (std::size_t chunk = 0; chunk < prompts.size(); chunk += shape.S) {
    for (std::size_t i = 0; i < shape.chunk; ++i) {
      const double* w = weights.data() + i * shape.width;
      logits.push_back(common * w[0] + w[1 + prompts[chunk + i % shape.S]]);
    }
  }
  return gates_of(s.task, logits);
}

double sampled_loss(const GatedSetting& s, std::span<const double> weights,
                    std::span<const TokenId> prompts, std::span<double> gradient) {
  const Shape shape = shape_of(s);
  const double common = std::sqrt(s.kappa);
  const std::size_t prompt_tokens = static_cast<std::size_t>(s.task.chunks) * shape.S;
  const std::size_t size = prompt_tokens * shape.rows;  // coefficients of one prompt
  const std::size_t count = prompts.size() / prompt_tokens;
  const std::vector<double> gates = gates_of_prompts(s, weights, prompts);
  std::fill(gradient.begin(), gradient.end(), 0.0);
  std::vector<double> by_logit(gradient.empty() ? 0 : size);
  double loss = 0;
  for (std::size_t prompt = 0; prompt < count; ++prompt) {
    const auto own = std::span(gates).subspan(prompt * size, size);
    loss += chunkwise_loss(s.task, own, by_logit) / static_cast<double>(count);
    if (gradient.empty()) continue;
    to_logit_gradient(s.task, own, by_logit);
    const TokenId* tokens = prompts.data() + prompt * prompt_tokens;
    for (std::size_t i = 0; i < size; ++i) {
      const std::size_t chunk = i / shape.chunk, within = i % shape.chunk;
      const double g = by_logit[i] / static_cast<double>(count);
      double* w = gradient.data() + within * shape.width;
      w[0] += common * g;
      w[1 + tokens[chunk * shape.S + within % shape.S]] += g;
    }
  }
  return loss;
}

GateSummary summarise_gates(const GatedSetting& s, std::span<const double> weights,
                            std::span<const TokenId> prompts) {
  const Shape shape = shape_of(s);
  const std::vector<double> gates = gates_of_prompts(s, weights, prompts);
  const double chunks = static_cast<double>(gates.size() / shape.chunk);
  GateSummary summary = {.mean = Coefficients(shape.chunk, 0.0),
                         .per_window = std::vector<double>(shape.rows, 0.0)};
  for (std::size_t i = 0; i < gates.size(); ++i) summary.mean[i % shape.chunk] += gates[i] / chunks;
  for (std::size_t row = 0; row < gates.size() / shape.S; ++row) {
    summary.per_window[row % shape.rows] +=
        effective_offsets(std::span(gates).subspan(row * shape.S, shape.S)) / chunks;
  }
  return summary;
}

}  // namespace kvphase::lab
