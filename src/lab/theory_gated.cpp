#include "lab/theory_gated.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "base/random.h"
#include "base/stop.h"
#include "lab/theory_flow.h"

namespace kvphase::lab {
namespace {

constexpr std::int64_t kTimes = 40;

base::Random stream(const GatedOptions& o, std::string_view name, std::int64_t index) {
  return base::Random(base::derive_seed(o.flow.seed, name, {static_cast<std::uint64_t>(index)}));
}

std::vector<double> static_offsets(const GatedOptions& o, const GateSummary& summary) {
  const auto S = static_cast<std::size_t>(o.setting.task.stride);
  std::vector<double> offsets;
  for (std::size_t row = 0; row < summary.mean.size(); row += S) {
    offsets.push_back(effective_offsets(std::span(summary.mean).subspan(row, S)));
  }
  return offsets;
}

}  // namespace

GatedRun run_gated(const GatedOptions& o, Descent descent, std::int64_t index) {
  base::Random start_random = stream(o, "theory weights", index);
  base::Random prompt_random = stream(o, "theory prompts", index);
  const TheorySetting& task = o.setting.task;
  const std::vector<double> start = random_weights(o.setting, o.flow.init, start_random);
  const std::vector<TokenId> fresh = draw_prompts(task, o.seen, prompt_random);
  const std::vector<TokenId> sample = draw_prompts(task, o.prompts, prompt_random);
  const std::vector<double> times = spaced_times(o.flow.time / 1e3, o.flow.time, kTimes);
  GatedRun run;
  const auto see = [&](double t, std::span<const double> weights) {
    const GateSummary summary = summarise_gates(o.setting, weights, fresh);
    run.heads = head_states(task, summary.mean);
    run.per_window = summary.per_window;
    run.offsets.times.push_back(t);
    run.offsets.values.push_back(static_offsets(o, summary));
    run.window_offsets.times.push_back(t);
    run.window_offsets.values.push_back(summary.per_window);
  };
  std::vector<double> end;
  if (descent == Descent::kFlow) {
    end = gradient_flow([&](std::span<const double> w,
                            std::span<double> g) { sampled_loss(o.setting, w, sample, g); },
                        start, times, see);
  } else {
    const auto steps = static_cast<std::int64_t>(std::llround(o.flow.time / o.rate));
    std::size_t next = 0;
    end = descend(
        [&](std::span<const double> w, std::span<double> g) {
          sampled_loss(o.setting, w, draw_prompts(task, o.batch, prompt_random), g);
        },
        start, o.rate, steps,
        [&](std::int64_t step, std::span<const double> w) {
          const double t = static_cast<double>(step) * o.rate;
          if (step < steps && (next >= times.size() || t < times[next])) return;
          see(t, w);
          while (next < times.size() && times[next] <= t) ++next;
        });
  }
  run.loss = sampled_loss(o.setting, end, fresh);
  return run;
}

GatedStudy study_gated(const GatedOptions& o, Descent descent, std::int64_t runs,
                       std::int64_t keep) {
  const TheorySetting& task = o.setting.task;
  const auto bins = static_cast<std::size_t>(task.stride - 1);
  GatedStudy study = {
      .options = o,
      .descent = descent,
      .runs = runs,
      .heads = runs * task.heads,
      .positions = std::vector<std::int64_t>(bins),
      .distinct = std::vector<std::int64_t>(static_cast<std::size_t>(task.heads) + 1)};
  const double gates = static_cast<double>(2 * study.heads);
  for (std::int64_t i = 0; i < runs; ++i) {
    base::stop_if_requested("theory");
    GatedRun run = run_gated(o, descent, i);
    std::set<std::int64_t> covered;
    for (const HeadState& head : run.heads) {
      if (head.selected(o.flow.tolerance)) {
        ++study.selected;
        covered.insert(head.key_position);
      }
      const auto r = static_cast<std::size_t>(head.key_position);
      if (r < bins) ++study.positions[r];
      study.worst_static = std::max({study.worst_static, head.key_offsets, head.value_offsets});
      study.mean_static += (head.key_offsets + head.value_offsets) / gates;
    }
    for (const double x : run.per_window) {
      study.worst_per_window = std::max(study.worst_per_window, x);
      study.mean_per_window += x / gates;
    }
    ++study.distinct[covered.size()];
    study.ends.push_back(run.heads);
    if (i < keep) study.kept.push_back(std::move(run));
  }
  study.positions_fit =
      chi_squared_fit(study.positions, std::vector<double>(bins, 1 / static_cast<double>(bins)));
  study.distinct_fit = chi_squared_fit(study.distinct, occupancy(task.heads, task.stride - 1));
  return study;
}

}  // namespace kvphase::lab
