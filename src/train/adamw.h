// AdamW on all parameters as one vector: a handful of passes per step however many tensors there
// are. Knows no schedule and no network.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <vector>

namespace kvphase::train {

// A network's parameters moved into one contiguous tensor (they become views of `values`), and room
// for their gradients. P = number of scalars.
struct FlatParameters {
  torch::Tensor values;                       // [P]
  torch::Tensor gradients;                    // [P]
  std::vector<torch::Tensor> leaves;          // the network's parameters
  std::vector<torch::Tensor> gradient_views;  // of `gradients`, one per leaf, in its shape

  // Parameters must be float leaves on one device, of one dtype.
  explicit FlatParameters(std::vector<torch::Tensor> parameters);
};

// What an optimiser must remember between steps.
struct AdamWState {
  torch::Tensor first;   // [P] running mean of gradients
  torch::Tensor second;  // [P] running mean of squared gradients
  std::int64_t step = 0;
};

struct AdamWOptions {
  double beta1 = 0.9;
  double beta2 = 0.98;
  double epsilon = 1e-8;
  double weight_decay = 0;
};

// Adam with decoupled weight decay (Kingma and Ba 2015; Loshchilov and Hutter 2019):
//   m <- b1 m + (1-b1) g,  v <- b2 v + (1-b2) g^2,
//   x <- x - lr * decay * x - lr * (m / (1-b1^t)) / (sqrt(v / (1-b2^t)) + epsilon).
void adamw_step(FlatParameters& parameters, AdamWState& state, double learning_rate,
                const AdamWOptions& options);

// Scales the gradients so that their Euclidean norm is at most max_norm (0: leaves them); returns
// the norm before, which may be infinite or NaN (then they are left as they are).
double clip_gradients(FlatParameters& parameters, double max_norm);

}  // namespace kvphase::train
