#include "stats/min_p.h"

#include <algorithm>
#include <boost/math/special_functions/gamma.hpp>
#include <cmath>
#include <numeric>

namespace kvphase::stats {
namespace {

constexpr double kTie = 1e-9;

double count_as_large(const std::vector<double>& sorted, double x) {
  const double limit = x - kTie * std::abs(x);
  return static_cast<double>(sorted.end() - std::lower_bound(sorted.begin(), sorted.end(), limit));
}

// How extreme a draw is for its most extreme candidate: smaller p first, then the larger statistic
// relative to that candidate's mean over all draws.
struct Extremity {
  double p = 1;
  double ratio = 0;
};

bool at_least_as_extreme(const Extremity& a, const Extremity& b) {
  return a.p < b.p || (a.p == b.p && a.ratio >= b.ratio * (1 - kTie));
}

}  // namespace

MinP min_p(std::span<const double> observed, std::span<const double> null) {
  const std::size_t candidates = observed.size();
  MinP result;
  if (candidates == 0) return result;
  const std::size_t draws = null.size() / candidates;
  const double size = static_cast<double>(draws) + 1;
  std::vector<Extremity> of_draw(draws);
  std::vector<Extremity> of_observed;
  std::vector<double> sorted(draws + 1);
  for (std::size_t c = 0; c < candidates; ++c) {
    for (std::size_t b = 0; b < draws; ++b) sorted[b] = null[b * candidates + c];
    sorted[draws] = observed[c];  // the observation is one draw of the null
    std::ranges::sort(sorted);
    const double mean = std::reduce(sorted.begin(), sorted.end()) / size;
    const auto extremity = [&](double x) {
      return Extremity{.p = count_as_large(sorted, x) / size, .ratio = mean > 0 ? x / mean : 0};
    };
    of_observed.push_back(extremity(observed[c]));
    result.raw.push_back(of_observed.back().p);
    for (std::size_t b = 0; b < draws; ++b) {
      const Extremity here = extremity(null[b * candidates + c]);
      if (at_least_as_extreme(here, of_draw[b])) of_draw[b] = here;
    }
  }
  for (std::size_t c = 0; c < candidates; ++c) {
    const auto as_extreme = std::ranges::count_if(
        of_draw, [&](const Extremity& x) { return at_least_as_extreme(x, of_observed[c]); });
    result.adjusted.push_back((1 + static_cast<double>(as_extreme)) / size);
  }
  return result;
}

MinP min_p_exact(std::span<const double> observed, std::span<const double> null,
                 std::span<const double> probability) {
  const std::size_t candidates = observed.size();
  const std::size_t rows = probability.size();
  MinP result;
  std::vector<Extremity> of_row(rows);
  std::vector<Extremity> of_observed;
  std::vector<std::size_t> order(rows);
  for (std::size_t c = 0; c < candidates; ++c) {
    const auto value = [&](std::size_t b) { return null[b * candidates + c]; };
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::sort(order, {}, value);
    std::vector<double> sorted(rows);
    std::vector<double> above(rows + 1);  // probability of this row and all later ones
    double mean = 0;
    for (std::size_t k = rows; k > 0; --k) {
      sorted[k - 1] = value(order[k - 1]);
      above[k - 1] = above[k] + probability[order[k - 1]];
      mean += probability[order[k - 1]] * sorted[k - 1];
    }
    const auto extremity = [&](double x) {
      const auto at = std::ranges::lower_bound(sorted, x - kTie * std::abs(x));
      return Extremity{.p = above[static_cast<std::size_t>(at - sorted.begin())],
                       .ratio = mean > 0 ? x / mean : 0};
    };
    of_observed.push_back(extremity(observed[c]));
    result.raw.push_back(std::min(1.0, of_observed.back().p));
    for (std::size_t b = 0; b < rows; ++b) {
      const Extremity here = extremity(value(b));
      if (at_least_as_extreme(here, of_row[b])) of_row[b] = here;
    }
  }
  for (std::size_t c = 0; c < candidates; ++c) {
    double p = 0;
    for (std::size_t b = 0; b < rows; ++b) {
      const double tie = kTie * of_observed[c].p;  // sums of the same numbers in another order
      if (of_row[b].p < of_observed[c].p - tie ||
          (of_row[b].p <= of_observed[c].p + tie &&
           of_row[b].ratio >= of_observed[c].ratio * (1 - kTie))) {
        p += probability[b];
      }
    }
    result.adjusted.push_back(std::min(1.0, p));
  }
  return result;
}

bool undecided(double p, std::int64_t draws, double level) {
  constexpr double kZ = 3.29;  // two-sided 0.999 of a normal
  return std::abs(p - level) <= kZ * std::sqrt(p * (1 - p) / static_cast<double>(draws));
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
