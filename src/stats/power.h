// How many items an audit needs. Sizes come as real numbers; round them up.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "stats/estimate.h"
#include "stats/simulate.h"

namespace kvphase::stats {

// Two phases on the same items (McNemar; Connor 1987): d = difference of shares, psi = share of
// discordant items, n = (z_{a/2} sqrt(psi) + z_b sqrt(psi - d^2))^2 / d^2. Usage error unless
// 0 < |d| <= psi <= 1. For Bonferroni over k pairs give alpha / k.
double paired_size(double d, double psi, double alpha = 0.05, double power = 0.8);

// Two phases on different items, items per phase: the pooled-variance formula (Fleiss), no
// continuity correction. What pairing saves is the ratio to paired_size.
double unpaired_size(double p1, double p2, double alpha = 0.05, double power = 0.8);

// Miller (2024): items for a difference d of two means when each answer is sampled K times:
// (z_{a/2} + z_b)^2 (omega^2 + s_a^2/K_a + s_b^2/K_b) / d^2, omega^2 = variance over items of the
// difference of expected scores, s^2 = variance of one answer around its expectation.
struct MillerInput {
  double difference = 0;
  double omega2 = 0;
  double s2_a = 0;
  double k_a = 1;
  double s2_b = 0;
  double k_b = 1;
};
double miller_size(const MillerInput& input, double alpha = 0.05, double power = 0.8);

// Items per phase that pass a gate at `requirement` when all are right: alpha^(1/n) >= requirement.
std::int64_t all_right_size(double requirement, double alpha = 0.05);

// Smallest n per phase at which a phase of true share `share` passes the exact gate (one-sided
// Clopper-Pearson at alpha) with chance power^(1/phases), so that all phases pass with chance
// `power`. Passing chance is not monotone in n; the n returned and the next 20 all reach it. Empty
// when share <= requirement or more than `most` items were needed.
std::optional<std::int64_t> gate_size(double share, double requirement, std::int64_t phases,
                                      double alpha = 0.05, double power = 0.8,
                                      std::int64_t most = 100000);

// Power of Cochran's Q (chi-squared p <= alpha) by simulation: every item at every phase once,
// items with normal intercepts of item_sd logits, phase_chance the shares over all items (what a
// table of results shows), not those of an average item. Its items have no patterns of their own,
// for which the chi-squared p is as good as that of shifted items.
struct PowerEstimate {
  double power = 0;
  double low = 0;  // Clopper-Pearson 95 % for the simulation
  double high = 0;
  std::int64_t runs = 0;
};
PowerEstimate cochran_power(std::span<const double> phase_chance, std::int64_t items,
                            double item_sd = 1, std::int64_t runs = 400, double alpha = 0.05,
                            std::uint64_t seed = 1);

// Smallest number of items, of the steps 10, 20, 30, 50, 75, 100, 150, 200, 300, 400, 600, 800,
// ..., at which Cochran's Q reaches the power. Empty beyond `most`.
std::optional<std::int64_t> cochran_size(std::span<const double> phase_chance, double power = 0.8,
                                         double item_sd = 1, double alpha = 0.05,
                                         std::int64_t most = 6400, std::uint64_t seed = 1);

// Chance that find_period names a period, and that it names the right one, for a simulated audit.
struct PeriodPower {
  PowerEstimate named;
  PowerEstimate right;
};
struct PeriodPowerOptions {
  std::int64_t runs = 200;
  std::int64_t permutations = 399;  // fewer than an analysis uses, so that planning takes seconds
  double level = 0.05;
  std::uint64_t seed = 1;
  // The period is known, so it is tested alone: both chances are that of its own p <= level.
  bool known = false;
};
PeriodPower period_power(const SimulatedAudit& audit, const PeriodPowerOptions& options = {});

// Two phases of simulated items (see simulate.h): an item with intercept u answers right with
// chance a(u) = inverse_logit(logit(accuracy) + u) at one and b(u) = max(0, a(u) - drop) at the
// other, u normal with item_sd. What the sizes above need to know of them, by integration over u.
struct PairMoments {
  double share_a = 0;     // E a
  double share_b = 0;     // E b
  double discordant = 0;  // E a(1-b) + b(1-a): psi of paired_size, one prompt per phase
  MillerInput miller;     // with one prompt per phase
};
PairMoments pair_moments(double accuracy, double drop, double item_sd);

// Items of the presets of `plan`.
struct PlanPreset {
  const char* name;
  std::int64_t items;
  const char* finds;  // what it finds with about 80 % power or more
};
std::span<const PlanPreset> plan_presets();

}  // namespace kvphase::stats
