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
  std::vector<double> predicted, observed, base;

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
    c.base.push_back(base[phase]);
  }
  return c;
}

// The change had every phase become as good as their mean.
Changes vanished(const Changes& c) {
  const auto n = static_cast<double>(c.observed.size());
  Changes flat{.predicted = c.predicted};
  double mean = 0;
  for (std::size_t i = 0; i < c.base.size(); ++i) mean += (c.observed[i] + c.base[i]) / n;
  for (const double base : c.base) flat.observed.push_back(mean - base);
  flat.base = c.base;
  return flat;
}

void append(Changes& all, const Changes& more) {
  all.predicted.insert(all.predicted.end(), more.predicted.begin(), more.predicted.end());
  all.observed.insert(all.observed.end(), more.observed.begin(), more.observed.end());
  all.base.insert(all.base.end(), more.base.begin(), more.base.end());
}

struct DeltaResult {
  std::int64_t delta = 0;
  Estimate main, all, interior, r, vanished, mean;
  std::vector<Estimate> observed, predicted;  // [S]
};

struct Analysis {
  std::vector<DeltaResult> deltas;  // 0 first, without fits
  // Over all deltas' phases together: R^2, the signed correlation, R^2 had the pattern vanished,
  // and how much more than that R^2 is.
  Estimate pooled, r, vanished, excess;
};

Analysis analyse(const CycleAnswers& a, const CycleOptions& options, bool boundary) {
  const auto R = static_cast<std::size_t>(a.modulus);
  const auto S = static_cast<std::size_t>(options.stride);
  const std::size_t count = a.deltas.size(), per_delta = 6 + 2 * S;
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
    Changes pooled, gone;
    for (std::size_t d = 0; d < count; ++d) {
      const auto observed = std::span(accuracy).subspan(d * S, S);
      const auto out = values.subspan(d * per_delta, per_delta);
      double mean = 0;
      for (std::size_t phase = 0; phase < S; ++phase) {
        out[6 + phase] = observed[phase];
        out[6 + S + phase] = base[phase_before(phase, a.deltas[d], S)];
        mean += observed[phase] / static_cast<double>(S);
      }
      out[5] = mean;
      if (a.deltas[d] == 0) continue;
      const CycleFit fit = fit_of(base, observed, a.deltas[d], boundary);
      out[0] = boundary ? fit.without_boundary : fit.all;
      out[1] = fit.all;
      out[2] = fit.interior;
      out[3] = fit.correlation;
      out[4] = fit.vanished;
      const Changes change = changes(base, observed, a.deltas[d], boundary, false);
      append(pooled, change);
      append(gone, vanished(change));
    }
    const auto last = values.subspan(count * per_delta);
    last[0] = pooled.r_squared();
    last[1] = pooled.r();
    last[2] = gone.r_squared();
    if (last[0] && last[2]) last[3] = *last[0] - *last[2];
  };
  const std::vector<Estimate> found =
      stats::bootstrap_statistic(rows, count * S, count * per_delta + 4, statistic,
                                 {.replicates = options.replicates,
                                  .seed = base::derive_seed(options.seed, "cycle.bootstrap")});
  const auto end = found.end();
  Analysis analysis{.pooled = end[-4], .r = end[-3], .vanished = end[-2], .excess = end[-1]};
  for (std::size_t d = 0; d < count; ++d) {
    const auto first = found.begin() + static_cast<std::ptrdiff_t>(d * per_delta);
    const auto size = static_cast<std::ptrdiff_t>(S);
    analysis.deltas.push_back({.delta = a.deltas[d],
                               .main = first[0],
                               .all = first[1],
                               .interior = first[2],
                               .r = first[3],
                               .vanished = first[4],
                               .mean = first[5],
                               .observed = {first + 6, first + 6 + size},
                               .predicted = {first + 6 + size, first + 6 + 2 * size}});
  }
  return analysis;
}

// Why no phase is left out, or which is.
std::string about_boundary(const CycleAnswers& a, bool boundary) {
  if (boundary) {
    return "The last phase is the boundary phase: it stays weak whatever the gates do, and is left "
           "out of the main R^2.";
  }
  if (a.aligned) return "Windows overlap: there is no boundary phase.";
  return "Staggered grids: every KV head has a boundary phase of its own, which stays where it is, "
         "so none is left out, and there the prediction misses.";
}

Figure figure_of(const DeltaResult& d, const std::string& caption) {
  Figure figure{.kind = Figure::Kind::kLines,
                .id = fmt::format("delta-{}{}", d.delta < 0 ? "minus-" : "", std::abs(d.delta)),
                .title = fmt::format("Gates rotated by {}", d.delta),
                .caption = caption,
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

// What the rotations did to the pattern, by the intervals over all of them together.
std::string verb_of(const Analysis& analysis) {
  const auto above = [](const Estimate& e, double x) { return e.low && *e.low > x; };
  constexpr double kGood = 0.5, kPoor = 0.25;
  const Estimate& r2 = analysis.pooled;
  if (above(analysis.r, 0) && above(analysis.excess, 0)) {
    return above(r2, kGood) ? "moves the pattern of accuracy as predicted"
                            : "moves the pattern of accuracy in part";
  }
  if (r2.high && *r2.high < kPoor) return "does not move the pattern of accuracy";
  return "is not shown to move the pattern of accuracy";
}

std::string sentence_of(const std::string& model, const CycleAnswers& a, const Analysis& analysis,
                        bool boundary) {
  std::vector<double> fits, means;
  for (const DeltaResult& d : analysis.deltas) {
    if (d.main.value) fits.push_back(*d.main.value);
    if (d.delta != 0) means.push_back(100 * d.mean.value.value_or(0));
  }
  const auto range = [](const std::vector<double>& values, const char* format) {
    const auto number = [&](double x) { return fmt::format(fmt::runtime(format), x); };
    const auto [low, high] = std::ranges::minmax(values);
    return number(low) == number(high) ? number(low)
                                       : fmt::format("{} to {}", number(low), number(high));
  };
  const std::string accuracy =
      fmt::format("mean accuracy {:.1f}% before, {}% after",
                  100 * analysis.deltas.front().mean.value.value_or(0), range(means, "{:.1f}"));
  const std::size_t phases = analysis.deltas.front().observed.size() - (boundary ? 1 : 0);
  const char* which = boundary    ? " (the boundary phase left out)"
                      : a.aligned ? ""
                                  : " (staggered grids: every head's boundary phase stays put)";
  const std::string over = fmt::format("{} rotation{} of {} phases{}", means.size(),
                                       means.size() == 1 ? "" : "s", phases, which);
  const std::string start = fmt::format("{}: rotating {} gate tensors ", model, a.rotated);
  const Estimate& r2 = analysis.pooled;
  if (fits.empty() || !r2.value) {
    return fmt::format("{}gives no R^2 over {}: the pattern does not vary enough; {}.", start, over,
                       accuracy);
  }
  const std::string interval =
      r2.low && r2.high ? fmt::format(" [{:.2f} to {:.2f}]", *r2.low, *r2.high) : "";
  const std::string gone = analysis.vanished.value ? fmt::format(", {:.2f} had it only vanished",
                                                                 *analysis.vanished.value)
                                                   : "";
  return fmt::format("{}{}: R^2 {:.2f}{} over {} together{}, {} one by one; {}.", start,
                     verb_of(analysis), *r2.value, interval, over, gone, range(fits, "{:.2f}"),
                     accuracy);
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
                      {"r_squared_had_it_vanished", to_json(d.vanished)},
                      {"correlation", to_json(d.r)},
                      {"mean_accuracy", to_json(d.mean)},
                      {"phases", phases}});
  }
  Json same = Json::array();
  for (const Rotations::Same& s : a.same) {
    same.push_back({{"delta", s.left_out}, {"same_rotation_as", s.kept}});
  }
  return {{"window", a.window},
          {"stride", options.stride},
          {"grids", a.aligned ? "aligned" : "staggered"},
          {"phases_compared", boundary ? options.stride - 1 : options.stride},
          {"left_out", same},
          {"rotated_tensors", a.rotated},
          {"boundary_phase", boundary ? Json(options.stride - 1) : Json(nullptr)},
          {"pooled_r_squared", to_json(analysis.pooled)},
          {"pooled_correlation", to_json(analysis.r)},
          {"pooled_r_squared_had_it_vanished", to_json(analysis.vanished)},
          {"pooled_excess", to_json(analysis.excess)},
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
  const Changes main = changes(base, observed, delta, boundary, false);
  fit.correlation = main.r();
  fit.vanished = vanished(main).r_squared();
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
      .header = {"delta", boundary ? "R^2, boundary dropped" : "R^2", "had it vanished",
                 "R^2, all phases", "R^2, interior", "correlation", "mean accuracy, %"},
      .note =
          "Squared correlation of observed and predicted change over phases; brackets: 95% "
          "bootstrap intervals over items. Interior: also without the phase that the weak "
          "boundary is predicted to move to. Had it vanished: R^2 if every phase had become as "
          "good "
          "as their mean. Dashes: fewer than 3 phases, or no change."};
  for (const DeltaResult& d : analysis.deltas) {
    table.rows.push_back({fmt::format("{}", d.delta), estimate_cell(d.main),
                          estimate_cell(d.vanished), estimate_cell(d.all),
                          boundary ? estimate_cell(d.interior) : "-", estimate_cell(d.r),
                          estimate_cell(d.mean, "{:.1f}", 100)});
    if (d.delta != 0) findings.figures.push_back(figure_of(d, about_boundary(a, boundary)));
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
  findings.sentence = sentence_of(model, a, analysis, boundary);
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
      "With a stride of 4 the boundary dropped leaves 3 phases: such an R^2 says little by itself.",
      "A pattern that merely vanishes is explained in part, too, since both changes begin at the "
      "same accuracy. The sentence says that a rotation moves the pattern where the correlation "
      "over "
      "all rotations is above 0 and their R^2 above what that would give, both by their 95% "
      "intervals; \"as predicted\" where R^2 is at least 0.5 by its interval, else \"in part\"; "
      "that it does not where R^2 is below 0.25 by its interval; and else that it is not shown "
      "to."};
  for (const Rotations::Same& s : a.same) {
    findings.notes.push_back(fmt::format(
        "Rotations by {} and {} are the same one here: {} was asked.", s.left_out, s.kept, s.kept));
  }
  if (!a.aligned) findings.notes.push_back(about_boundary(a, boundary));
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
