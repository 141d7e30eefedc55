// The flow against solutions that are known and against many small steps.
#include "lab/theory_flow.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/random.h"
#include "lab/theory_model.h"

namespace kvphase::lab {
namespace {

TEST(TheoryFlow, FollowsTheKnownSolutionOfAQuadraticLoss) {
  // L = (u0^2 + 9 u1^2) / 2: u0 = e^-t, u1 = 2 e^-9t.
  const GradientOf gradient_of = [](std::span<const double> u, std::span<double> g) {
    g[0] = u[0];
    g[1] = 9 * u[1];
  };
  int seen = 0;
  const std::vector<double> times = spaced_times(0.01, 3, 7);
  gradient_flow(gradient_of, {1, 2}, times, [&](double t, std::span<const double> u) {
    EXPECT_DOUBLE_EQ(t, times[static_cast<std::size_t>(seen++)]);
    EXPECT_NEAR(u[0], std::exp(-t), 1e-6) << "t = " << t;
    EXPECT_NEAR(u[1], 2 * std::exp(-9 * t), 1e-6) << "t = " << t;
  });
  EXPECT_EQ(seen, 7);
  EXPECT_EQ(times.back(), 3);
}

GradientOf exact_gradient(const TheorySetting& s) {
  return [s](std::span<const double> u, std::span<double> g) {
    const Coefficients p = gates_of(s, u);
    static_loss(s, p, g);
    to_logit_gradient(s, p, g);
  };
}

std::vector<double> small_start(const TheorySetting& s, double scale) {
  base::Random random(11);
  std::vector<double> u(coefficient_count(s));
  for (double& x : u) x = scale * random.normal();
  return u;
}

TEST(TheoryFlow, OfTheModelEqualsManySmallStepsAndTheLossOnlyFalls) {
  const TheorySetting s = {.stride = 4, .heads = 2, .vocabulary = 256, .beta = 2};
  const std::vector<double> start = small_start(s, 0.5);
  const std::vector<double> times = spaced_times(0.5, 60, 40);
  double last = static_loss(s, gates_of(s, start));
  const std::vector<double> flow =
      gradient_flow(exact_gradient(s), start, times, [&](double t, std::span<const double> u) {
        const double loss = static_loss(s, gates_of(s, u));
        EXPECT_LT(loss, last) << "t = " << t;
        last = loss;
      });
  double moved = 0, apart = 0;
  const std::vector<double> euler = descend(exact_gradient(s), start, 1e-3, 60'000);
  for (std::size_t i = 0; i < flow.size(); ++i) {
    moved = std::max(moved, std::abs(flow[i] - start[i]));
    apart = std::max(apart, std::abs(flow[i] - euler[i]));
  }
  fmt::print("to t = 60: logits moved by up to {:.3f}, flow and small steps {:.1e} apart\n", moved,
             apart);
  EXPECT_GT(moved, 0.5);
  EXPECT_LT(apart, 2e-3);  // Euler's method errs by about rate / 2 x the path's curvature
}

TEST(TheoryFlow, LogitsOfAGateKeepTheirSum) {
  // Adding a number to all logits of a gate changes nothing, so the gradient has no such part.
  const TheorySetting s = {.stride = 5, .heads = 2};
  const std::vector<double> start = small_start(s, 0.3);
  const std::vector<double> end =
      gradient_flow(exact_gradient(s), start, std::vector<double>{200}, {});
  for (std::size_t row = 0; row < end.size(); row += 5) {
    double before = 0, after = 0;
    for (std::size_t r = row; r < row + 5; ++r) {
      before += start[r];
      after += end[r];
    }
    EXPECT_NEAR(after, before, 1e-9) << "gate " << row / 5;
  }
}

}  // namespace
}  // namespace kvphase::lab
