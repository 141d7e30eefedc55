#include "tests/support/example_result.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "base/random.h"

namespace kvphase::test {
namespace {

using record::Group;
using record::Result;

constexpr std::int64_t kResidues = 24;
constexpr std::int64_t kItems = 50;
constexpr std::int64_t kStride = 4;
constexpr int kPermutations = 9999;

// Wilson's interval at 95%.
void set_interval(Group& g) {
  constexpr double z = 1.959963984540054;
  const double n = static_cast<double>(g.n), p = static_cast<double>(g.correct.value_or(0)) / n;
  const double centre = (p + z * z / (2 * n)) / (1 + z * z / n);
  const double half = z / (1 + z * z / n) * std::sqrt(p * (1 - p) / n + z * z / (4 * n * n));
  g.accuracy = p;
  g.low = std::max(0.0, centre - half);
  g.high = std::min(1.0, centre + half);
}

// F of epoch folding: between-phase over within-phase variance of the residue means.
double folding_statistic(const std::vector<double>& means, std::int64_t period) {
  const auto k = static_cast<double>(means.size()), s = static_cast<double>(period);
  double grand = 0;
  for (const double m : means) grand += m / k;
  double between = 0, within = 0;
  for (std::int64_t phase = 0; phase < period; ++phase) {
    std::vector<double> group;
    for (std::size_t r = static_cast<std::size_t>(phase); r < means.size();
         r += static_cast<std::size_t>(period)) {
      group.push_back(means[r]);
    }
    double mean = 0;
    for (const double m : group) mean += m / static_cast<double>(group.size());
    between += static_cast<double>(group.size()) * (mean - grand) * (mean - grand);
    for (const double m : group) within += (m - mean) * (m - mean);
  }
  return within > 0 ? (between / (s - 1)) / (within / (k - s)) : 0;
}

record::Period find_period(const std::vector<Group>& residues, base::Random& random) {
  record::Period period;
  period.method = fmt::format(
      "counts only: epoch folding of residue means, {} permutations, min-p over candidates",
      kPermutations);
  std::vector<double> means;
  for (const Group& g : residues) means.push_back(*g.accuracy);
  std::vector<std::int64_t> candidates;
  for (std::int64_t s = 2; s <= 12; ++s) candidates.push_back(s);
  // statistics[0] is the observed row, the rest permutations.
  std::vector<std::vector<double>> statistics;
  for (int row = 0; row <= kPermutations; ++row) {
    if (row > 0) random.shuffle(std::span<double>(means));
    auto& values = statistics.emplace_back();
    for (const std::int64_t s : candidates) values.push_back(folding_statistic(means, s));
  }
  std::vector<std::vector<double>> sorted(candidates.size());
  for (std::size_t c = 0; c < candidates.size(); ++c) {
    for (const auto& row : statistics) sorted[c].push_back(row[c]);
    std::sort(sorted[c].begin(), sorted[c].end());
  }
  const auto share_at_least = [&](std::size_t c, double value) {
    const auto first = std::lower_bound(sorted[c].begin(), sorted[c].end(), value);
    return static_cast<double>(sorted[c].end() - first) / static_cast<double>(sorted[c].size());
  };
  std::vector<double> smallest;
  for (const auto& row : statistics) {
    double least = 1;
    for (std::size_t c = 0; c < candidates.size(); ++c) {
      least = std::min(least, share_at_least(c, row[c]));
    }
    smallest.push_back(least);
  }
  for (std::size_t c = 0; c < candidates.size(); ++c) {
    const double raw = share_at_least(c, statistics[0][c]);
    const auto as_small =
        std::count_if(smallest.begin(), smallest.end(), [&](double least) { return least <= raw; });
    const double adjusted = static_cast<double>(as_small) / static_cast<double>(smallest.size());
    period.candidates.push_back({.period = candidates[c],
                                 .statistic = statistics[0][c],
                                 .p_raw = raw,
                                 .p_adjusted = adjusted});
    if (adjusted <= period.level && !period.value) period.value = candidates[c];
    if (!period.p_value || adjusted < *period.p_value) period.p_value = adjusted;
  }
  return period;
}

record::Extreme extreme(const std::vector<Group>& groups, bool worst) {
  const auto less = [](const Group& a, const Group& b) { return *a.accuracy < *b.accuracy; };
  const Group& g = worst ? *std::min_element(groups.begin(), groups.end(), less)
                         : *std::max_element(groups.begin(), groups.end(), less);
  return {.estimate = {.value = g.accuracy,
                       .low = g.low,
                       .high = g.high,
                       .method = "Wilson, the group fixed in advance",
                       .reason = ""},
          .group = g.index};
}

record::Gap gap(const std::vector<Group>& groups, double noise_sd_factor) {
  const double value =
      *extreme(groups, false).estimate.value - *extreme(groups, true).estimate.value;
  const double n = static_cast<double>(groups.front().n);
  double mean = 0;
  for (const Group& g : groups) mean += *g.accuracy / static_cast<double>(groups.size());
  const double error = std::sqrt(mean * (1 - mean) / n);
  return {.estimate = {.value = value,
                       .low = std::max(0.0, value - 2 * error),
                       .high = std::min(1.0, value + 2 * error),
                       .method = "two standard errors (made up for tests)",
                       .reason = ""},
          .noise = noise_sd_factor * error,
          .noise_high = 1.6 * noise_sd_factor * error,
          .p_value = value > 1.6 * noise_sd_factor * error ? 0.001 : 0.4,
          .cross_fitted = value - noise_sd_factor * error,
          .noise_method = "expected range of equal groups"};
}

Result build(const std::array<double, 4>& accuracies, std::uint64_t seed) {
  base::Random random(seed);
  Result r;
  r.context = {.version = "0.1.0",
               .commit = "0123456789ab",
               .build = "GNU 12.2.0, Release",
               .command =
                   "kvphase audit runs/chunked.safetensors --task lookup --padding prefix "
                   "--items 50 --seed 7",
               .started = "2026-01-02T03:04:05Z",
               .host = "an example processor, 2 cores",
               .threads = 2,
               .seed = 7,
               .model_name = "",
               .model_kind = "checkpoint",
               .model_sha256 = std::string(64, 'a'),
               .model_config = {{"layers", 4}, {"width", 128}},
               .prompt_set_sha256 = std::string(64, 'b'),
               .warnings = {}};
  r.design = {.task = "lookup",
              .padding = "prefix",
              .modulus = kResidues,
              .items = kItems,
              .observations = kItems * kResidues,
              .scored = kItems * kResidues,
              .missing = 0,
              .options = {{"records", 64}, {"demonstrations", 8}}};
  r.positions = {.checked = true,
                 .ok = true,
                 .query_position_fixed = true,
                 .length_fixed = true,
                 .mean_low = 181.5,
                 .mean_high = 181.5,
                 .variance_low = 6920.25,
                 .variance_high = 6920.25,
                 .note = ""};
  r.data_kind = "item-level";
  record::Folded folded;
  folded.stride = kStride;
  folded.phases.resize(kStride);
  record::ScoreSummary margin;
  margin.name = "margin";
  std::int64_t correct = 0;
  for (std::int64_t residue = 0; residue < kResidues; ++residue) {
    const auto phase = static_cast<std::size_t>(residue % kStride);
    Group g = {.index = residue, .planned = kItems, .n = kItems, .correct = 0};
    for (std::int64_t item = 0; item < kItems; ++item) {
      if (random.uniform() < accuracies[phase]) ++*g.correct;
    }
    set_interval(g);
    g.mean_logprob = -0.1 - 2 * (1 - *g.accuracy);
    margin.residue_means.push_back(6 * *g.accuracy - 1.5);
    Group& folded_group = folded.phases[phase];
    folded_group.index = static_cast<std::int64_t>(phase);
    folded_group.planned += kItems;
    folded_group.n += kItems;
    folded_group.correct = folded_group.correct.value_or(0) + *g.correct;
    correct += *g.correct;
    r.residues.push_back(g);
  }
  for (Group& g : folded.phases) set_interval(g);
  folded.worst = extreme(folded.phases, true);
  folded.best = extreme(folded.phases, false);
  folded.gap = gap(folded.phases, 2.059);  // expected range of 4 standard normals
  r.worst = extreme(r.residues, true);
  r.best = extreme(r.residues, false);
  r.gap = gap(r.residues, 3.895);  // of 24
  r.folded = folded;
  const double mean = static_cast<double>(correct) / (kItems * kResidues);
  r.mean = {.value = mean,
            .low = mean - 0.02,
            .high = mean + 0.02,
            .method = "percentile bootstrap over items, 2000 replicates",
            .reason = ""};
  r.period = find_period(r.residues, random);
  margin.n = kItems * kResidues;
  margin.mean = 6 * mean - 1.5;
  margin.period = r.period;
  r.scores = {margin};
  r.notes = {"Made-up numbers: this record exists to test reports.",
             "A curve over one task says nothing about other tasks."};
  return r;
}

}  // namespace

Result example_result() {
  static const Result built = build({0.80, 1.00, 0.68, 0.20}, 7);
  Result r = built;
  r.title = "chunked W4/S4 on lookup, prefix padding";
  r.context.model_name = "W4/S4, 1 KV head";
  r.folded->source = "model";
  r.folded->phases.back().boundary = true;
  for (Group& g : r.residues) g.boundary = g.index % kStride == kStride - 1;
  r.verdict = {.kind = record::VerdictKind::kPeriodic,
               .sentence = fmt::format(
                   "Accuracy depends on position modulo 4: {:.1f}% at the worst phase (3, the "
                   "boundary) against {:.1f}% at the best (1), a gap of {:.1f} points where noise "
                   "alone would give {:.1f}.",
                   100 * *r.folded->worst.estimate.value, 100 * *r.folded->best.estimate.value,
                   100 * *r.folded->gap.estimate.value, 100 * *r.folded->gap.noise),
               .next_step =
                   "Repeat on fresh items with only phases 1 and 3, and compare with a "
                   "full-attention model of the same recipe."};
  return r;
}

record::Sequential example_sequential() {
  return {.rule = "whole items in blocks of 10 over the phases in question",
          .e_value = 45.5,
          .known_after = 20,
          .items = 30,
          .max_items = kItems,
          .prompts = 100,
          .planned = kItems * kStride,
          .saving = 0.5,
          .candidates = {3}};
}

record::Contrasts example_contrasts() {
  return {.data = "paired",
          .limits = "Items are taken as independent.",
          .groups = "phase",
          .modulus = kStride,
          .mean = {.value = 0.67, .low = 0.64, .high = 0.7, .method = "clustered", .reason = ""},
          .standard_error = 0.015,
          .test = {.method = "Cochran's Q over 4 phases",
                   .statistic = 98.25,
                   .freedom = 3,
                   .p_chi_squared = 1e-20,
                   .p_permutation = 0.00012,
                   .items = 48,
                   .informative = 47,
                   .dropped = 2},
          .spread = {.method = "two-way table",
                     .sd = 0.336,
                     .standard_error = 0.02,
                     .shrinkage = 0.98,
                     .shrunk = {0.79, 0.99, 0.67, 0.21}},
          .worst = 3,
          .pairs = {{.group = 0,
                     .difference = {.value = 0.6, .low = 0.5, .high = 0.7},
                     .only_group = 31,
                     .only_worst = 1,
                     .p = 0.0004,
                     .p_holm = 0.0024},
                    {.group = 1, .difference = {.reason = "no item has both groups"}},
                    {.group = 2,
                     .difference = {.value = 0.48, .low = 0.3, .high = 0.6},
                     .p = 0.01,
                     .p_holm = 0.03}},
          .pairs_method = "McNemar and Holm over all pairs"};
}

std::vector<record::Requirement> example_requirements() {
  return {
      {.text = "worst>=0.95",
       .outcome = "fail",
       .sentence = "At least one phase is below 95.0%: phase 3 has 11 right of 50, upper bound "
                   "36.8% (exact bounds, one prompt per item and phase; missing counts right)."},
      {.text = "gap<=0.9",
       .outcome = "pass",
       .sentence = "At most 90.0 points: the gap over phases of 4 is 80.0 points, 95% interval "
                   "74.4 to 85.6 points."},
      {.text = "no-period", .outcome = "inconclusive", .sentence = "More items would decide."}};
}

Result example_control() {
  static const Result built = build({0.97, 0.97, 0.97, 0.97}, 11);
  Result r = built;
  r.title = "full attention on lookup, prefix padding";
  r.context.model_name = "full attention, 1 KV head";
  r.context.model_sha256 = std::string(64, 'c');
  r.folded->source = "given";
  r.verdict = {
      .kind = record::VerdictKind::kNoPeriod,
      .sentence = fmt::format("No period found: accuracy is {:.1f}% and its spread over 24 "
                              "residues is what noise alone would give.",
                              100 * *r.mean.value),
      .next_step = "Nothing to do: the control is flat."};
  return r;
}

}  // namespace kvphase::test
