// How many fewer items a continuous score needs than right/wrong: measured by simulation.
//
// Every simulated prompt has a margin m = logit(accuracy) + item + dip at one phase + logistic
// noise, and is right when m > 0. The same draws are then scored both ways, by right/wrong and by
// the margin, and the smallest number of items is sought at which the right period is named in
// `power` of the runs. What this is not: a statement about a real model, whose margins may follow
// the phase more or less than its right answers do; measure both on a pilot.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace kvphase::audit {

struct SavingSetting {
  double accuracy = 0.8;  // of an average item at a strong phase
  double dip = 0.4;       // probability that the weak phase loses
  std::int64_t period = 4;
  std::int64_t offsets = 24;  // consecutive target positions per item
  double item_sd = 1;         // of the items' intercepts, logits
};

struct SavingOptions {
  double power = 0.8;
  std::int64_t runs = 200;  // per number of items; the power's standard error is 3 points at 200
  std::int64_t most_items = 800;
  std::int64_t permutations = 400;
  std::uint64_t seed = 1;
};

struct Saving {
  SavingSetting setting;
  std::optional<std::int64_t> items_right_wrong;  // empty: more than most_items
  std::optional<std::int64_t> items_margin;
  std::optional<double> ratio;  // right/wrong over margin
};

Saving measure_saving(const SavingSetting& setting, const SavingOptions& options);

// The settings of the published table.
std::vector<SavingSetting> saving_settings();

// One line per setting, header first.
std::string saving_csv(const std::vector<Saving>& rows);

}  // namespace kvphase::audit
