// How many items, prompts and tokens an audit needs. Knows only sizes, no model and no task.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kvphase::audit {

struct PlanRequest {
  double gap = 0.4;                     // how far one phase lies below the others, as a share
  double accuracy = 0.8;                // of the other phases
  std::optional<std::int64_t> stride;   // known S: no search, 2 S offsets are enough
  std::optional<std::int64_t> offsets;  // target positions per item; empty: 24, or 2 S
  double power = 0.8;                   // chance to find that gap
  double level = 0.05;                  // chance of a false alarm
  double item_sd = 1;                   // how much items differ, logits; larger needs more items
  std::optional<std::int64_t> prompt_tokens;  // tokens of one prompt
  std::optional<double> requirement;          // every phase at least this share, to be shown
  std::optional<double> true_share;           // what the phases really reach; empty: halfway to 1
  // Simulated audits behind the power figure; fewer (never below 50) where they are large, and none
  // where even 50 would take minutes.
  std::int64_t runs = 200;
  std::uint64_t seed = 1;
};

struct PlanPower {
  double power = 0;
  double low = 0;  // 95% interval of the simulation
  double high = 0;
  std::int64_t runs = 0;
};

// Two phases chosen beforehand, measured on fresh items (`kvphase analyze --confirm`): by formula,
// for items as the request describes them. Below about 20 items the normal curve behind the
// formulas promises a little too much.
struct ConfirmSizes {
  std::int64_t paired = 0;    // items, each once at both phases (McNemar)
  double discordant = 0;      // share of them that answer differently
  std::int64_t repeats = 1;   // prompts per item and phase that the planned offsets hold
  std::int64_t repeated = 0;  // items with so many (paired means, Miller)
  std::int64_t unpaired = 0;  // items per phase when every item is asked at one phase only
};

struct PresetLine {
  std::string name;
  std::int64_t items = 0;
  std::int64_t prompts = 0;
  std::optional<std::int64_t> tokens;
  std::optional<double> dip;  // found with the wanted power
  double bound = 0;  // share that a phase is shown to reach when all its items are right, one
                     // prompt per item, at the level
};

struct Plan {
  std::int64_t items = 0;
  std::int64_t offsets = 0;
  std::int64_t prompts = 0;
  std::optional<std::int64_t> tokens;
  std::int64_t assumed_period = 0;  // the stride, or 4
  std::optional<PlanPower>
      simulated;                   // at these sizes; empty: too large, the sizes are a formula's
  std::optional<PlanPower> right;  // the period named is the right one
  ConfirmSizes confirm;
  // Known stride: items, each once per phase, at which Cochran's Q finds that phases differ, of the
  // steps 10, 20, 30, 50, 75, 100, ...; empty: unknown stride, or more than 6,400
  // (with more than 39 phases, than 250,000 cells).
  std::optional<std::int64_t> one_per_phase;
  std::optional<std::int64_t>
      gate_items;  // to show the requirement; empty: not asked or impossible
  std::optional<std::int64_t> gate_items_all_right;
  std::vector<PresetLine> presets;
};

// Starts from the formula of findable.h and adds items until the simulated power is reached; where
// audits are too large to simulate 50 of them in a few seconds, it stays with the formula. Throws a
// usage error for sizes that cannot be.
Plan make_plan(const PlanRequest& request);

}  // namespace kvphase::audit
