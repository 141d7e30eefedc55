// Trading time for memory: a step of a network whose intermediate values are computed a second time
// in the backward pass instead of being kept (Chen et al., arXiv 1604.06174).
#pragma once

#include <torch/torch.h>

#include <functional>
#include <vector>

namespace kvphase::model {

using TensorFunction = std::function<torch::Tensor(const torch::Tensor&)>;

// function(x), with the same gradients as computed directly, of x and of `parameters` (all that the
// function reads and that want one). Only x is kept. The function must give the same result each
// time. Without gradients asked for: a plain call.
torch::Tensor recomputed(const TensorFunction& function, const torch::Tensor& x,
                         const std::vector<torch::Tensor>& parameters);

}  // namespace kvphase::model
