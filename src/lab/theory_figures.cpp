#include "lab/theory_figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "stats/interval.h"

namespace kvphase::lab {
namespace {

using record::Figure;
using record::FigureSeries;

FigureSeries line_of(const Trajectory& trajectory, std::size_t column, const std::string& name,
                     const char* role) {
  FigureSeries series = {.name = name, .role = role};
  for (std::size_t i = 0; i < trajectory.times.size(); ++i) {
    series.x.push_back(std::log10(trajectory.times[i]));
    series.y.emplace_back(trajectory.values[i][column]);
  }
  return series;
}

Figure static_trajectories(const TheoryStudy& study) {
  const FlowRun& run = study.main.kept.front();
  Figure figure = {
      .id = "trajectories",
      .title = "Effective offsets on the way, static gates",
      .caption =
          "One flow from a small start, a line per gate: circles key gates, diamonds value "
          "gates. All leave uniform together; each ends at one offset.",
      .x_title = "time, log10",
      .y_title = "static effective offsets"};
  const std::size_t m = run.heads.size();
  for (std::size_t h = 0; h < m; ++h) {
    const HeadState& head = run.heads[h];
    figure.series.push_back(
        line_of(run.offsets, h, fmt::format("head {} key, r = {}", h, head.key_position), "model"));
    figure.series.push_back(line_of(run.offsets, m + h,
                                    fmt::format("head {} value, r = {}", h, head.value_position),
                                    "boundary"));
  }
  figure.description =
      fmt::format("{} gates start at {} effective offsets and end between 1 and {:.3f}.", 2 * m,
                  study.main.setting.stride, *std::ranges::max_element(run.offsets.values.back()));
  return figure;
}

Figure gated_trajectories(const TheoryStudy& study) {
  Figure figure = {
      .id = "trajectories-log-linear",
      .title = "Effective offsets on the way, log-linear gates",
      .caption =
          "Gates that may look at the content, key gates of one start: static effective "
          "offsets under gradient flow (circles) and under SGD with fresh prompts "
          "(squares), per-window effective offsets under the flow (diamonds). Static and "
          "per window stay together: content never decides.",
      .x_title = "time, log10",
      .y_title = "effective offsets"};
  const GatedRun& flow = study.gated.kept.front();
  const GatedRun& sgd = study.sgd.kept.front();
  for (std::size_t h = 0; h < flow.heads.size(); ++h) {
    figure.series.push_back(
        line_of(sgd.offsets, h, fmt::format("head {} static, SGD", h), "control"));
    figure.series.push_back(
        line_of(flow.window_offsets, h, fmt::format("head {} per window", h), "boundary"));
    figure.series.push_back(line_of(flow.offsets, h, fmt::format("head {} static", h), "model"));
  }
  figure.description =
      "Static and per-window effective offsets fall together from uniform to near 1.";
  return figure;
}

FigureSeries shares(const std::vector<std::int64_t>& counts, std::int64_t n, std::string name,
                    const char* role, double shift) {
  FigureSeries series = {.name = std::move(name), .role = role};
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const stats::Estimate share = stats::clopper_pearson(counts[i], n);
    series.x.push_back(static_cast<double>(i) + shift);
    series.y.push_back(share.value);
    series.low.push_back(share.low);
    series.high.push_back(share.high);
    series.label.push_back(fmt::format("{}: {} of {}", i, counts[i], n));
  }
  return series;
}

FigureSeries prediction(const std::vector<double>& values) {
  FigureSeries series = {.name = "balls in bins", .role = "control"};
  for (std::size_t i = 0; i < values.size(); ++i) {
    series.x.push_back(static_cast<double>(i));
    series.y.emplace_back(values[i]);
  }
  return series;
}

Figure positions_figure(const TheoryStudy& study) {
  const std::size_t bins = study.main.positions.size();
  Figure figure = {
      .kind = Figure::Kind::kPoints,
      .id = "positions",
      .title = "Selected positions r_h",
      .caption =
          "Share of heads whose key gate ends at each position, with 95% intervals "
          "(Clopper and Pearson): circles static gates, diamonds log-linear gates, squares "
          "the prediction, all alike. The last position, S - 1, is never asked for and "
          "never selected.",
      .x_title = "position r",
      .y_title = "share of heads"};
  figure.series = {
      prediction(std::vector<double>(bins, 1 / static_cast<double>(bins))),
      shares(study.main.positions, study.main.heads, "static gates", "model", 0.12),
      shares(study.gated.positions, study.gated.heads, "log-linear gates", "boundary", -0.12)};
  figure.description = fmt::format("{} static and {} log-linear heads over {} positions.",
                                   study.main.heads, study.gated.heads, bins);
  return figure;
}

Figure coverage_figure(const TheoryStudy& study) {
  Figure figure = {
      .kind = Figure::Kind::kPoints,
      .id = "coverage",
      .title = "How many phases a run covers",
      .caption = fmt::format(
          "Share of runs by the number of different positions that their {} heads select, with 95% "
          "intervals: circles static gates, diamonds log-linear gates, squares balls in bins.",
          study.main.setting.heads),
      .x_title = "covered positions",
      .y_title = "share of runs"};
  figure.series = {
      prediction(study.main.distinct_expected),
      shares(study.main.distinct, study.main.runs, "static gates", "model", 0.08),
      shares(study.gated.distinct, study.gated.runs, "log-linear gates", "boundary", -0.08)};
  figure.description =
      fmt::format("{} static and {} log-linear runs.", study.main.runs, study.gated.runs);
  return figure;
}

Figure accuracy_figure(const TheoryStudy& study) {
  const CoverageStudy& main = study.main;
  Figure figure = {
      .kind = Figure::Kind::kPoints,
      .id = "accuracy",
      .title = "Accuracy per phase",
      .caption =
          "Top-1 accuracy at each position: diamonds one run, right at the positions its "
          "heads picked and never elsewhere; circles the mean over all runs with the 95% "
          "interval of being covered; squares the prediction 1 - (1 - 1/(S-1))^m.",
      .x_title = "position r",
      .y_title = "accuracy"};
  FigureSeries one = {.name = "first run", .role = "boundary"};
  FigureSeries mean = {.name = "mean over runs", .role = "model"};
  std::vector<double> predicted;
  for (std::size_t r = 0; r < main.accuracy.size(); ++r) {
    one.x.push_back(static_cast<double>(r));
    one.y.emplace_back(main.kept.front().outcomes[r].accuracy);
    mean.x.push_back(static_cast<double>(r) + 0.1);
    mean.y.emplace_back(main.accuracy[r]);
    mean.low.push_back(main.covered[r].share.low);
    mean.high.push_back(main.covered[r].share.high);
    mean.label.push_back(std::to_string(r));
    predicted.push_back(main.covered[r].predicted);
  }
  figure.series = {prediction(predicted), mean, one};
  figure.description = fmt::format("Mean accuracy {:.3f} to {:.3f} by position, predicted {:.3f}.",
                                   std::ranges::min(main.accuracy), std::ranges::max(main.accuracy),
                                   predicted.front());
  return figure;
}

// Which positions the heads of the first runs hold.
Figure runs_figure(const TheoryStudy& study) {
  constexpr std::size_t kMost = 16;
  Figure figure = {.kind = Figure::Kind::kHeatmap,
                   .id = "runs",
                   .title = "Where the heads of each run are, log-linear gates",
                   .caption =
                       "A row per start: how many heads hold each position. Zeros are the "
                       "phases that this run never retrieves.",
                   .x_title = "position r",
                   .y_title = "heads",
                   .low = 0,
                   .high = static_cast<double>(study.gated.options.setting.task.heads)};
  const std::size_t bins = study.gated.positions.size();
  for (std::size_t r = 0; r < bins; ++r) figure.columns.push_back(std::to_string(r));
  for (std::size_t i = 0; i < std::min(kMost, study.gated.ends.size()); ++i) {
    figure.rows.push_back(fmt::format("start {}", i));
    std::vector<double> heads(bins, 0.0);
    for (const HeadState& head : study.gated.ends[i]) {
      if (static_cast<std::size_t>(head.key_position) < bins) {
        heads[static_cast<std::size_t>(head.key_position)] += 1;
      }
    }
    figure.cells.emplace_back(heads.begin(), heads.end());
  }
  figure.description = fmt::format("{} starts by {} positions.", figure.rows.size(), bins);
  return figure;
}

Figure beta_figure(const TheoryStudy& study) {
  Figure figure = {
      .id = "beta",
      .title = "Where one-hot stops being best",
      .caption =
          "The lowest of 16 local minima over rules that are the same in every chunk, minus "
          "the best one-hot assignment, as the logit scale beta grows. Zero: one-hot is "
          "best. A larger vocabulary moves the end of Theorem 1 to the right.",
      .x_title = "beta",
      .y_title = "loss above one-hot, nats"};
  const char* roles[] = {"boundary", "model", "control"};
  for (std::size_t i = 0; i < study.sweeps.size(); ++i) {
    const BetaSweep& sweep = study.sweeps[i];
    FigureSeries series = {.name = fmt::format("N = {}", sweep.setting.vocabulary),
                           .role = roles[i % 3]};
    for (std::size_t k = 0; k < sweep.beta.size(); ++k) {
      series.x.push_back(sweep.beta[k]);
      series.y.emplace_back(sweep.lowest[k]);
    }
    figure.description += fmt::format(
        "{}N = {}: one-hot is a local minimum up to beta {}.", i == 0 ? "" : " ",
        sweep.setting.vocabulary,
        sweep.largest_beta ? fmt::format("{:.2f}", *sweep.largest_beta) : "100 at least");
    figure.series.push_back(std::move(series));
  }
  return figure;
}

}  // namespace

std::vector<Figure> figures_of(const TheoryStudy& study) {
  std::vector<Figure> figures = {static_trajectories(study), gated_trajectories(study),
                                 positions_figure(study),    runs_figure(study),
                                 coverage_figure(study),     accuracy_figure(study)};
  if (!study.sweeps.empty()) figures.push_back(beta_figure(study));
  for (Figure& figure : figures) figure.description = figure.title + ": " + figure.description;
  return figures;
}

}  // namespace kvphase::lab
