// Made-up audits with known truth: what the calibration study and the power calculations draw from.
#pragma once

#include <cstdint>
#include <vector>

#include "base/random.h"
#include "stats/score_table.h"

namespace kvphase::stats {

enum class WaveShape { kSine, kTriangle, kStep };  // kStep: half high, half low

// Right answers come from logit(chance) = logit(accuracy) + item + trend + drift + noise, minus
// `drop` (in probability) at one phase mod `period`. All SDs and amplitudes are in logits.
struct SimulatedAudit {
  std::int64_t items = 20;
  std::int64_t offsets = 24;        // consecutive target positions per item
  std::int64_t start_range = 1000;  // first position uniform below it; 0: every item starts at 0
  double accuracy = 0.8;            // of an average item without the effects below
  double item_sd = 0;               // items differ: random intercept
  double depth_trend = 0;           // change from an item's first to its last offset
  double walk_sd = 0;         // slow drift while items are run one after another: stationary SD ...
  double walk_memory = 0.98;  // ... and its correlation from one request to the next
  double wave = 0;            // slow drift over the offsets, the same for all items: amplitude
  double wave_length = 36;    // over this many offsets, at a random phase
  WaveShape wave_shape = WaveShape::kSine;
  std::int64_t places = 0;    // positions mod this differ, without any order ...
  double place_spread = 0;    // ... by up to this many logits either way (uniform)
  double noise_sd = 0;        // autocorrelated noise inside an item: stationary SD ...
  double noise_memory = 0.7;  // ... and correlation between neighbouring offsets
  // Items with phases of their own: every item repeats with this period, wherever it starts ...
  std::int64_t own_period = 0;
  double own_drop = 0;      // ... weaker by this many logits at one random phase of its own ...
  double own_chance = 0;    // ... or, when above 0, at each of its phases with this chance
  std::int64_t period = 0;  // 0: none
  double drop = 0;          // probability taken from one random phase of the period
  std::vector<double>
      phase_chance;         // instead of accuracy and drop: chance per phase (period of them)
  bool continuous = false;  // score = the logit plus standard normal noise; drop is in logits
  double level = 0;         // added to every continuous score
  bool sign = false;        // of a continuous score: right when it is above 0, as in answering
};

ScoreTable simulate(const SimulatedAudit& audit, base::Random& random);

// Chance of an average item at which items with normal intercepts of item_sd logits have the mean
// chance `share`: the inverse of averaging the logistic curve over items. 0 < share < 1.
double average_item_chance(double share, double item_sd);

double logit(double p);
double inverse_logit(double x);

}  // namespace kvphase::stats
