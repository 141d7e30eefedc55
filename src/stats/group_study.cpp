#include "stats/group_study.h"

#include <fmt/format.h>

#include <algorithm>

#include "stats/contrasts.h"
#include "stats/gap.h"

namespace kvphase::stats {

std::vector<GroupSetting> group_settings() {
  std::vector<GroupSetting> settings;
  const auto add = [&](std::int64_t modulus, std::string name, const SimulatedAudit& audit,
                       bool exact = true) {
    settings.push_back(
        {fmt::format("groups mod {}: {}", modulus, std::move(name)), modulus, audit, exact});
  };
  // Independent answers.
  add(8, "20 items", {.items = 20});
  add(24, "50 items", {.items = 50});
  add(8, "50 items, 20 offsets, aligned", {.items = 50, .offsets = 20, .start_range = 0});
  add(16, "50 items", {.items = 50});
  add(16, "50 items, aligned", {.items = 50, .start_range = 0});
  add(24, "50 items, 8 offsets", {.items = 50, .offsets = 8});
  add(24, "50 items, autocorrelated noise (SD 1.5 logits, memory 0.7)",
      {.items = 50, .noise_sd = 1.5});
  add(24, "50 items, depth trend of 3 logits", {.items = 50, .depth_trend = 3});
  // Where all items start alike, every item's beginning lies at the same group as its end.
  for (const std::int64_t modulus : {8, 24}) {
    add(modulus, "50 items, slow drift of each item's own (SD 1.5 logits, memory 0.98), aligned",
        {.items = 50, .start_range = 0, .noise_sd = 1.5, .noise_memory = 0.98}, false);
  }
  // Items that repeat with phases of their own. Chance 0.99, at the weak phases 0.005.
  const auto own = [&](std::int64_t modulus, std::string name, SimulatedAudit audit,
                       bool exact = true) {
    if (audit.own_period == 0) audit.own_period = 8;
    if (audit.own_drop == 0) {
      audit.accuracy = 0.99;
      audit.own_drop = 10;
    }
    add(modulus, "phases of their own, " + std::move(name), audit, exact);
  };
  own(8, "50 items, one weak phase of 8", {.items = 50});
  own(8, "50 items, one weak phase of 8, aligned", {.items = 50, .start_range = 0});
  for (const std::int64_t modulus : {2, 4, 8, 24}) {
    own(modulus, "50 items, each phase of 8 weak with chance 0.3",
        {.items = 50, .own_chance = 0.3});
  }
  for (const std::int64_t modulus : {8, 24}) {
    own(modulus, "50 items, each phase of 8 weak with chance 0.3, aligned",
        {.items = 50, .start_range = 0, .own_chance = 0.3});
  }
  own(5, "50 items, each phase of 8 weak with chance 0.3, aligned",
      {.items = 50, .start_range = 0, .own_chance = 0.3});
  own(8, "288 items, each phase of 8 weak with chance 0.3", {.items = 288, .own_chance = 0.3});
  own(8, "20 items, each phase of 8 weak with chance 0.3", {.items = 20, .own_chance = 0.3});
  own(8, "10 items, one weak phase of 8", {.items = 10});
  own(8, "8 items, one weak phase of 8", {.items = 8}, false);
  own(8, "50 items, 20 offsets, each phase of 8 weak with chance 0.3",
      {.items = 50, .offsets = 20, .own_chance = 0.3});
  own(8, "50 items, 20 offsets, each phase of 8 weak with chance 0.3, aligned",
      {.items = 50, .offsets = 20, .start_range = 0, .own_chance = 0.3});
  for (const std::int64_t range : {1000, 0}) {
    own(16,
        std::string("50 items, each phase of 16 weak with chance 0.3") +
            (range == 0 ? ", aligned" : ""),
        {.items = 50, .start_range = range, .own_period = 16, .own_chance = 0.3});
  }
  own(8, "50 items, one weak phase of 8 by 2 logits, item effects of SD 2 logits, depth trend of 3",
      {.items = 50, .item_sd = 2, .depth_trend = 3, .own_drop = 2});
  own(4, "50 items, continuous score, one phase of 4 by 3",
      {.items = 50, .own_period = 4, .own_drop = 3, .continuous = true});
  // Power: a phase that all items share.
  const auto weak = [&](std::int64_t period, std::string name, SimulatedAudit audit) {
    audit.period = period;
    add(period, std::move(name), audit);
  };
  weak(4, "one phase -20 points, 20 items", {.items = 20, .drop = 0.2});
  weak(4, "one phase -20 points, 20 items, aligned", {.items = 20, .start_range = 0, .drop = 0.2});
  weak(8, "one phase -30 points, 20 items", {.items = 20, .drop = 0.3});
  weak(16, "one phase -30 points, 50 items", {.items = 50, .drop = 0.3});
  weak(24, "one phase -30 points, 50 items, aligned", {.items = 50, .start_range = 0, .drop = 0.3});
  weak(4, "one phase -1 logit, 10 items, margin",
       {.items = 10, .item_sd = 1, .drop = 1, .continuous = true});
  weak(4, "one phase -40 points, 10 items", {.items = 10, .drop = 0.4});
  weak(2, "one phase -20 points, 20 items", {.items = 20, .drop = 0.2});
  for (const std::int64_t items : {20, 50}) {
    weak(4,
         fmt::format("one phase -40 points, {} items with phases of their own (each of 8 weak by 4 "
                     "logits with chance 0.3)",
                     items),
         {.items = items,
          .accuracy = 0.9,
          .own_period = 8,
          .own_drop = 4,
          .own_chance = 0.3,
          .drop = 0.4});
  }
  return settings;
}

std::array<bool, kGroupQuestions.size()> group_rejections(const ScoreTable& table,
                                                          std::int64_t modulus, std::int64_t draws,
                                                          double level, std::uint64_t seed) {
  const GroupTotals totals = group_totals(table, modulus);
  std::optional<std::int64_t> worst;
  const auto mean = [&](std::int64_t g) { return group_mean(totals, static_cast<std::size_t>(g)); };
  for (std::int64_t g = 0; g < modulus; ++g) {
    if (mean(g) && (!worst || *mean(g) < *mean(*worst))) worst = g;
  }
  const Contrasts c = contrast_items(table, {.modulus = modulus,
                                             .reference = worst,
                                             .permutations = draws,
                                             .level = 1 - level,
                                             .seed = seed});
  const auto rejects = [&](const std::optional<double>& p) { return p.value_or(1) <= level; };
  return {
      rejects(
          gap_noise_items(table, {.modulus = modulus, .replicates = draws, .seed = seed}).p_value),
      rejects(c.test.p_permutation), rejects(c.test.p_chi_squared),
      std::ranges::any_of(c.pairs, rejects, &Contrast::p_holm)};
}

}  // namespace kvphase::stats
