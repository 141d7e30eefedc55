#include "stats/power.h"

#include <algorithm>
#include <array>
#include <boost/math/distributions/binomial.hpp>
#include <cmath>

#include "base/error.h"
#include "base/stop.h"
#include "stats/interval.h"
#include "stats/paired.h"
#include "stats/period.h"

namespace kvphase::stats {
namespace {

void check(double alpha, double power) {
  if (!(alpha > 0 && alpha < 1) || !(power > 0 && power < 1)) {
    throw base::usage_error("plan", "expected alpha and power between 0 and 1, got {} and {}",
                            alpha, power);
  }
}

void check_share(double p) {
  if (!(p > 0 && p < 1)) {
    throw base::usage_error("plan", "expected a share between 0 and 1, got {}", p);
  }
}

PowerEstimate estimate(std::int64_t hits, std::int64_t runs) {
  const Estimate e = clopper_pearson(hits, runs);
  return {.power = *e.value, .low = *e.low, .high = *e.high, .runs = runs};
}

// Chance that a phase of true share p passes with n items.
double pass_chance(std::int64_t n, double p, double requirement, double alpha) {
  // Smallest number of right answers whose lower bound meets the requirement.
  std::int64_t low = 0;
  std::int64_t high = n + 1;
  while (low < high) {
    const std::int64_t middle = (low + high) / 2;
    const bool passes = middle <= n && *clopper_pearson_lower(middle, n, alpha).low >= requirement;
    if (middle > n || passes) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  if (low > n) return 0;
  if (low == 0) return 1;
  const boost::math::binomial_distribution<> binomial(static_cast<double>(n), p);
  return boost::math::cdf(boost::math::complement(binomial, static_cast<double>(low - 1)));
}

constexpr std::array<PlanPreset, 3> kPresets = {{
    {"quick", 30, "a gap of 40 points over 4 phases"},
    {"standard", 100, "a gap of 15 points over 4 phases"},
    {"strict", 400, "a gap of 5 points between 2 phases"},
}};

}  // namespace

double paired_size(double d, double psi, double alpha, double power) {
  check(alpha, power);
  if (!(std::abs(d) > 0 && std::abs(d) <= psi && psi <= 1)) {
    throw base::usage_error(
        "plan", "expected 0 < |difference| <= discordant share <= 1, got {} and {}", d, psi);
  }
  const double root = normal_quantile(1 - alpha / 2) * std::sqrt(psi) +
                      normal_quantile(power) * std::sqrt(psi - d * d);
  return root * root / (d * d);
}

double unpaired_size(double p1, double p2, double alpha, double power) {
  check(alpha, power);
  check_share(p1);
  check_share(p2);
  if (p1 == p2) throw base::usage_error("plan", "expected two different shares, got {} twice", p1);
  const double mean = (p1 + p2) / 2;
  const double root = normal_quantile(1 - alpha / 2) * std::sqrt(2 * mean * (1 - mean)) +
                      normal_quantile(power) * std::sqrt(p1 * (1 - p1) + p2 * (1 - p2));
  return root * root / ((p1 - p2) * (p1 - p2));
}

double miller_size(const MillerInput& input, double alpha, double power) {
  check(alpha, power);
  if (input.difference == 0 || input.omega2 < 0 || input.s2_a < 0 || input.s2_b < 0 ||
      !(input.k_a > 0 && input.k_b > 0)) {
    throw base::usage_error("plan",
                            "expected a difference other than 0, variances >= 0 and K > 0, got "
                            "difference {}, K {} and {}",
                            input.difference, input.k_a, input.k_b);
  }
  const double z = normal_quantile(1 - alpha / 2) + normal_quantile(power);
  return z * z * (input.omega2 + input.s2_a / input.k_a + input.s2_b / input.k_b) /
         (input.difference * input.difference);
}

std::int64_t all_right_size(double requirement, double alpha) {
  check(alpha, 0.5);
  check_share(requirement);
  const double n = std::log(alpha) / std::log(requirement);
  return static_cast<std::int64_t>(std::ceil(n - 1e-9));
}

std::optional<std::int64_t> gate_size(double share, double requirement, std::int64_t phases,
                                      double alpha, double power, std::int64_t most) {
  check(alpha, power);
  check_share(requirement);
  if (!(share > 0 && share <= 1) || phases < 1) {
    throw base::usage_error("plan", "expected a share in (0, 1] and phases >= 1, got {} and {}",
                            share, phases);
  }
  if (share <= requirement) return std::nullopt;
  if (share == 1) return all_right_size(requirement, alpha);
  const double wanted = std::pow(power, 1 / static_cast<double>(phases));
  constexpr std::int64_t kRun = 21;  // longer than one tooth of the saw for shares up to 0.95
  // The teeth rise with n: where none of the last ones is high enough, none before them is.
  bool any = false;
  for (std::int64_t n = most; n < most + kRun; ++n) {
    any = any || pass_chance(n, share, requirement, alpha) >= wanted;
  }
  if (!any) return std::nullopt;
  std::int64_t good = 0;
  for (std::int64_t n = all_right_size(requirement, alpha); n <= most + kRun; ++n) {
    good = pass_chance(n, share, requirement, alpha) >= wanted ? good + 1 : 0;
    if (good == kRun) return n - kRun + 1;
  }
  return std::nullopt;
}

PowerEstimate cochran_power(std::span<const double> phase_chance, std::int64_t items,
                            double item_sd, std::int64_t runs, double alpha, std::uint64_t seed) {
  check(alpha, 0.5);
  for (const double p : phase_chance) check_share(p);
  if (phase_chance.size() < 2 || items < 1 || runs < 1 || item_sd < 0) {
    throw base::usage_error("plan", "expected at least 2 phases, 1 item and 1 run, got {}, {}, {}",
                            phase_chance.size(), items, runs);
  }
  std::vector<double> intercept;
  for (std::size_t g = 0; g < phase_chance.size(); ++g) {
    const bool again = g > 0 && phase_chance[g] == phase_chance[g - 1];
    intercept.push_back(again ? intercept.back()
                              : logit(average_item_chance(phase_chance[g], item_sd)));
  }
  std::int64_t rejected = 0;
  for (std::int64_t run = 0; run < runs; ++run) {
    base::Random random(
        base::derive_seed(seed, "stats.cochran_power", {static_cast<std::uint64_t>(run)}));
    PhaseMatrix matrix{.phases = phase_chance.size(), .cell = {}};
    for (std::int64_t i = 0; i < items; ++i) {
      const double item = item_sd * random.normal();
      for (const double x : intercept) {
        matrix.cell.push_back(random.uniform() < inverse_logit(x + item) ? 1 : 0);
      }
    }
    rejected += *cochran_q(matrix, 0).p_chi_squared <= alpha ? 1 : 0;
  }
  return estimate(rejected, runs);
}

std::optional<std::int64_t> cochran_size(std::span<const double> phase_chance, double power,
                                         double item_sd, double alpha, std::int64_t most,
                                         std::uint64_t seed) {
  check(alpha, power);
  for (const std::int64_t items : {10, 20, 30, 50, 75, 100, 150, 200, 300, 400, 600, 800, 1200,
                                   1600, 2400, 3200, 4800, 6400}) {
    if (items > most) break;
    if (cochran_power(phase_chance, items, item_sd, 400, alpha, seed).power >= power) return items;
  }
  return std::nullopt;
}

PeriodPower period_power(const SimulatedAudit& audit, const PeriodPowerOptions& options) {
  if (options.runs < 1) {
    throw base::usage_error("plan", "expected at least 1 run, got {}", options.runs);
  }
  std::int64_t named = 0;
  std::int64_t right = 0;
  for (std::int64_t run = 0; run < options.runs; ++run) {
    if (base::stop_requested()) {
      throw base::Error(base::ErrorKind::kInterrupted, "plan", "stopped while simulating");
    }
    const auto index = static_cast<std::uint64_t>(run);
    base::Random random(base::derive_seed(options.seed, "stats.period_power", {index}));
    PeriodOptions search{.permutations = options.permutations,
                         .other_permutations = options.permutations,
                         .level = options.level,
                         .seed = index,
                         .always_second = false};
    if (options.known) {
      search.min_period = search.max_period = audit.period;
      // Only the first null's p counts: a level that no p reaches spares the second null.
      search.level = 0.5 / static_cast<double>(options.permutations + 1);
    }
    const auto found = find_period(simulate(audit, random), search);
    if (options.known) {
      const bool seen =
          !found.candidates.empty() && found.candidates.front().p_raw <= options.level;
      named += seen ? 1 : 0;
      right += seen ? 1 : 0;
      continue;
    }
    named += found.period.has_value() ? 1 : 0;
    right += found.period == audit.period ? 1 : 0;
  }
  return {.named = estimate(named, options.runs), .right = estimate(right, options.runs)};
}

PairMoments pair_moments(double accuracy, double drop, double item_sd) {
  check_share(accuracy);
  if (!(drop > 0 && drop <= accuracy) || !(item_sd >= 0)) {
    throw base::usage_error("plan", "expected 0 < drop <= accuracy and an item SD >= 0, got {}, {}",
                            drop, item_sd);
  }
  double weight = 0;
  double sum_a = 0, sum_b = 0, both = 0, var_a = 0, var_b = 0, squares = 0;
  // A fine grid of the normal density, as in average_item_chance().
  for (int k = -240; k <= 240; ++k) {
    const double u = k / 40.0;
    const double w = std::exp(-u * u / 2);
    const double a = inverse_logit(logit(accuracy) + item_sd * u);
    const double b = std::max(0.0, a - drop);
    weight += w;
    sum_a += w * a;
    sum_b += w * b;
    both += w * (a * (1 - b) + b * (1 - a));
    var_a += w * a * (1 - a);
    var_b += w * b * (1 - b);
    squares += w * (a - b) * (a - b);
  }
  PairMoments m{.share_a = sum_a / weight, .share_b = sum_b / weight, .discordant = both / weight};
  const double d = m.share_a - m.share_b;
  m.miller = {.difference = d,
              .omega2 = std::max(0.0, squares / weight - d * d),
              .s2_a = var_a / weight,
              .s2_b = var_b / weight};
  return m;
}

std::span<const PlanPreset> plan_presets() { return kPresets; }

}  // namespace kvphase::stats
