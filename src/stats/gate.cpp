#include "stats/gate.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>

#include "base/error.h"
#include "base/random.h"
#include "stats/interval.h"

namespace kvphase::stats {
namespace {

// Fractions of the largest bet: small ones for shares near the requirement, large for far ones.
constexpr std::array<double, 8> kBets = {0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 0.9};

void check(const GateOptions& options) {
  if (!(options.requirement > 0 && options.requirement < 1) ||
      !(options.alpha > 0 && options.alpha < 1)) {
    throw base::usage_error("gate",
                            "expected a requirement and an alpha between 0 and 1, got {} and {}",
                            options.requirement, options.alpha);
  }
}

double log_mean_exp(const std::vector<double>& x) {
  const double top = std::ranges::max(x);
  double sum = 0;
  for (const double v : x) sum += std::exp(v - top);
  return top + std::log(sum / static_cast<double>(x.size()));
}

}  // namespace

std::string_view name_of(GateVerdict verdict) {
  switch (verdict) {
    case GateVerdict::kPass:
      return "pass";
    case GateVerdict::kFail:
      return "fail";
    case GateVerdict::kInconclusive:
      break;
  }
  return "inconclusive";
}

GateResult fixed_gate(const ResidueCounts& phases, const GateOptions& options,
                      const std::vector<std::int64_t>& missing) {
  check(options);
  check_counts(phases, "gate");
  if (!missing.empty() && missing.size() != phases.n.size()) {
    throw base::usage_error("gate", "expected missing counts for {} phases, got {}",
                            phases.n.size(), missing.size());
  }
  const double count = static_cast<double>(phases.n.size());
  const double alpha_pass = options.simultaneous ? options.alpha / count : options.alpha;
  const double alpha_fail = options.alpha / count;
  GateResult result;
  result.method = fmt::format(
      "Clopper-Pearson, one look: pass when every lower bound at alpha {:.4g} ({}) is at least "
      "{:g}, "
      "fail when an upper bound at alpha {:.4g} is below it",
      alpha_pass, options.simultaneous ? "simultaneous" : "per phase, intersection-union",
      options.requirement, alpha_fail);
  bool all_pass = true;
  std::optional<double> lowest;
  std::optional<double> lowest_high;
  for (std::size_t p = 0; p < phases.n.size(); ++p) {
    const std::int64_t lost = missing.empty() ? 0 : missing[p];
    if (lost < 0) throw base::usage_error("gate", "expected missing >= 0, got {}", lost);
    GatePhase phase{.phase = static_cast<std::int64_t>(p),
                    .n = phases.n[p] + lost,
                    .correct = phases.correct[p],
                    .missing = lost};
    phase.low = clopper_pearson_lower(phase.correct, phase.n, alpha_pass).low;
    phase.high = clopper_pearson_upper(phase.correct + lost, phase.n, alpha_fail).high;
    all_pass = all_pass && phase.low && *phase.low >= options.requirement;
    if (phase.high && *phase.high < options.requirement &&
        (!lowest_high || *phase.high < *lowest_high)) {
      result.verdict = GateVerdict::kFail;
      result.decisive = phase.phase;
      lowest_high = phase.high;
    }
    if (result.verdict != GateVerdict::kFail && phase.low && (!lowest || *phase.low < *lowest)) {
      lowest = phase.low;
      result.decisive = phase.phase;
    }
    if (phase.n == 0) result.reason = fmt::format("phase {} has no observations", p);
    result.phases.push_back(phase);
  }
  if (result.verdict == GateVerdict::kFail) {
    result.reason.clear();
  } else if (all_pass) {
    result.verdict = GateVerdict::kPass;
  } else if (result.reason.empty()) {
    result.reason =
        fmt::format("phase {} may lie on either side of the requirement; more items would decide",
                    *result.decisive);
  }
  return result;
}

ResidueCounts one_per_item(const ScoreTable& table, std::int64_t phases, std::uint64_t seed) {
  if (phases < 1) throw base::usage_error("gate", "expected at least 1 phase, got {}", phases);
  if (!is_binary(table)) {
    throw base::usage_error("gate", "expected right/wrong scores, got continuous scores");
  }
  const auto m = static_cast<std::size_t>(phases);
  ResidueCounts counts{.correct = std::vector<std::int64_t>(m), .n = std::vector<std::int64_t>(m)};
  std::vector<double> chosen(m);
  std::vector<std::uint64_t> seen(m);
  for (std::size_t i = 0; i < table.items(); ++i) {
    // A stream per item, so that adding items never changes earlier choices.
    base::Random random(
        base::derive_seed(seed, "stats.one_per_item", {static_cast<std::uint64_t>(table.ids[i])}));
    std::ranges::fill(seen, std::uint64_t{0});
    const auto positions = table.positions_of(i);
    const auto scores = table.scores_of(i);
    for (std::size_t j = 0; j < scores.size(); ++j) {
      const auto g = static_cast<std::size_t>(positions[j] % phases);
      if (random.uniform_index(++seen[g]) == 0) chosen[g] = scores[j];  // reservoir of one
    }
    for (std::size_t g = 0; g < m; ++g) {
      if (seen[g] == 0) continue;
      ++counts.n[g];
      counts.correct[g] += chosen[g] == 1 ? 1 : 0;
    }
  }
  return counts;
}

AnytimeGate::AnytimeGate(std::int64_t phases, const GateOptions& options) : options_(options) {
  check(options);
  if (phases < 1) throw base::usage_error("gate", "expected at least 1 phase, got {}", phases);
  const auto count = static_cast<std::size_t>(phases);
  for (std::size_t p = 0; p < count; ++p) {
    phases_.push_back({.phase = static_cast<std::int64_t>(p)});
  }
  log_pass_.assign(count, std::vector<double>(kBets.size()));
  log_fail_ = log_pass_;
  peak_pass_.assign(count, 0);
  peak_fail_.assign(count, 0);
}

void AnytimeGate::add(std::int64_t phase, double score) {
  assert(phase >= 0 && static_cast<std::size_t>(phase) < phases_.size());
  if (!(score >= 0 && score <= 1)) {
    throw base::usage_error("gate", "expected a score between 0 and 1, got {}", score);
  }
  const auto p = static_cast<std::size_t>(phase);
  const double q = options_.requirement;
  for (std::size_t k = 0; k < kBets.size(); ++k) {
    log_pass_[p][k] += std::log1p(kBets[k] / q * (score - q));
    log_fail_[p][k] += std::log1p(kBets[k] / (1 - q) * (q - score));
  }
  peak_pass_[p] = std::max(peak_pass_[p], log_mean_exp(log_pass_[p]));
  peak_fail_[p] = std::max(peak_fail_[p], log_mean_exp(log_fail_[p]));
  ++phases_[p].n;
  phases_[p].correct += score == 1 ? 1 : 0;
}

GateResult AnytimeGate::result() const {
  GateResult result{.phases = phases_};
  const double pass_at = 1 / options_.alpha;
  const double fail_at = static_cast<double>(phases_.size()) / options_.alpha;
  result.method = fmt::format(
      "betting e-values, any number of looks: pass when every phase reaches {:g}, fail when one "
      "reaches {:g}, requirement {:g}",
      pass_at, fail_at, options_.requirement);
  bool all_pass = true;
  double weakest = 0;
  double strongest_fail = std::log(fail_at);
  for (std::size_t p = 0; p < phases_.size(); ++p) {
    result.phases[p].e_pass = std::exp(std::min(peak_pass_[p], 700.0));
    result.phases[p].e_fail = std::exp(std::min(peak_fail_[p], 700.0));
    all_pass = all_pass && peak_pass_[p] >= std::log(pass_at);
    if (p == 0 || peak_pass_[p] < weakest) {
      weakest = peak_pass_[p];
      if (result.verdict != GateVerdict::kFail) result.decisive = static_cast<std::int64_t>(p);
    }
    if (peak_fail_[p] >= strongest_fail) {
      strongest_fail = peak_fail_[p];
      result.verdict = GateVerdict::kFail;
      result.decisive = static_cast<std::int64_t>(p);
    }
  }
  if (result.verdict == GateVerdict::kFail) return result;
  if (all_pass) {
    result.verdict = GateVerdict::kPass;
  } else {
    result.reason = "not enough evidence yet; more items would decide";
  }
  return result;
}

}  // namespace kvphase::stats
