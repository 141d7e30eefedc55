// The analysis of cycle.h: plain numbers in, findings out.
#include <fmt/format.h>

#include <algorithm>

#include "base/random.h"
#include "lab/cycle.h"
#include "lab/shared.h"
#include "stats/item_bootstrap.h"

namespace kvphase::lab {
namespace {

using base::Json;
using record::Figure;
using record::Findings;
using stats::Estimate;

std::size_t phase_before(std::size_t phase, std::int64_t delta, std::size_t S) {
  const auto size = static_cast<std::int64_t>(S);
  return static_cast<std::size_t>((((static_cast<std::int64_t>(phase) - delta) % size) + size) %
                                  size);
}

// Predicted and observed change at the phases that are kept.
struct Changes {
  std::vector<double> predicted, observed;

  std::optional<double> r() const {
    return predicted.size() < 3 ? std::nullopt : correlation(predicted, observed);
  }
  std::optional<double> r_squared() const {
    const auto value = r();
    return value ? std::optional(*value * *value) : std::nullopt;
  }
};

Changes changes(std::span<const double> base, std::span<const double> observed, std::int64_t delta,
                bool drop_boundary, bool drop_landing) {
  const std::size_t S = base.size();
  const std::size_t landing = phase_before(S - 1, -delta, S);  // (delta - 1) mod S
  Changes c;
  for (std::size_t phase = 0; phase < S; ++phase) {
    if (drop_boundary && phase == S - 1) continue;
    if (drop_landing && phase == landing) continue;
    c.predicted.push_back(base[phase_before(phase, delta, S)] - base[phase]);
    c.observed.push_back(observed[phase] - base[phase]);
  }
  return c;
}

void append(Changes& all, const Changes& more) {
  all.predicted.insert(all.predicted.end(), more.predicted.begin(), more.predicted.end());
  all.observed.insert(all.observed.end(), more.observed.begin(), more.observed.end());
}

struct DeltaResult {
  std::int64_t delta = 0;
  Estimate main, all, interior, r;
  std::vector<Estimate> observed, predicted;  // [S]
};

struct Analysis {
  std::vector<DeltaResult> deltas;  // 0 first, without fits
  Estimate pooled;                  // over all deltas' phases together
};

Analysis analyse(const CycleAnswers& a, const CycleOptions& options, bool boundary) {
  const auto R = static_cast<std::size_t>(a.modulus);
  const auto S = static_cast<std::size_t>(options.stride);
  const std::size_t count = a.deltas.size(), per_delta = 4 + 2 * S;
  const double per_phase = static_cast<double>(R / S) * static_cast<double>(a.items);
  std::vector<double> rows(static_cast<std::size_t>(a.items) * count * S);
  for (std::size_t d = 0; d < count; ++d) {
    for (std::size_t at = 0; at < a.right[d].size(); ++at) {
      rows[at / R * count * S + d * S + at % R % S] += a.right[d][at];
    }
  }
  // Sums are of a sample of as many items, so a phase has the same prompts in every replicate.
  const auto statistic = [&](std::span<const double> sums,
                             std::span<std::optional<double>> values) {
    std::vector<double> accuracy;
    for (const double sum : sums) accuracy.push_back(sum / per_phase);
    const std::span<const double> base = std::span(accuracy).first(S);
    Changes pooled;
    for (std::size_t d = 0; d < count; ++d) {
      const auto observed = std::span(accuracy).subspan(d * S, S);
      const auto out = values.subspan(d * per_delta, per_delta);
      for (std::size_t phase = 0; phase < S; ++phase) {
        out[4 + phase] = observed[phase];
        out[4 + S + phase] = base[phase_before(phase, a.deltas[d], S)];
      }
      if (a.deltas[d] == 0) continue;
      const CycleFit fit = fit_of(base, observed, a.deltas[d], boundary);
      out[0] = boundary ? fit.without_boundary : fit.all;
      out[1] = fit.all;
      out[2] = fit.interior;
      out[3] = fit.correlation;
      append(pooled, changes(base, observed, a.deltas[d], boundary, false));
    }
    values[count * per_delta] = pooled.r_squared();
  };
  const std::vector<Estimate> found =
      stats::bootstrap_statistic(rows, count * S, count * per_delta + 1, statistic,
                                 {.replicates = options.replicates,
                                  .seed = base::derive_seed(options.seed, "cycle.bootstrap")});
  Analysis analysis{.pooled = found.back()};
  for (std::size_t d = 0; d < count; ++d) {
    const auto first = found.begin() + static_cast<std::ptrdiff_t>(d * per_delta);
    const auto size = static_cast<std::ptrdiff_t>(S);
    analysis.deltas.push_back({.delta = a.deltas[d],
                               .main = first[0],
                               .all = first[1],
                               .interior = first[2],
                               .r = first[3],
                               .observed = {first + 4, first + 4 + size},
                               .predicted = {first + 4 + size, first + 4 + 2 * size}});
  }
  return analysis;
}

Figure figure_of(const DeltaResult& d, bool boundary) {
  Figure figure{.kind = Figure::Kind::kLines,
                .id = fmt::format("delta-{}{}", d.delta < 0 ? "minus-" : "", std::abs(d.delta)),
                .title = fmt::format("Gates rotated by {}", d.delta),
                .caption = boundary
                               ? "The last phase is the boundary phase: it stays weak whatever "
                                 "the gates do, and is left out of the main R^2."
                               : "Windows overlap: there is no boundary phase.",
                .x_title = "phase",
                .y_title = "accuracy, %"};
  record::FigureSeries observed{.name = "observed"}, predicted{.name =
                                                                   "predicted: the pattern "
                                                                   "without rotation, moved",
                                                               .role = "boundary"};
  for (std::size_t phase = 0; phase < d.observed.size(); ++phase) {
    const auto percent = [](const std::optional<double>& x) {
      return x ? std::optional(100 * *x) : std::nullopt;
    };
    for (auto* s : {&observed, &predicted}) {
      const Estimate& e = s == &observed ? d.observed[phase] : d.predicted[phase];
      s->x.push_back(static_cast<double>(phase));
      s->y.push_back(percent(e.value));
      s->low.push_back(percent(e.low));
      s->high.push_back(percent(e.high));
    }
  }
  figure.series = {std::move(observed), std::move(predicted)};
  figure.description = fmt::format(
      "{}: observed and predicted accuracy of {} phases, R^2 {}.", figure.title, d.observed.size(),
      d.main.value ? fmt::format("{:.2f}", *d.main.value) : "undefined");
  return figure;
}

Json data_of(const CycleAnswers& a, const CycleOptions& options, const Analysis& analysis,
             bool boundary) {
  Json deltas = Json::array();
  for (const DeltaResult& d : analysis.deltas) {
    Json phases = Json::array();
    for (std::size_t phase = 0; phase < d.observed.size(); ++phase) {
      phases.push_back({{"phase", phase},
                        {"observed", to_json(d.observed[phase])},
                        {"predicted", to_json(d.predicted[phase])}});
    }
    deltas.push_back({{"delta", d.delta},
                      {"r_squared_without_boundary", boundary ? to_json(d.main) : Json(nullptr)},
                      {"r_squared_all", to_json(d.all)},
                      {"r_squared_interior", boundary ? to_json(d.interior) : Json(nullptr)},
                      {"correlation", to_json(d.r)},
                      {"phases", phases}});
  }
  return {{"window", a.window},
          {"stride", options.stride},
          {"rotated_tensors", a.rotated},
          {"boundary_phase", boundary ? Json(options.stride - 1) : Json(nullptr)},
          {"pooled_r_squared", to_json(analysis.pooled)},
          {"deltas", deltas}};
}

}  // namespace

CycleFit fit_of(std::span<const double> base, std::span<const double> observed, std::int64_t delta,
                bool boundary) {
  CycleFit fit;
  fit.all = changes(base, observed, delta, false, false).r_squared();
  if (boundary) {
    fit.without_boundary = changes(base, observed, delta, true, false).r_squared();
    fit.interior = changes(base, observed, delta, true, true).r_squared();
  }
  fit.correlation = changes(base, observed, delta, boundary, false).r();
  return fit;
}

Findings cycle_findings(const CycleAnswers& a, const CycleOptions& options,
                        const record::RunContext& context) {
  Findings findings{.kind = "cycle", .context = context};
  const bool by_window = options.rotation == Rotation::kWindow;
  findings.options = {{"task", task::LookupTask(options.lookup).options()},
                      {"stride", options.stride},
                      {"deltas", a.deltas},
                      {"rotation", by_window ? "window" : "stride"},
                      {"seed", options.seed},
                      {"replicates", options.replicates}};
  const std::string& model = context.model_name;
  if (a.rotated == 0) {
    findings.title = fmt::format("{}: gate cycling", model);
    findings.sentence = fmt::format(
        "{}: {}, so there is nothing to rotate.", model,
        a.window == 0 ? "no layer is chunked" : "no gate has parameters of its own per offset");
    findings.data = {{"window", a.window}, {"deltas", Json::array()}};
    return findings;
  }
  check_stride(options.stride, a.modulus, "cycle");
  const bool boundary = a.window == options.stride && a.aligned;
  const Analysis analysis = analyse(a, options, boundary);
  findings.title =
      fmt::format("{}: gates rotated over {}", model,
                  by_window ? fmt::format("all {} offsets of the window", a.window)
                            : fmt::format("the {} offsets of each stride", options.stride));
  record::FindingsTable table{
      .title = "How well the moved pattern predicts the observed change",
      .header = {"delta", boundary ? "R^2, boundary dropped" : "R^2", "R^2, all phases",
                 "R^2, interior", "correlation", "mean accuracy, %"},
      .note =
          "Squared correlation of observed and predicted change over phases; brackets: 95% "
          "bootstrap intervals over items. Interior: also without the phase that the weak "
          "boundary is predicted to move to. Dashes: fewer than 3 phases, or no change."};
  std::vector<double> main;
  for (const DeltaResult& d : analysis.deltas) {
    double mean = 0;
    for (const Estimate& e : d.observed) {
      mean += e.value.value_or(0) / static_cast<double>(d.observed.size());
    }
    if (d.main.value) main.push_back(*d.main.value);
    table.rows.push_back({fmt::format("{}", d.delta), estimate_cell(d.main), estimate_cell(d.all),
                          boundary ? estimate_cell(d.interior) : "-", estimate_cell(d.r),
                          fmt::format("{:.1f}", 100 * mean)});
    if (d.delta != 0) findings.figures.push_back(figure_of(d, boundary));
  }
  findings.tables = {std::move(table)};
  findings.data = data_of(a, options, analysis, boundary);
  std::vector<std::string> names;
  std::vector<const std::vector<std::uint8_t>*> columns;
  for (std::size_t d = 0; d < a.deltas.size(); ++d) {
    names.push_back(fmt::format("delta {}", a.deltas[d]));
    columns.push_back(&a.right[d]);
  }
  findings.answers = answers_csv(a.modulus, names, columns);
  findings.sentence = fmt::format("{}: rotating {} gate tensors", model, a.rotated);
  if (main.empty()) {
    findings.sentence += " gives no R^2: the pattern does not vary enough over phases.";
  } else {
    const auto [low, high] = std::ranges::minmax(main);
    findings.sentence += fmt::format(
        " moves the pattern of accuracy with R^2 {:.2f} to {:.2f} over {} rotations{}{}.", low,
        high, main.size(), boundary ? ", the boundary phase left out" : "",
        analysis.pooled.value ? fmt::format("; all of them together {:.2f}", *analysis.pooled.value)
                              : std::string());
  }
  findings.notes = {
      "Rotated: the gates' maps and biases per offset, of keys and values, in every chunked layer, "
      "all KV heads together; payload maps, queries and everything else stay.",
      by_window
          ? "Offset i takes the gate of offset (i - delta) mod W."
          : "Offset i takes the gate of the offset delta places earlier in its own stretch of "
            "S offsets, circularly.",
      "A rotated model was never trained: its mean accuracy falls, too. R^2 asks only whether the "
      "change over phases has the predicted shape; the correlation's sign says whether it has it "
      "the right way up.",
      "With a stride of 4 the boundary dropped leaves 3 phases: such an R^2 says little by "
      "itself."};
  if (a.window > options.stride) {
    findings.notes.push_back(
        "With W > S a token has several offsets and one phase. Over the whole window, a rotation "
        "carries gates across the window's end, so a token that was kept as the first of one "
        "window "
        "may be kept as the last of another; within strides it stays in its part of the window.");
  }
  return findings;
}

}  // namespace kvphase::lab
