#include "lab/theory_flow.h"

#include <boost/numeric/odeint/integrate/integrate_times.hpp>
#include <boost/numeric/odeint/stepper/generation/generation_dense_output_runge_kutta.hpp>
#include <boost/numeric/odeint/stepper/generation/generation_runge_kutta_dopri5.hpp>
#include <boost/numeric/odeint/stepper/generation/make_dense_output.hpp>
#include <boost/numeric/odeint/stepper/runge_kutta_dopri5.hpp>
#include <cassert>
#include <cmath>

namespace kvphase::lab {

namespace odeint = boost::numeric::odeint;
using State = std::vector<double>;

std::vector<double> spaced_times(double first, double last, std::int64_t count) {
  assert(count >= 2 && first > 0 && last > first);
  std::vector<double> times;
  for (std::int64_t i = 0; i < count; ++i) {
    const double share = static_cast<double>(i) / static_cast<double>(count - 1);
    times.push_back(i + 1 == count ? last : first * std::pow(last / first, share));
  }
  return times;
}

std::vector<double> gradient_flow(const GradientOf& gradient_of, std::vector<double> start,
                                  std::span<const double> times,
                                  const std::function<void(double, std::span<const double>)>& see,
                                  const FlowOptions& options) {
  assert(!times.empty() && times.front() > 0);
  std::vector<double> stops = {0};
  stops.insert(stops.end(), times.begin(), times.end());
  const auto downhill = [&](const State& u, State& du, double) {
    gradient_of(u, du);
    for (double& x : du) x = -x;
  };
  const auto observe = [&](const State& u, double t) {
    if (t > 0 && see) see(t, u);
  };
  const double first_step = times.front() < 1 ? times.front() : 1.0;
  odeint::integrate_times(odeint::make_dense_output(options.absolute, options.relative,
                                                    odeint::runge_kutta_dopri5<State>()),
                          downhill, start, stops.begin(), stops.end(), first_step, observe);
  return start;
}

std::vector<double> descend(const GradientOf& gradient_of, std::vector<double> start, double rate,
                            std::int64_t steps,
                            const std::function<void(std::int64_t, std::span<const double>)>& see) {
  std::vector<double> gradient(start.size());
  for (std::int64_t step = 1; step <= steps; ++step) {
    gradient_of(start, gradient);
    for (std::size_t i = 0; i < start.size(); ++i) start[i] -= rate * gradient[i];
    if (see) see(step, start);
  }
  return start;
}

}  // namespace kvphase::lab
