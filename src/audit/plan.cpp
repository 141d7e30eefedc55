#include "audit/plan.h"

#include <algorithm>
#include <cmath>

#include "audit/findable.h"
#include "base/error.h"
#include "base/random.h"
#include "stats/power.h"
#include "stats/simulate.h"

namespace kvphase::audit {
namespace {

constexpr std::int64_t kDefaultOffsets = 24;
constexpr std::int64_t kUnknownPeriod = 4;  // stands for an unknown stride: the commonest one
constexpr std::int64_t kPermutations = 199;
constexpr std::int64_t kMostItems = 100000;
constexpr std::int64_t kFewestRuns = 50;
// Work of one power figure, in permuted cells: a few seconds. An unknown period costs several
// times as many a cell: candidates, the second null, nested tests.
constexpr double kMostWork = 7e8;
constexpr double kSearchCost = 3;
constexpr std::int64_t kMostCochranItems = 6400;
constexpr std::int64_t kMostCochranCells = 250000;

void check(const PlanRequest& r, std::int64_t offsets, std::int64_t period) {
  const auto open = [](double x) { return x > 0 && x < 1; };
  if (!open(r.gap) || !open(r.accuracy) || r.gap > r.accuracy) {
    throw base::usage_error(
        "plan", "expected 0 < gap <= accuracy < 1, got a gap of {} and an accuracy of {}", r.gap,
        r.accuracy);
  }
  if (!open(r.power) || !open(r.level) || r.power <= r.level) {
    throw base::usage_error("plan", "expected 0 < level < power < 1, got {} and {}", r.level,
                            r.power);
  }
  // With 199 permutations no p is below 1/200: a smaller level would never be reached.
  constexpr double kLeastLevel = 0.01;
  if (r.level < kLeastLevel) {
    throw base::usage_error("plan", "expected a level of {} or more, got {}", kLeastLevel, r.level);
  }
  constexpr std::int64_t kMostOffsets = 4096;  // more prompts per item than anybody asks
  constexpr std::int64_t kMostTokens = 100'000'000;
  if (period < 2 || period > kMostOffsets / 2 || offsets > kMostOffsets) {
    throw base::usage_error("plan",
                            "expected a stride of 2 to {} and at most {} offsets, got {} and {}",
                            kMostOffsets / 2, kMostOffsets, period, offsets);
  }
  if (r.prompt_tokens && (*r.prompt_tokens < 1 || *r.prompt_tokens > kMostTokens)) {
    throw base::usage_error("plan", "expected 1 to {} prompt tokens, got {}", kMostTokens,
                            *r.prompt_tokens);
  }
  if (offsets < 2 * period) {
    throw base::usage_error("plan",
                            "expected at least two cycles of the period {} in the offsets, got {}; "
                            "give --offsets {} or more",
                            period, offsets, 2 * period);
  }
  if (r.requirement && !open(*r.requirement)) {
    throw base::usage_error("plan", "expected a requirement between 0 and 1, got {}",
                            *r.requirement);
  }
  if (r.true_share && !(*r.true_share > 0 && *r.true_share <= 1)) {
    throw base::usage_error("plan", "expected a true worst share above 0 and at most 1, got {}",
                            *r.true_share);
  }
  if (r.true_share && !r.requirement) {
    throw base::usage_error("plan", "expected --require-worst beside --true-worst {}, got none",
                            *r.true_share);
  }
  if (r.true_share && *r.true_share <= *r.requirement) {
    throw base::usage_error(
        "plan",
        "expected a true worst share above the requirement {}, got {}; phases that are really at "
        "{} can never be shown to reach {}, however many items are run",
        *r.requirement, *r.true_share, *r.true_share, *r.requirement);
  }
  if (!(r.item_sd >= 0 && r.item_sd <= 20) || r.runs < 1) {
    throw base::usage_error("plan",
                            "expected an item SD of 0 to 20 logits and runs >= 1, got {} and {}",
                            r.item_sd, r.runs);
  }
}

// Candidate periods that find_period searches for items with `offsets` positions.
std::int64_t candidates(std::int64_t offsets) {
  return std::min<std::int64_t>(64, std::max(offsets / 2, std::min<std::int64_t>(offsets, 12))) - 1;
}

stats::SimulatedAudit simulated(const PlanRequest& r, std::int64_t items, std::int64_t offsets,
                                std::int64_t period, double drop) {
  return {.items = items,
          .offsets = offsets,
          .accuracy = r.accuracy,
          .item_sd = r.item_sd,
          .period = drop > 0 ? period : 0,
          .drop = drop};
}

FindableInput noise_of(const PlanRequest& r, std::int64_t offsets, std::int64_t period) {
  base::Random random(base::derive_seed(r.seed, "audit.plan.noise"));
  const stats::ScoreTable flat = stats::simulate(simulated(r, 2000, offsets, period, 0), random);
  double sum = 0;
  for (const double score : flat.score) sum += score;
  return {.variance = noise_variance(flat, true).value_or(0),
          .share = sum / static_cast<double>(flat.cells()),
          .stride = period,
          .candidates = r.stride ? 1 : candidates(offsets),
          .level = r.level,
          .power = r.power};
}

// Simulated audits of these sizes behind one power figure; 0: not even kFewestRuns.
std::int64_t affordable_runs(const PlanRequest& r, std::int64_t items, std::int64_t offsets) {
  const double searched =
      r.stride ? 1 : kSearchCost * std::max(1.0, static_cast<double>(candidates(offsets)) / 11);
  const double work = static_cast<double>(items) * static_cast<double>(offsets) *
                      static_cast<double>(kPermutations) * searched;
  const double most = kMostWork / work;
  if (most < static_cast<double>(std::min(kFewestRuns, r.runs))) return 0;
  return static_cast<std::int64_t>(std::min(static_cast<double>(r.runs), most));
}

PlanPower convert(const stats::PowerEstimate& e) {
  return {.power = e.power, .low = e.low, .high = e.high, .runs = e.runs};
}

std::int64_t up(double size) { return static_cast<std::int64_t>(std::ceil(size - 1e-9)); }

ConfirmSizes confirm_sizes(const PlanRequest& r, std::int64_t offsets, std::int64_t period) {
  stats::PairMoments m = stats::pair_moments(r.accuracy, r.gap, r.item_sd);
  const double d = m.share_a - m.share_b;
  ConfirmSizes sizes{.discordant = m.discordant, .repeats = offsets / period};
  sizes.paired = up(stats::paired_size(std::min(d, m.discordant), m.discordant, r.level, r.power));
  m.miller.k_a = m.miller.k_b = static_cast<double>(sizes.repeats);
  // A variance over items needs two of them.
  sizes.repeated = std::max<std::int64_t>(2, up(stats::miller_size(m.miller, r.level, r.power)));
  const double weak = std::max(m.share_b, 1e-9);  // 0: no item is ever right there
  sizes.unpaired = up(stats::unpaired_size(m.share_a, weak, r.level, r.power));
  return sizes;
}

std::optional<std::int64_t> cochran_items(const PlanRequest& r, std::int64_t period) {
  if (!r.stride) return std::nullopt;
  const stats::PairMoments m = stats::pair_moments(r.accuracy, r.gap, r.item_sd);
  std::vector<double> phases(static_cast<std::size_t>(period), m.share_a);
  phases.back() = std::max(m.share_b, 1e-9);
  // Its simulation takes a few seconds at most.
  const std::int64_t most = std::min<std::int64_t>(kMostCochranItems, kMostCochranCells / period);
  return stats::cochran_size(phases, r.power, r.item_sd, r.level, most, r.seed);
}

PresetLine preset_line(const stats::PlanPreset& preset, const PlanRequest& r, std::int64_t offsets,
                       FindableInput noise) {
  PresetLine line{.name = preset.name, .items = preset.items, .prompts = preset.items * offsets};
  if (r.prompt_tokens) line.tokens = line.prompts * *r.prompt_tokens;
  noise.observations = line.prompts;
  line.dip = findable_dip(noise);
  line.bound = std::pow(r.level, 1.0 / static_cast<double>(preset.items));
  return line;
}

}  // namespace

Plan make_plan(const PlanRequest& r) {
  const std::int64_t period = r.stride.value_or(kUnknownPeriod);
  const std::int64_t offsets = r.offsets.value_or(r.stride ? 2 * *r.stride : kDefaultOffsets);
  check(r, offsets, period);
  Plan plan{.offsets = offsets, .assumed_period = period};
  const FindableInput noise = noise_of(r, offsets, period);
  const auto needed = static_cast<double>(observations_for_dip(r.gap, noise));
  // Fewer than three items leave nothing to permute inside.
  std::int64_t items = std::max<std::int64_t>(
      3, static_cast<std::int64_t>(std::ceil(0.8 * needed / static_cast<double>(offsets))));
  while (true) {
    if (items > kMostItems) {
      throw base::usage_error("plan", "expected a gap that {} items can find, got {}", kMostItems,
                              r.gap);
    }
    const std::int64_t runs = affordable_runs(r, items, offsets);
    if (runs == 0) {
      items = std::max(items, up(needed / static_cast<double>(offsets)));
      plan.simulated = plan.right = std::nullopt;
      break;
    }
    const stats::PeriodPower power =
        stats::period_power(simulated(r, items, offsets, period, r.gap),
                            {.runs = runs,
                             .permutations = kPermutations,
                             .level = r.level,
                             .seed = base::derive_seed(r.seed, "audit.plan.power"),
                             .known = r.stride.has_value()});
    plan.simulated = convert(power.named);
    plan.right = convert(power.right);
    if (power.named.power >= r.power) break;
    items = std::max(items + 1, items * 11 / 10);
  }
  plan.items = items;
  plan.prompts = items * offsets;
  if (r.prompt_tokens) plan.tokens = plan.prompts * *r.prompt_tokens;
  plan.confirm = confirm_sizes(r, offsets, period);
  plan.one_per_phase = cochran_items(r, period);
  if (r.requirement) {
    const double share = r.true_share.value_or((1 + *r.requirement) / 2);
    plan.gate_items = stats::gate_size(share, *r.requirement, period, r.level, r.power);
    plan.gate_items_all_right = stats::all_right_size(*r.requirement, r.level);
  }
  for (const stats::PlanPreset& preset : stats::plan_presets()) {
    plan.presets.push_back(preset_line(preset, r, offsets, noise));
  }
  return plan;
}

}  // namespace kvphase::audit
