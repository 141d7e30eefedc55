#include "stats/sampling.h"

#include <algorithm>
#include <cassert>
#include <cmath>

namespace kvphase::stats {
namespace {

constexpr double kExactDeviation =
    1000;  // beyond this the walk from the mode costs more than it buys

std::int64_t rounded_normal(double mean, double deviation, std::int64_t low, std::int64_t high,
                            base::Random& random) {
  return std::clamp(std::llround(mean + deviation * random.normal()), static_cast<long long>(low),
                    static_cast<long long>(high));
}

// Inversion that walks outwards from the mode, so that the cost is a few standard deviations.
// up(k) = P(k+1)/P(k), down(k) = P(k-1)/P(k).
template <typename Up, typename Down>
std::int64_t walk_from_mode(std::int64_t mode, double p_mode, std::int64_t low, std::int64_t high,
                            Up up, Down down, base::Random& random) {
  double u = random.uniform() - p_mode;
  if (u < 0) return mode;
  std::int64_t above = mode;
  std::int64_t below = mode;
  double p_above = p_mode;
  double p_below = p_mode;
  while (above < high || below > low) {
    if (above < high) {
      p_above *= up(above++);
      u -= p_above;
      if (u < 0) return above;
    }
    if (below > low) {
      p_below *= down(below--);
      u -= p_below;
      if (u < 0) return below;
    }
    if (p_above < 1e-300 && p_below < 1e-300) break;
  }
  return mode;  // rounding left less than 1e-12 of the mass
}

}  // namespace

std::int64_t draw_binomial(std::int64_t n, double p, base::Random& random) {
  assert(n >= 0 && p >= 0 && p <= 1);
  if (n == 0 || p == 0) return 0;
  if (p == 1) return n;
  const double size = static_cast<double>(n);
  const double deviation = std::sqrt(size * p * (1 - p));
  if (deviation > kExactDeviation) return rounded_normal(size * p, deviation, 0, n, random);
  const auto mode = std::min(n, static_cast<std::int64_t>((size + 1) * p));
  const double k = static_cast<double>(mode);
  const double log_p = std::lgamma(size + 1) - std::lgamma(k + 1) - std::lgamma(size - k + 1) +
                       k * std::log(p) + (size - k) * std::log1p(-p);
  const double odds = p / (1 - p);
  return walk_from_mode(
      mode, std::exp(log_p), 0, n,
      [&](std::int64_t x) {
        return odds * static_cast<double>(n - x) / static_cast<double>(x + 1);
      },
      [&](std::int64_t x) {
        return static_cast<double>(x) / (odds * static_cast<double>(n - x + 1));
      },
      random);
}

std::int64_t draw_hypergeometric(std::int64_t total, std::int64_t good, std::int64_t draws,
                                 base::Random& random) {
  assert(0 <= good && good <= total && 0 <= draws && draws <= total);
  const std::int64_t low = std::max<std::int64_t>(0, draws - (total - good));
  const std::int64_t high = std::min(draws, good);
  if (low == high) return low;
  const double n = static_cast<double>(total);
  const double g = static_cast<double>(good);
  const double d = static_cast<double>(draws);
  const double deviation = std::sqrt(d * (g / n) * (1 - g / n) * (n - d) / (n - 1));
  if (deviation > kExactDeviation) return rounded_normal(d * g / n, deviation, low, high, random);
  const auto mode = std::clamp(static_cast<std::int64_t>((d + 1) * (g + 1) / (n + 2)), low, high);
  const double k = static_cast<double>(mode);
  const auto log_choose = [](double a, double b) {
    return std::lgamma(a + 1) - std::lgamma(b + 1) - std::lgamma(a - b + 1);
  };
  const double log_p = log_choose(g, k) + log_choose(n - g, d - k) - log_choose(n, d);
  const std::int64_t bad_left = total - good - draws;
  return walk_from_mode(
      mode, std::exp(log_p), low, high,
      [&](std::int64_t x) {
        return static_cast<double>(good - x) * static_cast<double>(draws - x) /
               (static_cast<double>(x + 1) * static_cast<double>(bad_left + x + 1));
      },
      [&](std::int64_t x) {
        return static_cast<double>(x) * static_cast<double>(bad_left + x) /
               (static_cast<double>(good - x + 1) * static_cast<double>(draws - x + 1));
      },
      random);
}

}  // namespace kvphase::stats
