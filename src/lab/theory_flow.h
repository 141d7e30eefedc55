// Gradient flow du/dt = -grad L(u), and plain gradient descent beside it.
//
// The flow is integrated by Boost.odeint's Dormand-Prince method of order 5 with an embedded error
// estimate of order 4 (Dormand and Prince 1980): a step is accepted when its estimated error is
// below absolute + relative |u| in every coordinate.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace kvphase::lab {

// Writes the gradient of the loss at `u` into `gradient` (same length).
using GradientOf = std::function<void(std::span<const double> u, std::span<double> gradient)>;

struct FlowOptions {
  double absolute = 1e-8;  // error of a step per coordinate; smaller: more steps
  double relative = 1e-6;
};

// `count` times from first to last, equal factors apart; the last is exact. count >= 2.
std::vector<double> spaced_times(double first, double last, std::int64_t count);

// The flow from `start` at time 0. `see` is called at each of `times`, which rise and are positive.
// Returns the state at the last of them.
std::vector<double> gradient_flow(const GradientOf& gradient_of, std::vector<double> start,
                                  std::span<const double> times,
                                  const std::function<void(double, std::span<const double>)>& see,
                                  const FlowOptions& options = {});

// u -= rate * gradient, `steps` times: with a gradient of fresh prompts each call, plain SGD; with
// the exact gradient, Euler's method for the flow. `see` is called after each step, may be empty.
std::vector<double> descend(
    const GradientOf& gradient_of, std::vector<double> start, double rate, std::int64_t steps,
    const std::function<void(std::int64_t, std::span<const double>)>& see = {});

}  // namespace kvphase::lab
