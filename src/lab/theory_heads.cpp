#include "lab/theory_heads.h"

#include <algorithm>
#include <cmath>

#include "lab/theory_flow.h"

namespace kvphase::lab {
namespace {

std::int64_t largest(std::span<const double> p) { return std::ranges::max_element(p) - p.begin(); }

}  // namespace

double effective_offsets(std::span<const double> p) {
  double entropy = 0;
  for (const double x : p) entropy -= x > 0 ? x * std::log(x) : 0;
  return std::exp(entropy);
}

std::vector<HeadState> head_states(const TheorySetting& s, std::span<const double> gates) {
  const auto S = static_cast<std::size_t>(s.stride);
  std::vector<HeadState> states;
  for (std::int64_t h = 0; h < s.heads; ++h) {
    const auto key = gates.subspan(row_of(s, Gate::kKey, h), S);
    const auto value = gates.subspan(row_of(s, Gate::kValue, h), S);
    states.push_back({.key_position = largest(key),
                      .value_position = largest(value),
                      .key_offsets = effective_offsets(key),
                      .value_offsets = effective_offsets(value)});
  }
  return states;
}

SelectionWeights selection_weights(const TheorySetting& s) {
  const double n = static_cast<double>(s.stride - 1);
  const double others = static_cast<double>(s.chunks - 1);
  // State: logits of the retrievable positions and of the useless one, of key and value; then the
  // matrix that takes the start's differences (key, value) to those now, by rows.
  enum { kKey, kLast, kValue, kFirst, kKK, kKV, kVK, kVV };
  const GradientOf uphill = [&](std::span<const double> u, std::span<double> minus) {
    const double last = 1 / (1 + n * std::exp(u[kKey] - u[kLast]));
    const double first = 1 / (1 + n * std::exp(u[kValue] - u[kFirst]));
    const double p = (1 - last) / n, q = (1 - first) / n;
    const double a = 1 / (1 + others * std::exp(-s.gamma * p));
    const double slope = s.gamma * a * (1 - a);
    const double bend = s.gamma * slope * (1 - 2 * a);
    minus[kKey] = -p * slope * q * last;
    minus[kLast] = last * n * p * slope * q;
    minus[kValue] = -q * a * first;
    minus[kFirst] = first * n * q * a;
    const double by_key = p * (bend * q * p + last * slope * q), by_value = p * slope * q;
    const double value_by_key = q * slope * p, value_by_value = q * first * a;
    minus[kKK] = -(by_key * u[kKK] + by_value * u[kVK]);
    minus[kKV] = -(by_key * u[kKV] + by_value * u[kVV]);
    minus[kVK] = -(value_by_key * u[kKK] + value_by_value * u[kVK]);
    minus[kVV] = -(value_by_key * u[kKV] + value_by_value * u[kVV]);
  };
  std::vector<double> u = {0, 0, 0, 0, 1, 0, 0, 1};
  constexpr double kGrown = 1e5;  // the other mode's share is then below 1e-5
  for (int round = 0; round < 60 && u[kKK] + u[kKV] < kGrown; ++round) {
    u = gradient_flow(uphill, u, std::vector<double>{20.0 * n * n}, {});
  }
  return {.key = u[kKK] / (u[kKK] + u[kKV]), .value = u[kKV] / (u[kKK] + u[kKV])};
}

std::vector<std::int64_t> predicted_positions(const TheorySetting& s,
                                              std::span<const double> logits) {
  const SelectionWeights weights = selection_weights(s);
  std::vector<std::int64_t> positions;
  for (std::int64_t h = 0; h < s.heads; ++h) {
    const std::size_t key = row_of(s, Gate::kKey, h), value = row_of(s, Gate::kValue, h);
    std::vector<double> score;
    for (std::size_t r = 0; r + 1 < static_cast<std::size_t>(s.stride); ++r) {
      score.push_back(weights.key * logits[key + r] + weights.value * logits[value + r + 1]);
    }
    positions.push_back(largest(score));
  }
  return positions;
}

}  // namespace kvphase::lab
