#include "stats/calibration.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/clock.h"
#include "base/error.h"
#include "base/random.h"
#include "stats/bootstrap.h"
#include "stats/group_study.h"
#include "stats/interval.h"
#include "stats/period.h"
#include "stats/sampling.h"
#include "stats/simulate.h"

namespace kvphase::stats {
namespace {

constexpr double kMostFalseAlarms = 0.06;  // at level 0.05
constexpr double kFewestRightPeriods = 0.9;
// Of the tests over groups: 0.05 and three standard errors of 2,000 runs, since dozens are asked.
constexpr double kMostRejections = 0.065;

struct Setting {
  std::string name;
  SimulatedAudit audit;
};

// Audits without a period. "aligned": every item starts at position 0, which is the harder case for
// drift; else items start anywhere below 1,000.
std::vector<Setting> null_settings() {
  std::vector<Setting> settings = {
      {"20 items", {.items = 20}},
      {"50 items", {.items = 50}},
      {"200 items", {.items = 200}},
      {"20 items, aligned", {.items = 20, .start_range = 0}},
      {"50 items, 8 offsets", {.items = 50, .offsets = 8}},
      {"50 items, accuracy 0.05", {.items = 50, .accuracy = 0.05}},
      {"50 items, accuracy 0.5", {.items = 50, .accuracy = 0.5}},
      {"50 items, accuracy 0.95", {.items = 50, .accuracy = 0.95}},
      {"20 items, accuracy 0.05", {.items = 20, .accuracy = 0.05}},
      {"50 items, item effects of SD 3 logits", {.items = 50, .item_sd = 3}},
      {"50 items, depth trend of 3 logits", {.items = 50, .depth_trend = 3}},
      {"200 items, depth trend of 3 logits, aligned",
       {.items = 200, .start_range = 0, .depth_trend = 3}},
      {"50 items, slow drift while running (SD 1 logit, memory 0.98), aligned",
       {.items = 50, .start_range = 0, .walk_sd = 1}},
      {"200 items, slow wave over the offsets (0.7 logits, length 36), aligned",
       {.items = 200, .start_range = 0, .wave = 0.7}},
      {"50 items, autocorrelated noise (SD 1.5 logits, memory 0.7)",
       {.items = 50, .noise_sd = 1.5}},
      {"50 items, the same, aligned", {.items = 50, .start_range = 0, .noise_sd = 1.5}},
      {"50 items, continuous score, autocorrelated noise (SD 2, memory 0.9), aligned",
       {.items = 50, .start_range = 0, .noise_sd = 2, .noise_memory = 0.9, .continuous = true}},
      {"50 items, continuous score around 1e8", {.items = 50, .continuous = true, .level = 1e8}},
      // Positions that differ without a period, and curves longer than any candidate.
      {"200 items, 8 positions that differ (up to 0.45 logits), aligned",
       {.items = 200, .offsets = 8, .start_range = 0, .places = 8, .place_spread = 0.45}},
      {"50 items, 8 positions that differ (up to 0.9 logits), aligned",
       {.items = 50, .offsets = 8, .start_range = 0, .places = 8, .place_spread = 0.9}},
      {"200 items, 24 positions that differ (up to 0.45 logits), aligned",
       {.items = 200, .start_range = 0, .places = 24, .place_spread = 0.45}},
      {"20 items, 24 positions that differ (up to 0.9 logits), aligned",
       {.items = 20, .start_range = 0, .places = 24, .place_spread = 0.9}},
      {"200 items, sine over the offsets (0.7 logits, length 24), aligned",
       {.items = 200, .start_range = 0, .wave = 0.7, .wave_length = 24}},
      {"200 items, sine over the offsets (0.7 logits, length 20), aligned",
       {.items = 200, .start_range = 0, .wave = 0.7, .wave_length = 20}},
      {"200 items, triangle over the offsets (0.7 logits, length 24), aligned",
       {.items = 200,
        .start_range = 0,
        .wave = 0.7,
        .wave_length = 24,
        .wave_shape = WaveShape::kTriangle}},
      {"200 items, half of the offsets 1.4 logits above the other half, aligned",
       {.items = 200,
        .start_range = 0,
        .wave = 0.7,
        .wave_length = 24,
        .wave_shape = WaveShape::kStep}},
  };
  const auto own = [&](std::string name, SimulatedAudit audit) {
    settings.push_back({"items with phases of their own: " + std::move(name), std::move(audit)});
  };
  // Chance 0.99, at the weak phases 0.005: answers a period apart correlate at 0.9.
  for (const std::int64_t items : {20, 50, 288}) {
    own(fmt::format("{} items, one weak phase of 8", items),
        {.items = items, .accuracy = 0.99, .own_period = 8, .own_drop = 10});
    own(fmt::format("{} items, each phase of 8 weak with chance 0.3", items),
        {.items = items, .accuracy = 0.99, .own_period = 8, .own_drop = 10, .own_chance = 0.3});
  }
  for (const std::int64_t items : {6, 8}) {
    own(fmt::format("{} items, one weak phase of 4", items),
        {.items = items, .accuracy = 0.99, .own_period = 4, .own_drop = 10});
  }
  own("50 items, 20 offsets, one weak phase of 8",
      {.items = 50, .offsets = 20, .accuracy = 0.99, .own_period = 8, .own_drop = 10});
  own("50 items, one weak phase of 4",
      {.items = 50, .accuracy = 0.99, .own_period = 4, .own_drop = 10});
  own("50 items, one weak phase of 5",
      {.items = 50, .accuracy = 0.99, .own_period = 5, .own_drop = 10});
  own("50 items, each phase of 12 weak with chance 0.3",
      {.items = 50, .accuracy = 0.99, .own_period = 12, .own_drop = 10, .own_chance = 0.3});
  own("50 items, one weak phase of 8 by 2 logits, item effects of SD 2 logits, depth trend of 3",
      {.items = 50, .item_sd = 2, .depth_trend = 3, .own_period = 8, .own_drop = 2});
  own("50 items, each phase of 8 weak with chance 0.3, aligned", {.items = 50,
                                                                  .start_range = 0,
                                                                  .accuracy = 0.99,
                                                                  .own_period = 8,
                                                                  .own_drop = 10,
                                                                  .own_chance = 0.3});
  own("50 items, each phase of 8 weak with chance 0.3, item effects and depth trend of 3, aligned",
      {.items = 50,
       .start_range = 0,
       .accuracy = 0.9,
       .item_sd = 2,
       .depth_trend = 3,
       .own_period = 8,
       .own_drop = 6,
       .own_chance = 0.3});
  own("50 items, continuous score, one phase of 4 by 3",
      {.items = 50, .own_period = 4, .own_drop = 3, .continuous = true});
  for (const std::int64_t offsets : {12, 16, 20}) {
    settings.push_back(
        {fmt::format("200 items, half of {} offsets 1.4 logits above the other half, aligned",
                     offsets),
         {.items = 200,
          .offsets = offsets,
          .start_range = 0,
          .wave = 0.7,
          .wave_length = static_cast<double>(offsets),
          .wave_shape = WaveShape::kStep}});
  }
  return settings;
}

struct CountSetting {
  std::string name;
  std::int64_t modulus = 24;
  std::int64_t n = 0;  // independent prompts per residue
  double accuracy = 0;
  double weak = 0;             // taken from one random residue
  double spread = 0;           // residues differ by up to this either way (uniform)
  double triangle = 0;         // a triangle over all residues: from top to bottom
  double step = 0;             // taken from the second half of the residues
  std::vector<double> phases;  // shares in place of accuracy, one per phase
  SimulatedAudit audit;        // used when n is 0: paired items, counted
};

ResidueCounts simulate_counts(const CountSetting& s, base::Random& random) {
  if (s.n == 0) return counts_of(simulate(s.audit, random), s.modulus);
  const auto m = static_cast<std::size_t>(s.modulus);
  const std::size_t weak = s.weak > 0 ? random.uniform_index(m) : m;
  ResidueCounts counts;
  for (std::size_t r = 0; r < m; ++r) {
    double share = s.phases.empty() ? s.accuracy : s.phases[r % s.phases.size()];
    if (r == weak) share -= s.weak;
    if (s.spread > 0) share += s.spread * (2 * random.uniform() - 1);
    const double side = std::abs(2 * static_cast<double>(r) / static_cast<double>(m) - 1);
    share += s.triangle * (side - 0.5);
    if (2 * r >= m) share -= s.step;
    counts.n.push_back(s.n);
    counts.correct.push_back(draw_binomial(s.n, share, random));
  }
  return counts;
}

std::vector<CountSetting> count_settings() {
  std::vector<CountSetting> settings = {
      {.name = "counts mod 24, 1,000 independent prompts each, accuracy 0.2",
       .n = 1000,
       .accuracy = 0.2},
      {.name = "counts mod 24, 20 independent prompts each, accuracy 0.95",
       .n = 20,
       .accuracy = 0.95},
      {.name = "counts mod 8, 256 independent prompts each, accuracy 0.5",
       .modulus = 8,
       .n = 256,
       .accuracy = 0.5},
      {.name = "counts mod 8, 256 prompts each, one residue of 80 % weaker by 5 points",
       .modulus = 8,
       .n = 256,
       .accuracy = 0.8,
       .weak = 0.05},
      {.name = "counts mod 8, 256 prompts each, one residue of 80 % weaker by 10 points",
       .modulus = 8,
       .n = 256,
       .accuracy = 0.8,
       .weak = 0.10},
      {.name = "counts mod 8, 256 prompts each, one residue of 80 % weaker by 15 points",
       .modulus = 8,
       .n = 256,
       .accuracy = 0.8,
       .weak = 0.15},
      {.name = "counts mod 8, 256 prompts each, residues uniform in 75 to 85 %",
       .modulus = 8,
       .n = 256,
       .accuracy = 0.8,
       .spread = 0.05},
      {.name = "counts mod 8, 256 prompts each, residues uniform in 70 to 90 %",
       .modulus = 8,
       .n = 256,
       .accuracy = 0.8,
       .spread = 0.10},
      {.name = "counts mod 24, 1,000 prompts each, residues uniform in 77 to 83 %",
       .n = 1000,
       .accuracy = 0.8,
       .spread = 0.03},
      {.name = "counts mod 24, 1,000 prompts each, triangle from 60 to 90 %",
       .n = 1000,
       .accuracy = 0.75,
       .triangle = 0.3},
      {.name = "counts mod 24 of 200 paired items, item effects of SD 2 logits",
       .audit = {.items = 200, .start_range = 0, .item_sd = 2}},
      {.name = "counts mod 24 of 200 paired items, depth trend of 2 logits",
       .audit = {.items = 200, .start_range = 0, .depth_trend = 2}},
  };
  for (const std::int64_t modulus : {8, 12, 16, 24, 32}) {
    settings.push_back(
        {.name = fmt::format(
             "counts mod {}, 400 prompts each, the second half at 60 %, the first at 90 %",
             modulus),
         .modulus = modulus,
         .n = 400,
         .accuracy = 0.9,
         .step = 0.3});
  }
  return settings;
}

struct PowerSetting {
  std::string name;
  SimulatedAudit audit;
  std::optional<double> found;  // named at least this often
  std::optional<double> right;  // and rightly
};

std::vector<PowerSetting> power_settings() {
  std::vector<PowerSetting> settings;
  for (const std::int64_t s : {4, 6, 8}) {
    for (const std::int64_t range : {1000, 0}) {
      settings.push_back({fmt::format("period {}, one phase -40 points, 20 items{}", s,
                                      range == 0 ? ", aligned" : ""),
                          {.items = 20, .start_range = range, .period = s, .drop = 0.4},
                          {},
                          kFewestRightPeriods});
    }
  }
  // Found in an independent study of 40 runs each: 32, 30 and 29 of 40.
  settings.push_back({"period 4, one phase -20 points, 20 items, aligned",
                      {.items = 20, .start_range = 0, .period = 4, .drop = 0.2},
                      {},
                      {}});
  settings.push_back({"period 6, one phase -25 points, 20 items, aligned",
                      {.items = 20, .start_range = 0, .period = 6, .drop = 0.25},
                      {},
                      {}});
  settings.push_back({"period 8, one phase -30 points, 20 items, aligned",
                      {.items = 20, .start_range = 0, .period = 8, .drop = 0.3},
                      {},
                      {}});
  settings.push_back({"period 4, one phase -20 points, 20 items",
                      {.items = 20, .period = 4, .drop = 0.2},
                      {},
                      {}});
  settings.push_back({"period 6, one phase -25 points, 20 items",
                      {.items = 20, .period = 6, .drop = 0.25},
                      {},
                      {}});
  settings.push_back({"period 8, one phase -30 points, 20 items",
                      {.items = 20, .period = 8, .drop = 0.3},
                      {},
                      {}});
  settings.push_back({"period 12, one phase -40 points, 20 items",
                      {.items = 20, .period = 12, .drop = 0.4},
                      {},
                      {}});
  settings.push_back({"period 4, one phase -40 points, 20 items, depth trend of 2 logits, aligned",
                      {.items = 20, .start_range = 0, .depth_trend = 2, .period = 4, .drop = 0.4},
                      {},
                      kFewestRightPeriods});
  settings.push_back({"period 2, phases 0.950 and 0.897, 400 items, 8 offsets",
                      {.items = 400, .offsets = 8, .period = 2, .phase_chance = {0.950, 0.897}},
                      {},
                      kFewestRightPeriods});
  settings.push_back({"period 2, phases 0.950 and 0.897, 400 items, 24 offsets",
                      {.items = 400, .period = 2, .phase_chance = {0.950, 0.897}},
                      {},
                      kFewestRightPeriods});
  settings.push_back(
      {"period 2, phases 0.950 and 0.897, 400 items, 8 offsets, aligned",
       {.items = 400, .offsets = 8, .start_range = 0, .period = 2, .phase_chance = {0.950, 0.897}},
       {},
       kFewestRightPeriods});
  settings.push_back(
      {"period 4, one phase -1 logit, 20 items, margin around 1e8",
       {.items = 20, .item_sd = 1, .period = 4, .drop = 1, .continuous = true, .level = 1e8},
       {},
       kFewestRightPeriods});
  // A weaker longer period on a strong shorter one.
  for (const std::int64_t range : {1000, 0}) {
    settings.push_back(
        {fmt::format("period 8 on 4, phases 3 and 7 at 60 and 50 % (80 %), 200 items{}",
                     range == 0 ? ", aligned" : ""),
         {.items = 200,
          .start_range = range,
          .period = 8,
          .phase_chance = {0.8, 0.8, 0.8, 0.6, 0.8, 0.8, 0.8, 0.5}},
         {},
         {}});
  }
  // A common period beside phases of each item's own.
  for (const std::int64_t items : {20, 50}) {
    settings.push_back(
        {fmt::format("period 4, one phase -40 points, {} items with phases of their own (each of 8 "
                     "weak by 4 logits with chance 0.3)",
                     items),
         {.items = items,
          .accuracy = 0.9,
          .own_period = 8,
          .own_drop = 4,
          .own_chance = 0.3,
          .period = 4,
          .drop = 0.4},
         {},
         {}});
  }
  // The same answers as a margin and as right or wrong: what a continuous score saves.
  for (const std::int64_t items : {5, 10, 20, 40}) {
    for (const bool sign : {false, true}) {
      settings.push_back(
          {fmt::format("period 4, one phase -1 logit, {} items, {}", items,
                       sign ? "right or wrong" : "margin"),
           {.items = items, .item_sd = 1, .period = 4, .drop = 1, .continuous = true, .sign = sign},
           {},
           {}});
    }
  }
  return settings;
}

struct CountPowerSetting {
  CountSetting counts;
  std::int64_t period = 0;
  std::optional<double> right;
};

// Shapes as published for deployed models (arXiv 2609.36322): phases with binomial noise.
std::vector<CountPowerSetting> count_power_settings() {
  const auto like = [](std::string name, std::int64_t n, std::vector<double> phases, bool wanted) {
    const auto period = static_cast<std::int64_t>(phases.size());
    return CountPowerSetting{
        .counts = {.name = std::move(name), .modulus = 8, .n = n, .phases = std::move(phases)},
        .period = period,
        .right = wanted ? std::optional(kFewestRightPeriods) : std::nullopt};
  };
  const auto nested = [&](std::string name, std::int64_t n, std::vector<double> phases,
                          bool wanted) {
    CountPowerSetting setting = like(std::move(name), n, std::move(phases), wanted);
    setting.counts.modulus = 24;
    return setting;
  };
  return {
      like("counts mod 8, 256 prompts each, phases 44, 70, 65, 31 %", 256,
           {0.443, 0.697, 0.652, 0.313}, true),
      like("counts mod 8, 256 prompts each, phases 62, 90, 80, 57 %", 256,
           {0.617, 0.897, 0.797, 0.572}, true),
      like("counts mod 8, 256 prompts each, phases 81, 90, 99, 96 %", 256,
           {0.809, 0.895, 0.988, 0.963}, true),
      like("counts mod 8, 256 prompts each, phases 78, 90, 92, 79 %", 256,
           {0.777, 0.897, 0.918, 0.785}, true),
      like("counts mod 8, 2,560 prompts each, phases 95.0 and 89.7 %", 2560, {0.950, 0.897}, true),
      like("counts mod 8, 400 prompts each, phases 95.0 and 89.7 %", 400, {0.950, 0.897}, true),
      like("counts mod 8, 256 prompts each, one phase of 4 weaker by 15 points (80 %)", 256,
           {0.8, 0.8, 0.8, 0.65}, false),
      like("counts mod 8, 256 prompts each, one phase of 4 weaker by 10 points (80 %)", 256,
           {0.8, 0.8, 0.8, 0.7}, false),
      nested("counts mod 24, 256 prompts each, period 8 on 4, phases 3 and 7 at 60 and 50 % (80 %)",
             256, {0.8, 0.8, 0.8, 0.6, 0.8, 0.8, 0.8, 0.5}, false),
      nested("counts mod 24, 512 prompts each, period 8 on 4, phases 3 and 7 at 60 and 50 % (80 %)",
             512, {0.8, 0.8, 0.8, 0.6, 0.8, 0.8, 0.8, 0.5}, true),
      nested(
          "counts mod 24, 512 prompts each, period 12 on 6, phases 5 and 11 at 60 and 50 % (80 %)",
          512, {0.8, 0.8, 0.8, 0.8, 0.8, 0.6, 0.8, 0.8, 0.8, 0.8, 0.8, 0.5}, false),
  };
}

class Study {
 public:
  explicit Study(const CalibrationOptions& options) : options_(options) {}

  CalibrationResult run() {
    const base::Stopwatch watch;
    for (const auto& s : null_settings()) false_alarms(s);
    for (const auto& s : count_settings()) count_false_alarms(s);
    for (const std::int64_t items : {20, 50, 200}) {
      coverage(items, {0.443, 0.697, 0.652, 0.313}, "4 phases 38 points apart", true);
    }
    coverage(50, {0.8, 0.8, 0.8, 0.6}, "one weak phase of 4, three alike", true);
    for (const double share : {0.05, 0.2, 0.5, 0.8, 0.95}) {
      coverage(50, std::vector<double>(4, share),
               share == 0.8 ? "4 phases alike" : fmt::format("4 phases alike at {}", share), false);
    }
    for (const auto& s : power_settings()) power(s);
    for (const auto& s : count_power_settings()) count_power(s);
    for (const auto& s : group_settings()) groups(s);
    result_.options = options_;
    result_.options.progress = nullptr;
    result_.seconds = watch.seconds();
    return result_;
  }

 private:
  // A stream per setting and run: adding settings never changes the others.
  base::Random stream(const std::string& setting, std::int64_t run) const {
    return base::Random(base::derive_seed(options_.seed, "stats.calibration/" + setting,
                                          {static_cast<std::uint64_t>(run)}));
  }

  PeriodOptions period_options(std::int64_t run) const {
    return {.permutations = options_.permutations,
            .other_permutations = options_.permutations,
            .level = options_.level,
            .seed = base::derive_seed(options_.seed, "stats.calibration.analysis",
                                      {static_cast<std::uint64_t>(run)}),
            .always_second = false};
  }

  void add(CalibrationKind kind, const std::string& setting, const std::string& question,
           std::int64_t hits, std::int64_t runs, std::optional<double> at_most,
           std::optional<double> at_least) {
    CalibrationRow row{.kind = kind,
                       .setting = setting,
                       .question = question,
                       .rate = clopper_pearson(hits, runs),
                       .at_most = at_most,
                       .at_least = at_least};
    if (at_most || at_least) {
      row.met =
          (!at_most || *row.rate.value <= *at_most) && (!at_least || *row.rate.value >= *at_least);
      result_.all_met = result_.all_met && *row.met;
    }
    if (options_.progress) {
      options_.progress(fmt::format("{}: {}: {:.3f} [{:.3f}, {:.3f}] of {} runs{}", setting,
                                    question, *row.rate.value, *row.rate.low, *row.rate.high, runs,
                                    row.met && !*row.met ? " NOT MET" : ""));
    }
    result_.rows.push_back(std::move(row));
  }

  bool left_out(const std::string& setting) const {
    return setting.find(options_.only) == std::string::npos;
  }

  void false_alarms(const Setting& s) {
    if (left_out(s.name)) return;
    std::int64_t named = 0;
    for (std::int64_t run = 0; run < options_.null_runs; ++run) {
      base::Random random = stream(s.name, run);
      named += find_period(simulate(s.audit, random), period_options(run)).period ? 1 : 0;
    }
    add(CalibrationKind::kFalseAlarm, s.name, "a period was named", named, options_.null_runs,
        kMostFalseAlarms, {});
  }

  void count_false_alarms(const CountSetting& s) {
    if (left_out(s.name)) return;
    std::int64_t named = 0;
    for (std::int64_t run = 0; run < options_.null_runs; ++run) {
      base::Random random = stream(s.name, run);
      named += find_period(simulate_counts(s, random), period_options(run)).period ? 1 : 0;
    }
    add(CalibrationKind::kFalseAlarm, s.name, "a period was named", named, options_.null_runs,
        kMostFalseAlarms, {});
  }

  // Shares over all items; items have intercepts of SD 1 logit.
  void coverage(std::int64_t items, const std::vector<double>& shares, const std::string& what,
                bool apart) {
    constexpr double kItemSd = 1;
    const auto phases = static_cast<std::int64_t>(shares.size());
    SimulatedAudit audit{.items = items, .item_sd = kItemSd, .period = phases};
    double mean = 0;
    for (const double share : shares) {
      audit.phase_chance.push_back(average_item_chance(share, kItemSd));
      mean += share / static_cast<double>(phases);
    }
    const double worst = std::ranges::min(shares);
    const double best = std::ranges::max(shares);
    const double gap = best - worst;
    const std::string name = fmt::format("{} items, {}", items, what);
    if (left_out(name)) return;
    std::int64_t hits[4] = {};
    for (std::int64_t run = 0; run < options_.coverage_runs; ++run) {
      base::Random random = stream(name, run);
      const auto b =
          bootstrap_items(simulate(audit, random), {.modulus = phases,
                                                    .replicates = options_.replicates,
                                                    .seed = static_cast<std::uint64_t>(run),
                                                    .right_wrong = true});
      const auto covers = [](const Estimate& e, double truth) {
        return *e.low <= truth && truth <= *e.high ? 1 : 0;
      };
      hits[0] += covers(b.mean, mean);
      hits[1] += covers(b.worst, worst);
      hits[2] += covers(b.gap, gap);
      hits[3] += covers(b.best, best);
    }
    const char* labels[4] = {"95 % interval covers the mean", "95 % interval covers the worst",
                             "95 % interval covers the gap", "95 % interval covers the best"};
    for (int k = 0; k < 4; ++k) {
      add(CalibrationKind::kCoverage, name + (apart ? "" : " (the gap is 0)"), labels[k], hits[k],
          options_.coverage_runs, {}, {});
    }
  }

  void power(const PowerSetting& s) {
    if (left_out(s.name)) return;
    std::int64_t named = 0;
    std::int64_t right = 0;
    for (std::int64_t run = 0; run < options_.power_runs; ++run) {
      base::Random random = stream(s.name, run);
      const auto found = find_period(simulate(s.audit, random), period_options(run)).period;
      named += found ? 1 : 0;
      right += found == s.audit.period ? 1 : 0;
    }
    add(CalibrationKind::kPower, s.name, "a period was named", named, options_.power_runs, {},
        s.found);
    add(CalibrationKind::kPower, s.name, "the right period was named", right, options_.power_runs,
        {}, s.right);
  }

  void count_power(const CountPowerSetting& s) {
    if (left_out(s.counts.name)) return;
    std::int64_t named = 0;
    std::int64_t right = 0;
    for (std::int64_t run = 0; run < options_.power_runs; ++run) {
      base::Random random = stream(s.counts.name, run);
      const auto found = find_period(simulate_counts(s.counts, random), period_options(run)).period;
      named += found ? 1 : 0;
      right += found == s.period ? 1 : 0;
    }
    add(CalibrationKind::kPower, s.counts.name, "a period was named", named, options_.power_runs,
        {}, {});
    add(CalibrationKind::kPower, s.counts.name, "the right period was named", right,
        options_.power_runs, {}, s.right);
  }

  void groups(const GroupSetting& s) {
    if (left_out(s.name)) return;
    const bool power = s.audit.period > 0;
    const std::int64_t runs = power ? options_.power_runs : options_.null_runs;
    std::array<std::int64_t, kGroupQuestions.size()> hits = {};
    for (std::int64_t run = 0; run < runs; ++run) {
      base::Random random = stream(s.name, run);
      const auto rejects =
          group_rejections(simulate(s.audit, random), s.modulus, options_.permutations,
                           options_.level, static_cast<std::uint64_t>(run) + 1);
      for (std::size_t k = 0; k < hits.size(); ++k) hits[k] += rejects[k] ? 1 : 0;
    }
    for (std::size_t k = 0; k < hits.size(); ++k) {
      const bool bounded = !power && s.exact && kGroupQuestions[k].by_shifts;
      add(CalibrationKind::kGroups, s.name, kGroupQuestions[k].text, hits[k], runs,
          bounded ? std::optional(kMostRejections) : std::nullopt, {});
    }
  }

  const CalibrationOptions& options_;
  CalibrationResult result_;
};

const char* kind_name(CalibrationKind kind) {
  switch (kind) {
    case CalibrationKind::kFalseAlarm:
      return "false alarms";
    case CalibrationKind::kCoverage:
      return "interval coverage";
    case CalibrationKind::kPower:
      return "power";
    case CalibrationKind::kGroups:
      break;
  }
  return "tests over groups";
}

}  // namespace

CalibrationResult run_calibration(const CalibrationOptions& options) {
  if (options.null_runs < 1 || options.coverage_runs < 1 || options.power_runs < 1 ||
      options.permutations < 19 || options.replicates < 20) {
    throw base::usage_error("calibrate",
                            "expected at least 1 run, 19 permutations and 20 replicates, got {}, "
                            "{}, {}, {} and {}",
                            options.null_runs, options.coverage_runs, options.power_runs,
                            options.permutations, options.replicates);
  }
  return Study(options).run();
}

base::Json to_json(const CalibrationResult& result) {
  base::Json json;
  json["schema"] = "kvphase.calibration/1";
  json["null_runs"] = result.options.null_runs;
  json["coverage_runs"] = result.options.coverage_runs;
  json["power_runs"] = result.options.power_runs;
  json["permutations"] = result.options.permutations;
  json["replicates"] = result.options.replicates;
  json["level"] = result.options.level;
  json["seed"] = result.options.seed;
  json["seconds"] = result.seconds;
  json["all_met"] = result.all_met;
  base::Json rows = base::Json::array();
  for (const auto& row : result.rows) {
    base::Json r;
    r["kind"] = kind_name(row.kind);
    r["setting"] = row.setting;
    r["question"] = row.question;
    r["runs"] = row.rate.n;
    r["rate"] = base::number_or_null(row.rate.value);
    r["low"] = base::number_or_null(row.rate.low);
    r["high"] = base::number_or_null(row.rate.high);
    r["at_most"] = base::number_or_null(row.at_most);
    r["at_least"] = base::number_or_null(row.at_least);
    r["met"] = row.met ? base::Json(*row.met) : base::Json(nullptr);
    rows.push_back(std::move(r));
  }
  json["rows"] = std::move(rows);
  return json;
}

std::string to_markdown(const CalibrationResult& result) {
  std::string text;
  for (const auto kind : {CalibrationKind::kFalseAlarm, CalibrationKind::kCoverage,
                          CalibrationKind::kPower, CalibrationKind::kGroups}) {
    text += fmt::format(
        "\n| {} | counted | runs | share | 95 % interval | wanted |\n"
        "|---|---|---|---|---|---|\n",
        kind_name(kind));
    for (const auto& row : result.rows) {
      if (row.kind != kind) continue;
      const std::string wanted = row.at_most    ? fmt::format("at most {:.2f}", *row.at_most)
                                 : row.at_least ? fmt::format("at least {:.2f}", *row.at_least)
                                                : "reported";
      text += fmt::format("| {} | {} | {} | {:.3f} | {:.3f} to {:.3f} | {}{} |\n", row.setting,
                          row.question, row.rate.n, *row.rate.value, *row.rate.low, *row.rate.high,
                          wanted, row.met && !*row.met ? ": **not met**" : "");
    }
  }
  return text;
}

}  // namespace kvphase::stats
