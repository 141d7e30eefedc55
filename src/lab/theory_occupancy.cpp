#include "lab/theory_occupancy.h"

#include <boost/math/distributions/chi_squared.hpp>
#include <cassert>
#include <cmath>
#include <numeric>

namespace kvphase::lab {

std::vector<double> occupancy(std::int64_t balls, std::int64_t bins) {
  std::vector<double> p(static_cast<std::size_t>(balls) + 1, 0.0);
  p[0] = 1;
  const double n = static_cast<double>(bins);
  for (std::int64_t ball = 0; ball < balls; ++ball) {
    for (std::size_t k = p.size(); k-- > 0;) {
      const double hit = static_cast<double>(k);
      p[k] = p[k] * hit / n + (k > 0 ? p[k - 1] * std::max(0.0, n - hit + 1) / n : 0.0);
    }
  }
  return p;
}

double coverage_of_one(std::int64_t balls, std::int64_t bins) {
  return 1 - std::pow(1 - 1 / static_cast<double>(bins), static_cast<double>(balls));
}

Fit chi_squared_fit(std::span<const std::int64_t> counts, std::span<const double> probabilities) {
  assert(counts.size() == probabilities.size());
  constexpr double kLeast = 5;
  Fit fit;
  fit.n = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  struct Cell {
    double seen = 0, expected = 0;
  };
  std::vector<Cell> cells(1);
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (cells.back().expected >= kLeast) cells.emplace_back();
    cells.back().seen += static_cast<double>(counts[i]);
    cells.back().expected += static_cast<double>(fit.n) * probabilities[i];
  }
  if (cells.size() > 1 && cells.back().expected < kLeast) {
    const Cell small = cells.back();
    cells.pop_back();
    cells.back().seen += small.seen;
    cells.back().expected += small.expected;
  }
  if (cells.size() < 2) {
    fit.reason = "fewer than two cells with an expected count of 5";
    return fit;
  }
  double statistic = 0;
  for (const Cell& cell : cells) {
    statistic += (cell.seen - cell.expected) * (cell.seen - cell.expected) / cell.expected;
  }
  fit.statistic = statistic;
  fit.freedom = std::ssize(cells) - 1;
  const boost::math::chi_squared_distribution<> chi(static_cast<double>(fit.freedom));
  fit.p = boost::math::cdf(boost::math::complement(chi, statistic));
  return fit;
}

}  // namespace kvphase::lab
