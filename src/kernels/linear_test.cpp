// Linear maps by oneDNN against torch's own, and in bfloat16 within the bound of its rounding.
#include "kernels/linear.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/time.h>

#include <csignal>

#include "base/signal_stack.h"
#include "kernels/dispatch.h"

namespace kvphase::kernels {
namespace {

using torch::Tensor;

struct Results {
  Tensor y, dx, dweight;
};

using Product = Tensor (*)(const Tensor& x, const Tensor& weight);

Results differentiate(const Tensor& x, const Tensor& weight, const Tensor& dy,
                      Product product = linear) {
  const Tensor own_x = x.clone().requires_grad_(true), own = weight.clone().requires_grad_(true);
  const Tensor y = product(own_x, own);
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

// Every token by the matrix of its phase, one at a time.
Tensor by_phase_one_by_one(const Tensor& x, const Tensor& weight) {
  std::vector<Tensor> y;
  for (std::int64_t t = 0; t < x.size(1); ++t) {
    y.push_back(torch::matmul(x.select(1, t), weight[t % weight.size(0)].t()));
  }
  return torch::stack(y, 1);
}

TEST(Linear, ByPhaseEqualsTheExactProductsAndItsGradients) {
  torch::manual_seed(4);
  for (const auto& [batch, tokens, inputs, outputs] : kShapes) {
    for (const std::int64_t phases : {1, 3, 8}) {
      const Tensor x = torch::randn({batch, tokens, inputs}),
                   weight = torch::randn({phases, outputs, inputs}),
                   dy = torch::randn({batch, tokens, outputs});
      const Results exact = differentiate(x.to(torch::kDouble), weight.to(torch::kDouble),
                                          dy.to(torch::kDouble), by_phase_one_by_one);
      const Results got = differentiate(x, weight, dy, linear_by_phase);
      const Results plain = differentiate(x.to(torch::kDouble), weight.to(torch::kDouble),
                                          dy.to(torch::kDouble), linear_by_phase);
      const std::string what =
          fmt::format("{} x {} x {} by {}, {} phases", batch, tokens, inputs, outputs, phases);
      for (const auto& [results, limit] : {std::pair(&got, 1e-6), std::pair(&plain, 1e-13)}) {
        EXPECT_EQ(results->y.sizes(), exact.y.sizes()) << what;
        EXPECT_LT(gap(results->y, exact.y), limit * static_cast<double>(inputs)) << what;
        EXPECT_LT(gap(results->dx, exact.dx), limit * static_cast<double>(outputs)) << what;
        EXPECT_LT(gap(results->dweight, exact.dweight),
                  limit * static_cast<double>(batch * tokens + 1))
            << what;
      }
    }
  }
}

TEST(Linear, FewRowsEqualTheExactProductsWhateverIsBesideThem) {
  torch::manual_seed(5);
  const torch::NoGradGuard no_grad;
  for (const std::int64_t width : {1, 8, 31, 64, 100}) {
    for (const std::int64_t outputs : {1, 4, 7, 96}) {
      const Tensor x = torch::randn({15, width}), weight = torch::randn({outputs, width});
      const Tensor exact =
          torch::matmul(x.to(torch::kDouble), weight.to(torch::kDouble).t()).to(torch::kFloat);
      const Tensor all = kernels::linear(x, weight);
      EXPECT_LT(gap(all, exact), 1e-6 * static_cast<double>(width)) << width << ", " << outputs;
      for (const std::int64_t rows : {1, 2, 3, 6}) {
        EXPECT_TRUE(torch::equal(kernels::linear(x.narrow(0, 15 - rows, rows), weight),
                                 all.narrow(0, 15 - rows, rows)))
            << rows << " rows of " << width << ", " << outputs;
      }
      const torch::AutoGradMode gradients(true);
      EXPECT_TRUE(torch::equal(kernels::linear(x, weight.clone().requires_grad_(true)), all))
          << "with gradients, " << width << ", " << outputs;
    }
  }
}

TEST(Linear, FewRowsOfALargeMatrixAreTheSameOnTwoThreads) {
  torch::manual_seed(6);
  const torch::NoGradGuard no_grad;
  const Tensor x = torch::randn({3, 500}), weight = torch::randn({1003, 500});
  const int before = torch::get_num_threads();
  torch::set_num_threads(1);
  const Tensor one = kernels::linear(x, weight);
  torch::set_num_threads(2);
  const Tensor two = kernels::linear(x, weight);
  torch::set_num_threads(before);
  EXPECT_TRUE(torch::equal(one, two));
  EXPECT_LT(gap(one, torch::matmul(x, weight.t())), 1e-3);
}

// Without a stack for handlers this dies within a few signals (base/signal_stack.h).
TEST(Linear, SignalsInTheMiddleOfAProductHarmNothing) {
  static volatile std::sig_atomic_t signals;
  base::use_signal_stack();
  struct sigaction action = {}, before = {};
  action.sa_handler = [](int) { signals = signals + 1; };
  action.sa_flags = SA_ONSTACK;
  sigaction(SIGALRM, &action, &before);
  const itimerval often = {{0, 200}, {0, 200}};
  setitimer(ITIMER_REAL, &often, nullptr);
  torch::manual_seed(7);
  const Tensor x = torch::randn({640, 96}), weight = torch::randn({96, 96});
  const Tensor first = kernels::linear(x, weight);
  bool same = true;
  for (int i = 0; signals < 300 || i < 300; ++i) {
    same = same && torch::equal(kernels::linear(x, weight), first);
  }
  const itimerval never = {};
  setitimer(ITIMER_REAL, &never, nullptr);
  sigaction(SIGALRM, &before, nullptr);
  EXPECT_TRUE(same);
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
  const auto expect_rounded = [](const Tensor& x, const Tensor& weight, const Tensor& dy,
                                 Product product, const std::string& what) {
    const auto wide = [](const Tensor& tensor) { return tensor.to(torch::kDouble); };
    const Results exact = differentiate(wide(x), wide(weight), wide(dy), product);
    const Results sizes = differentiate(wide(x.abs()), wide(weight.abs()), wide(dy.abs()), product);
    Results got;
    {
      const BFloat16Products rounded;
      got = differentiate(x, weight, dy, product);
    }
    const auto worst = [](const Tensor& a, const Tensor& b, const Tensor& size) {
      return ((a - b).abs() / size).max().item<double>();
    };
    constexpr double kBound = 1.01 / 128;
    EXPECT_LT(worst(got.y, exact.y, sizes.y), kBound) << what;
    EXPECT_LT(worst(got.dx, exact.dx, sizes.dx), kBound) << what;
    EXPECT_LT(worst(got.dweight, exact.dweight, sizes.dweight), kBound) << what;
    for (const double error : {worst(got.y, exact.y, sizes.y), worst(got.dx, exact.dx, sizes.dx),
                               worst(got.dweight, exact.dweight, sizes.dweight)}) {
      EXPECT_GT(error, 1e-5) << "rounded at all? " << what;
    }
    EXPECT_LT(gap(differentiate(x, weight, dy, product).y, exact.y), 1e-4)
        << "float32 again afterwards, " << what;
  };
  for (const auto& [batch, tokens, inputs, outputs] : kShapes) {
    if (batch * tokens < 16) continue;  // in float32
    const Tensor x = torch::randn({batch, tokens, inputs}),
                 dy = torch::randn({batch, tokens, outputs});
    const std::string what = fmt::format("{} x {} x {} by {}", batch, tokens, inputs, outputs);
    expect_rounded(x, torch::randn({outputs, inputs}), dy, linear, what);
    expect_rounded(x, torch::randn({4, outputs, inputs}), dy, linear_by_phase, what + " by phase");
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
