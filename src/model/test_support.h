// For the model's tests only: random configurations, and an independent implementation of the whole
// network in scalar loops over doubles. It shares no code with the model beyond the configuration.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "model/config.h"
#include "model/transformer.h"

namespace kvphase::model::testing {

// A small valid configuration; every option takes every value sooner or later. The last layer is
// chunked.
ModelConfig random_config(base::Random& random);

// In double, every parameter moved away from its start (also norms, biases and sinks).
std::shared_ptr<Transformer> random_model(const ModelConfig& config, std::uint64_t seed);

// tokens [B, T] drawn from the vocabulary.
torch::Tensor random_tokens(const ModelConfig& config, std::int64_t batch, std::int64_t tokens,
                            base::Random& random);

// Logits [T][V] of one sequence.
std::vector<std::vector<double>> naive_logits(Transformer& model,
                                              const std::vector<std::int64_t>& tokens);

// What two tensors of logits differ by, with the place: empty when within the tolerance.
std::string difference(const torch::Tensor& got, const torch::Tensor& expected, double tolerance);

}  // namespace kvphase::model::testing
