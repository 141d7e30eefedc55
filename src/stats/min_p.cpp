#include "stats/min_p.h"

#include <algorithm>
#include <boost/math/special_functions/gamma.hpp>
#include <cmath>

namespace kvphase::stats {
namespace {

constexpr double kTie = 1e-9;

double count_as_large(const std::vector<double>& sorted, double x) {
  const double limit = x - kTie * std::abs(x);
  return static_cast<double>(sorted.end() - std::lower_bound(sorted.begin(), sorted.end(), limit));
}

}  // namespace

MinP min_p(std::span<const double> observed, std::span<const double> null) {
  const std::size_t candidates = observed.size();
  MinP result;
  if (candidates == 0) return result;
  const std::size_t draws = null.size() / candidates;
  const double size = static_cast<double>(draws) + 1;
  std::vector<double> smallest(draws, 1.0);
  std::vector<double> sorted(draws + 1);
  for (std::size_t c = 0; c < candidates; ++c) {
    for (std::size_t b = 0; b < draws; ++b) sorted[b] = null[b * candidates + c];
    sorted[draws] = observed[c];  // the observation is one draw of the null
    std::ranges::sort(sorted);
    result.raw.push_back(count_as_large(sorted, observed[c]) / size);
    for (std::size_t b = 0; b < draws; ++b) {
      smallest[b] = std::min(smallest[b], count_as_large(sorted, null[b * candidates + c]) / size);
    }
  }
  std::ranges::sort(smallest);
  for (std::size_t c = 0; c < candidates; ++c) {
    const auto as_small =
        std::upper_bound(smallest.begin(), smallest.end(), result.raw[c]) - smallest.begin();
    result.adjusted.push_back((1 + static_cast<double>(as_small)) / size);
  }
  return result;
}

double log_upper_chi_squared(double x, double df) {
  const double a = df / 2;
  const double y = x / 2;
  if (y <= 0) return 0;
  if (y < a + 600) {
    const double q = boost::math::gamma_q(a, y);
    if (q > 1e-280) return std::log(q);
  }
  // Gamma(a, y) = y^(a-1) e^-y (1 + (a-1)/y + (a-1)(a-2)/y^2 + ...), for y well above a.
  double sum = 1;
  double term = 1;
  for (int k = 1; k < 60; ++k) {
    const double next = term * (a - k) / y;
    if (next == 0 || std::abs(next) >= std::abs(term) || std::abs(next) < 1e-16) break;
    term = next;
    sum += term;
  }
  return (a - 1) * std::log(y) - y + std::log(sum) - std::lgamma(a);
}

}  // namespace kvphase::stats
