#include "stats/simulate.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <numbers>

namespace kvphase::stats {

double logit(double p) { return std::log(p / (1 - p)); }
double inverse_logit(double x) { return 1 / (1 + std::exp(-x)); }

double average_item_chance(double share, double item_sd) {
  if (item_sd == 0) return share;
  const auto mean_share = [&](double intercept) {
    // Sum over a fine grid of the normal density: far more exact than a simulation needs.
    double sum = 0;
    double weight = 0;
    for (int k = -240; k <= 240; ++k) {
      const double u = k / 40.0;
      const double density = std::exp(-u * u / 2);
      sum += density * inverse_logit(intercept + item_sd * u);
      weight += density;
    }
    return sum / weight;
  };
  const double reach = 10 * (1 + item_sd) + std::abs(logit(share)) * (1 + item_sd);
  double low = -reach;
  double high = reach;
  for (int step = 0; step < 60; ++step) {
    const double middle = (low + high) / 2;
    (mean_share(middle) < share ? low : high) = middle;
  }
  return inverse_logit((low + high) / 2);
}

namespace {

double wave_at(WaveShape shape, double angle) {
  const double sine = std::sin(angle);
  switch (shape) {
    case WaveShape::kSine:
      return sine;
    case WaveShape::kTriangle:
      return 2 / std::numbers::pi * std::asin(sine);
    case WaveShape::kStep:
      break;
  }
  return sine < 0 ? -1 : 1;
}

}  // namespace

ScoreTable simulate(const SimulatedAudit& audit, base::Random& random) {
  assert(audit.items >= 0 && audit.offsets >= 1);
  const auto below = [&](std::int64_t bound) {
    return bound <= 0
               ? 0
               : static_cast<std::int64_t>(random.uniform_index(static_cast<std::uint64_t>(bound)));
  };
  const std::int64_t weak = below(audit.period);
  const double phase = 2 * std::numbers::pi * random.uniform();
  double walk = audit.walk_sd * random.normal();
  std::vector<double> place(static_cast<std::size_t>(audit.places));
  for (double& x : place) x = audit.place_spread * (2 * random.uniform() - 1);
  std::vector<ScoreRow> rows;
  rows.reserve(static_cast<std::size_t>(audit.items * audit.offsets));
  for (std::int64_t i = 0; i < audit.items; ++i) {
    const double item = audit.item_sd * random.normal();
    const std::int64_t start = below(audit.start_range);
    double noise = audit.noise_sd * random.normal();
    std::vector<double> own(static_cast<std::size_t>(audit.own_period));
    if (audit.own_period > 0 && audit.own_chance > 0) {
      for (double& x : own) x = random.uniform() < audit.own_chance ? audit.own_drop : 0;
    } else if (audit.own_period > 0) {
      own[static_cast<std::size_t>(below(audit.own_period))] = audit.own_drop;
    }
    for (std::int64_t k = 0; k < audit.offsets; ++k) {
      const std::int64_t position = start + k;
      const double at = static_cast<double>(k);
      const double along =
          audit.offsets > 1 ? at / static_cast<double>(audit.offsets - 1) - 0.5 : 0;
      const std::int64_t group = audit.period > 0 ? position % audit.period : 0;
      const double base = audit.phase_chance.empty()
                              ? audit.accuracy
                              : audit.phase_chance[static_cast<std::size_t>(group)];
      const double here =
          place.empty() ? 0 : place[static_cast<std::size_t>(position % audit.places)];
      const double mine =
          own.empty() ? 0 : own[static_cast<std::size_t>(position % audit.own_period)];
      const double x = logit(base) + here + item - mine + audit.depth_trend * along + walk + noise +
                       audit.wave * wave_at(audit.wave_shape,
                                            2 * std::numbers::pi * at / audit.wave_length + phase);
      const double drop = audit.period > 0 && group == weak ? audit.drop : 0;
      double score = 0;
      if (audit.continuous) {
        score = x - drop + random.normal();
        score = audit.sign ? (score > 0 ? 1 : 0) : score + audit.level;
      } else {
        score = random.uniform() < inverse_logit(x) - drop ? 1 : 0;
      }
      rows.push_back({i, position, score});
      const auto step = [&](double& value, double sd, double memory) {
        if (sd > 0) value = memory * value + sd * std::sqrt(1 - memory * memory) * random.normal();
      };
      step(walk, audit.walk_sd, audit.walk_memory);
      step(noise, audit.noise_sd, audit.noise_memory);
    }
  }
  return make_score_table(std::move(rows));
}

}  // namespace kvphase::stats
