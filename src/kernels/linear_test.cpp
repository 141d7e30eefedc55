// Linear maps by oneDNN against torch's own, and in bfloat16 within the bound of its rounding.
#include "kernels/linear.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "kernels/dispatch.h"

namespace kvphase::kernels {
namespace {

using torch::Tensor;

struct Results {
  Tensor y, dx, dweight;
};

Results differentiate(const Tensor& x, const Tensor& weight, const Tensor& dy) {
  const Tensor own_x = x.clone().requires_grad_(true), own = weight.clone().requires_grad_(true);
  const Tensor y = kernels::linear(own_x, own);
  y.backward(dy);
  return {y.detach(), own_x.grad(), own.grad()};
}

double gap(const Tensor& a, const Tensor& b) { return (a - b).abs().max().item<double>(); }

struct Shape {
  std::int64_t batch, tokens, inputs, outputs;
};
constexpr Shape kShapes[] = {{1, 1, 8, 5},   {2, 7, 8, 3},     {2, 8, 64, 192},
                             {3, 33, 48, 1}, {4, 97, 64, 256}, {1, 300, 128, 40}};

TEST(Linear, EqualsTheExactProductsAndItsGradients) {
  torch::manual_seed(1);
  for (const auto& [batch, tokens, inputs, outputs] : kShapes) {
    const Tensor x = torch::randn({batch, tokens, inputs}),
                 weight = torch::randn({outputs, inputs}),
                 dy = torch::randn({batch, tokens, outputs});
    const Results got = differentiate(x, weight, dy);
    const Results exact =
        differentiate(x.to(torch::kDouble), weight.to(torch::kDouble), dy.to(torch::kDouble));
    const std::string what = fmt::format("{} x {} x {} by {}", batch, tokens, inputs, outputs);
    EXPECT_EQ(got.y.sizes(), exact.y.sizes()) << what;
    EXPECT_LT(gap(got.y, exact.y), 1e-6 * static_cast<double>(inputs)) << what;
    EXPECT_LT(gap(got.dx, exact.dx), 1e-6 * static_cast<double>(outputs)) << what;
    EXPECT_LT(gap(got.dweight, exact.dweight), 1e-6 * static_cast<double>(batch * tokens)) << what;
  }
}

TEST(Linear, ReadsViewsAndLeavesOtherTypesToTorch) {
  torch::manual_seed(2);
  const Tensor wide = torch::randn({40, 2, 24}), weight = torch::randn({16, 10}).t();
  const Tensor view = wide.transpose(0, 1).narrow(2, 3, 16);  // [2, 40, 16]
  EXPECT_LT(gap(kernels::linear(view, weight), torch::matmul(view, weight.t())), 1e-5);
  const Tensor twice = kernels::linear(view.to(torch::kDouble), weight.to(torch::kDouble));
  EXPECT_EQ(twice.scalar_type(), torch::kDouble);
}

// A number rounded to 8 significant bits is within 2^-8 of itself: a product of two within
// 2^-7 + 2^-16.
TEST(Linear, BFloat16ProductsStayWithinTheRoundingOfTheirFactors) {
  if (!has_bfloat16_products()) GTEST_SKIP() << "this processor does not multiply bfloat16 numbers";
  torch::manual_seed(3);
  for (const auto& [batch, tokens, inputs, outputs] : kShapes) {
    if (batch * tokens < 16) continue;  // left to torch
    const Tensor x = torch::randn({batch, tokens, inputs}),
                 weight = torch::randn({outputs, inputs}),
                 dy = torch::randn({batch, tokens, outputs});
    const Results exact =
        differentiate(x.to(torch::kDouble), weight.to(torch::kDouble), dy.to(torch::kDouble));
    const Results sizes = differentiate(x.abs().to(torch::kDouble), weight.abs().to(torch::kDouble),
                                        dy.abs().to(torch::kDouble));
    Results got;
    {
      const BFloat16Products rounded;
      got = differentiate(x, weight, dy);
    }
    const auto worst = [](const Tensor& a, const Tensor& b, const Tensor& size) {
      return ((a - b).abs() / size).max().item<double>();
    };
    constexpr double kBound = 1.01 / 128;
    EXPECT_LT(worst(got.y, exact.y, sizes.y), kBound);
    EXPECT_LT(worst(got.dx, exact.dx, sizes.dx), kBound);
    EXPECT_LT(worst(got.dweight, exact.dweight, sizes.dweight), kBound);
    EXPECT_GT(worst(got.y, exact.y, sizes.y), 1e-5) << "rounded at all?";
    EXPECT_GT(worst(got.dx, exact.dx, sizes.dx), 1e-5) << "rounded at all?";
    EXPECT_GT(worst(got.dweight, exact.dweight, sizes.dweight), 1e-5) << "rounded at all?";
    EXPECT_LT(gap(differentiate(x, weight, dy).y, exact.y), 1e-4) << "float32 again afterwards";
  }
}

TEST(Linear, GradientsOfGradientsAreLeftToThePlainKernels) {
  const auto second_order = [] {
    const Tensor x = torch::randn({20, 8}).requires_grad_(true), weight = torch::randn({4, 8});
    const Tensor sum = kernels::linear(x, weight).pow(3).sum();
    const Tensor first = torch::autograd::grad({sum}, {x}, {}, true, true)[0];
    first.pow(2).sum().backward();
  };
  EXPECT_THROW(second_order(), c10::Error);
  const PlainKernels plain;
  EXPECT_NO_THROW(second_order());
}

}  // namespace
}  // namespace kvphase::kernels
