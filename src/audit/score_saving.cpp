#include "audit/score_saving.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/random.h"
#include "base/stop.h"
#include "stats/period.h"
#include "stats/score_table.h"
#include "stats/simulate.h"

namespace kvphase::audit {
namespace {

struct Draw {
  stats::ScoreTable right_wrong;
  stats::ScoreTable margin;
};

Draw draw_audit(const SavingSetting& s, std::int64_t items, base::Random& random) {
  const double strong = stats::logit(s.accuracy);
  const double weak = stats::logit(std::clamp(s.accuracy - s.dip, 0.001, 0.999));
  const auto weak_phase =
      static_cast<std::int64_t>(random.uniform_index(static_cast<std::uint64_t>(s.period)));
  std::vector<stats::ScoreRow> hits;
  std::vector<stats::ScoreRow> margins;
  for (std::int64_t item = 0; item < items; ++item) {
    const double ability = s.item_sd * random.normal();
    const auto start = static_cast<std::int64_t>(random.uniform_index(1000));
    for (std::int64_t k = 0; k < s.offsets; ++k) {
      const std::int64_t position = start + k;
      const double centre = position % s.period == weak_phase ? weak : strong;
      const double u = std::clamp(random.uniform(), 1e-12, 1 - 1e-12);
      const double margin =
          centre + ability + stats::logit(u);  // logit of a uniform: logistic noise
      hits.push_back({.item = item, .position = position, .score = margin > 0 ? 1.0 : 0.0});
      margins.push_back({.item = item, .position = position, .score = margin});
    }
  }
  return {stats::make_score_table(std::move(hits)), stats::make_score_table(std::move(margins))};
}

// 2, 3, 4, 5, 6, 8, 10, 12, 15, ...: steps of about a quarter.
std::int64_t next_size(std::int64_t items) {
  return std::max(items + 1,
                  static_cast<std::int64_t>(std::llround(static_cast<double>(items) * 1.25)));
}

}  // namespace

Saving measure_saving(const SavingSetting& setting, const SavingOptions& options) {
  if (options.runs < 1 || options.permutations < 1 || setting.period < 2 ||
      setting.offsets < 2 * setting.period) {
    throw base::usage_error(
        "plan", "expected runs, permutations and two cycles of the period, got {}, {}, {} offsets",
        options.runs, options.permutations, setting.offsets);
  }
  Saving saving{.setting = setting};
  const auto names_it = [&](const stats::ScoreTable& table, std::uint64_t seed) {
    const stats::PeriodResult found =
        stats::find_period(table, {.permutations = options.permutations,
                                   .other_permutations = options.permutations,
                                   .seed = seed});
    return found.period == setting.period;
  };
  for (std::int64_t items = 2; items <= options.most_items; items = next_size(items)) {
    std::int64_t hits = 0;
    std::int64_t margins = 0;
    for (std::int64_t run = 0; run < options.runs; ++run) {
      if (base::stop_requested()) {
        throw base::Error(base::ErrorKind::kInterrupted, "plan", "stopped while simulating");
      }
      const std::uint64_t seed =
          base::derive_seed(options.seed, "audit.score_saving",
                            {static_cast<std::uint64_t>(items), static_cast<std::uint64_t>(run)});
      base::Random random(seed);
      const Draw draw = draw_audit(setting, items, random);
      if (!saving.items_right_wrong && names_it(draw.right_wrong, seed)) ++hits;
      if (!saving.items_margin && names_it(draw.margin, seed)) ++margins;
    }
    const auto enough = [&](std::int64_t found) {
      return static_cast<double>(found) >= options.power * static_cast<double>(options.runs);
    };
    if (!saving.items_right_wrong && enough(hits)) saving.items_right_wrong = items;
    if (!saving.items_margin && enough(margins)) saving.items_margin = items;
    if (saving.items_right_wrong && saving.items_margin) break;
  }
  if (saving.items_right_wrong && saving.items_margin) {
    saving.ratio =
        static_cast<double>(*saving.items_right_wrong) / static_cast<double>(*saving.items_margin);
  }
  return saving;
}

std::vector<SavingSetting> saving_settings() {
  return {{.accuracy = 0.6, .dip = 0.2},
          {.accuracy = 0.8, .dip = 0.4},
          {.accuracy = 0.8, .dip = 0.2},
          {.accuracy = 0.9, .dip = 0.1},
          {.accuracy = 0.95, .dip = 0.1},
          {.accuracy = 0.98, .dip = 0.05},
          {.accuracy = 0.8, .dip = 0.3, .period = 8}};
}

std::string saving_csv(const std::vector<Saving>& rows) {
  std::string text = "accuracy,dip,period,offsets,item_sd,items_right_wrong,items_margin,ratio\n";
  const auto count = [](const std::optional<std::int64_t>& n) {
    return n ? fmt::format("{}", *n) : std::string();
  };
  for (const Saving& row : rows) {
    const SavingSetting& s = row.setting;
    text += fmt::format("{},{},{},{},{},{},{},{}\n", s.accuracy, s.dip, s.period, s.offsets,
                        s.item_sd, count(row.items_right_wrong), count(row.items_margin),
                        row.ratio ? fmt::format("{:.2f}", *row.ratio) : "");
  }
  return text;
}

}  // namespace kvphase::audit
