#include "train/adamw.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

namespace kvphase::train {
namespace {

std::vector<torch::Tensor> leaves() {
  torch::manual_seed(1);
  return {torch::randn({3, 4}).requires_grad_(), torch::randn({5}).requires_grad_()};
}

TEST(FlatParameters, ShareTheirMemoryWithTheNetworks) {
  std::vector<torch::Tensor> parameters = leaves();
  const std::vector<torch::Tensor> before = {parameters[0].detach().clone(),
                                             parameters[1].detach().clone()};
  FlatParameters flat(parameters);
  EXPECT_EQ(flat.values.numel(), 17);
  EXPECT_TRUE(torch::equal(parameters[0], before[0]));
  EXPECT_TRUE(torch::equal(parameters[1], before[1]));
  flat.values.zero_();
  EXPECT_EQ(parameters[0].abs().sum().item<float>(), 0);
  EXPECT_EQ(parameters[1].abs().sum().item<float>(), 0);
  EXPECT_TRUE(parameters[0].requires_grad() && parameters[0].is_leaf());
}

TEST(AdamW, FollowsTorchsOwnOptimizer) {
  const AdamWOptions options{.beta1 = 0.8, .beta2 = 0.95, .epsilon = 1e-6, .weight_decay = 0.1};
  FlatParameters flat(leaves());
  AdamWState state{.first = torch::zeros_like(flat.values),
                   .second = torch::zeros_like(flat.values)};
  std::vector<torch::Tensor> reference = leaves();
  torch::optim::AdamW theirs(reference, torch::optim::AdamWOptions(0.03)
                                            .betas({options.beta1, options.beta2})
                                            .eps(options.epsilon)
                                            .weight_decay(options.weight_decay));
  for (int step = 0; step < 50; ++step) {
    for (std::size_t i = 0; i < reference.size(); ++i) {
      const torch::Tensor gradient = torch::randn_like(reference[i]);
      reference[i].mutable_grad() = gradient;
      flat.gradient_views[i].copy_(gradient);
    }
    theirs.step();
    adamw_step(flat, state, 0.03, options);
    for (std::size_t i = 0; i < reference.size(); ++i) {
      const auto difference = (reference[i] - flat.leaves[i]).abs().max().item<double>();
      ASSERT_LT(difference, 2e-6) << "parameter " << i << " after step " << step + 1;
    }
  }
  EXPECT_EQ(state.step, 50);
}

TEST(ClipGradients, ScalesOnlyWhatIsTooLong) {
  FlatParameters flat(leaves());
  flat.gradients.fill_(3);
  const double norm = 3 * std::sqrt(17.0);
  EXPECT_NEAR(clip_gradients(flat, 0), norm, 1e-5);
  EXPECT_NEAR(clip_gradients(flat, 100), norm, 1e-5);
  EXPECT_EQ(flat.gradients[0].item<float>(), 3);
  EXPECT_NEAR(clip_gradients(flat, 2), norm, 1e-5);
  EXPECT_NEAR(flat.gradients.norm().item<double>(), 2, 1e-6);
}

TEST(ClipGradients, ReportsANormThatIsNotFinite) {
  FlatParameters flat(leaves());
  flat.gradients[3] = NAN;
  EXPECT_TRUE(std::isnan(clip_gradients(flat, 1)));
  flat.gradients[3] = INFINITY;
  EXPECT_TRUE(std::isinf(clip_gradients(flat, 1)));
}

}  // namespace
}  // namespace kvphase::train
