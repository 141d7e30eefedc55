#include "stats/spread.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

namespace kvphase::stats {

PhaseSpread phase_spread(const PhaseMatrix& matrix) {
  PhaseSpread result{.items = static_cast<std::int64_t>(matrix.items())};
  const std::size_t p = matrix.phases;
  if (matrix.items() < 2 || p < 2) {
    result.reason = "fewer than two items with all phases, or one phase";
    return result;
  }
  const double n = static_cast<double>(matrix.items());
  const double phases = static_cast<double>(p);
  std::vector<double> mean(p);
  std::vector<double> item_mean;
  for (std::size_t i = 0; i < matrix.items(); ++i) {
    const auto row = matrix.row(i);
    for (std::size_t g = 0; g < p; ++g) mean[g] += row[g] / n;
    item_mean.push_back(std::accumulate(row.begin(), row.end(), 0.0) / phases);
  }
  const double grand = std::accumulate(mean.begin(), mean.end(), 0.0) / phases;
  double residual = 0;
  for (std::size_t i = 0; i < matrix.items(); ++i) {
    for (std::size_t g = 0; g < p; ++g) {
      const double r = matrix.row(i)[g] - item_mean[i] - mean[g] + grand;
      residual += r * r;
    }
  }
  double between = 0;
  for (const double m : mean) between += (m - grand) * (m - grand);
  const double variance = residual / ((n - 1) * (phases - 1)) / n;
  result.standard_error = std::sqrt(variance);
  result.sd = std::sqrt(std::max(0.0, between / (phases - 1) - variance));
  if (p <= 3) {
    result.reason = "shrinkage needs more than three phases";
    return result;
  }
  result.shrinkage = between > 0 ? std::max(0.0, 1 - (phases - 3) * variance / between) : 0.0;
  for (const double m : mean) result.shrunk.push_back(grand + *result.shrinkage * (m - grand));
  return result;
}

double fisher_g_p_value(double g, std::int64_t frequencies) {
  const double m = static_cast<double>(frequencies);
  double sum = 0;
  for (std::int64_t j = 1; j <= frequencies; ++j) {
    const double x = static_cast<double>(j);
    const double base = 1 - x * g;
    if (base <= 0) break;
    const double log_term =
        std::lgamma(m + 1) - std::lgamma(x + 1) - std::lgamma(m - x + 1) + (m - 1) * std::log(base);
    sum += (j % 2 == 1 ? 1 : -1) * std::exp(log_term);
  }
  return std::clamp(sum, 0.0, 1.0);
}

FisherG fisher_g(std::span<const double> series) {
  FisherG result;
  const std::size_t n = series.size();
  result.frequencies = n < 3 ? 0 : static_cast<std::int64_t>((n - 1) / 2);
  if (result.frequencies < 2) {
    result.reason = "fewer than five values: no spectrum";
    return result;
  }
  const double mean = std::accumulate(series.begin(), series.end(), 0.0) / static_cast<double>(n);
  double total = 0;
  double peak = 0;
  std::int64_t at = 1;
  for (std::int64_t j = 1; j <= result.frequencies; ++j) {
    double re = 0;
    double im = 0;
    for (std::size_t k = 0; k < n; ++k) {
      const double angle = 2 * std::numbers::pi * static_cast<double>(j) * static_cast<double>(k) /
                           static_cast<double>(n);
      re += (series[k] - mean) * std::cos(angle);
      im += (series[k] - mean) * std::sin(angle);
    }
    const double power = re * re + im * im;
    total += power;
    if (power > peak) {
      peak = power;
      at = j;
    }
  }
  double scale = 0;
  for (const double x : series) scale += x * x;
  if (total <= 1e-20 * scale || total == 0) {
    result.reason = "the series is constant at these frequencies";
    return result;
  }
  result.g = peak / total;
  result.p_value = fisher_g_p_value(*result.g, result.frequencies);
  result.period = static_cast<double>(n) / static_cast<double>(at);
  return result;
}

}  // namespace kvphase::stats
