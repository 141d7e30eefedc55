#include "lab/theory_runs.h"

#include <algorithm>
#include <set>

#include "base/random.h"
#include "base/stop.h"
#include "lab/theory_flow.h"
#include "lab/theory_rules.h"
#include "stats/interval.h"

namespace kvphase::lab {
namespace {

constexpr std::int64_t kTimes = 60;  // of a trajectory

std::uint64_t unsigned_of(std::int64_t x) { return static_cast<std::uint64_t>(x); }

ShareAgainst share_against(std::int64_t count, std::int64_t n, double predicted) {
  return {.share = stats::clopper_pearson(count, n), .predicted = predicted};
}

void raise(std::optional<double>& highest, double x) { highest = std::max(highest.value_or(x), x); }

// Positions of selected heads; a head that selected none covers nothing.
std::set<std::int64_t> covered_positions(const FlowRun& run, double tolerance) {
  std::set<std::int64_t> covered;
  for (const HeadState& head : run.heads) {
    if (head.selected(tolerance)) covered.insert(head.key_position);
  }
  return covered;
}

void count_phases(CoverageStudy& study, const FlowRun& run, const std::set<std::int64_t>& covered) {
  for (std::size_t r = 0; r < run.outcomes.size(); ++r) {
    const PhaseOutcome& outcome = run.outcomes[r];
    study.accuracy[r] += outcome.accuracy / static_cast<double>(study.runs);
    if (covered.contains(static_cast<std::int64_t>(r))) {
      study.covered_accuracy =
          std::min(study.covered_accuracy.value_or(outcome.accuracy), outcome.accuracy);
    } else {
      raise(study.uncovered_accuracy, outcome.accuracy);
      raise(study.uncovered_probability,
            outcome.probability * static_cast<double>(study.setting.vocabulary));
    }
  }
}

}  // namespace

FlowRun run_flow(const TheorySetting& s, const FlowSettings& flow, std::int64_t index) {
  base::Random random(base::derive_seed(
      flow.seed, "theory flow", {unsigned_of(s.stride), unsigned_of(s.heads), unsigned_of(index)}));
  std::vector<double> start(coefficient_count(s));
  for (double& u : start) u = flow.init * random.normal();
  FlowRun run;
  run.predicted = predicted_positions(s, start);
  run.time.resize(static_cast<std::size_t>(s.heads));
  const auto gradient_of = [&](std::span<const double> u, std::span<double> g) {
    const Coefficients p = gates_of(s, u);
    static_loss(s, p, g);
    to_logit_gradient(s, p, g);
  };
  const auto see = [&](double t, std::span<const double> u) {
    run.heads = head_states(s, gates_of(s, u));
    std::vector<double> offsets;
    for (std::size_t h = 0; h < run.heads.size(); ++h) {
      offsets.push_back(run.heads[h].key_offsets);
      if (!run.heads[h].selected(flow.tolerance)) {
        run.time[h].reset();
      } else if (!run.time[h]) {
        run.time[h] = t;
      }
    }
    for (const HeadState& head : run.heads) offsets.push_back(head.value_offsets);
    run.offsets.times.push_back(t);
    run.offsets.values.push_back(std::move(offsets));
  };
  const Coefficients end = gates_of(
      s, gradient_flow(gradient_of, start, spaced_times(flow.time / 1e4, flow.time, kTimes), see));
  run.outcomes = static_outcomes(s, end);
  run.loss = static_loss(s, end);
  return run;
}

CoverageStudy study_coverage(const TheorySetting& s, const FlowSettings& flow, std::int64_t runs,
                             std::int64_t keep) {
  const auto m = static_cast<std::size_t>(s.heads), bins = static_cast<std::size_t>(s.stride - 1);
  CoverageStudy study = {.setting = s, .runs = runs, .heads = runs * s.heads};
  study.positions.resize(bins);
  study.distinct.resize(m + 1);
  study.distinct_expected = occupancy(s.heads, s.stride - 1);
  study.accuracy.resize(bins);
  const double best = one_hot_range(s).best_loss;
  std::vector<std::int64_t> covered_runs(bins);
  std::vector<double> times;
  std::int64_t same = 0;
  for (std::int64_t i = 0; i < runs; ++i) {
    base::stop_if_requested("theory");
    FlowRun run = run_flow(s, flow, i);
    for (std::size_t h = 0; h < m; ++h) {
      const HeadState& head = run.heads[h];
      const bool selected = head.selected(flow.tolerance);
      study.selected += selected;
      study.as_predicted += selected && head.key_position == run.predicted[h];
      study.worst_offsets = std::max({study.worst_offsets, head.key_offsets, head.value_offsets});
      if (run.time[h]) times.push_back(*run.time[h]);
      const auto r = static_cast<std::size_t>(head.key_position);
      if (r < bins) ++study.positions[r];
      for (std::size_t other = 0; other < h; ++other) {
        same += run.heads[other].key_position == head.key_position;
      }
    }
    const std::set<std::int64_t> covered = covered_positions(run, flow.tolerance);
    ++study.distinct[covered.size()];
    for (const std::int64_t r : covered) ++covered_runs[static_cast<std::size_t>(r)];
    count_phases(study, run, covered);
    const double excess = run.loss - best;
    study.lowest_excess = i == 0 ? excess : std::min(study.lowest_excess, excess);
    if (i < keep) study.kept.push_back(std::move(run));
  }
  if (!times.empty()) {
    std::ranges::sort(times);
    study.median_time = times[times.size() / 2];
    study.longest_time = times.back();
  }
  study.positions_fit =
      chi_squared_fit(study.positions, std::vector<double>(bins, 1 / static_cast<double>(bins)));
  study.distinct_fit = chi_squared_fit(study.distinct, study.distinct_expected);
  study.pairs =
      share_against(same, runs * s.heads * (s.heads - 1) / 2, 1 / static_cast<double>(bins));
  for (const std::int64_t count : covered_runs) {
    study.covered.push_back(share_against(count, runs, coverage_of_one(s.heads, s.stride - 1)));
  }
  return study;
}

}  // namespace kvphase::lab
