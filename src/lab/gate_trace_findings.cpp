#include "lab/gate_trace_findings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "lab/shared.h"

namespace kvphase::lab {
namespace {

using base::Json;
using record::Figure;
using train::GateTraceRow;

constexpr std::size_t kSteps = 12;         // shown in figures
constexpr std::size_t kTrajectories = 16;  // gates in the plane
constexpr std::size_t kMaps = 8;           // gates with a map of their own

// rows[step * gates + gate]
struct Trace {
  const std::vector<GateTraceRow>& rows;
  std::size_t gates = 0;
  std::size_t steps = 0;

  const GateTraceRow& at(std::size_t step, std::size_t gate) const {
    return rows[step * gates + gate];
  }
  const GateTraceRow& first(std::size_t gate) const { return at(0, gate); }
  const GateTraceRow& last(std::size_t gate) const { return at(steps - 1, gate); }
};

Trace trace_of(const std::vector<GateTraceRow>& rows) {
  Trace trace{.rows = rows};
  while (trace.gates < rows.size() && rows[trace.gates].step == rows.front().step) ++trace.gates;
  trace.steps = rows.size() / trace.gates;
  return trace;
}

std::string name_of(const GateTraceRow& row) {
  return model::name_of({.layer = row.layer, .head = row.head, .of_values = row.of_values});
}

std::int64_t peak_of(const GateTraceRow& row) {
  return std::ranges::max_element(row.measures.profile) - row.measures.profile.begin();
}

// The first step from which on the largest mass lies where it ends.
std::int64_t settled_at(const Trace& trace, std::size_t gate) {
  std::size_t step = trace.steps - 1;
  const std::int64_t end = peak_of(trace.last(gate));
  while (step > 0 && peak_of(trace.at(step - 1, gate)) == end) --step;
  return trace.at(step, gate).step;
}

// At most `most` of 0..count-1, evenly, with both ends.
std::vector<std::size_t> evenly(std::size_t count, std::size_t most) {
  std::vector<std::size_t> chosen;
  const std::size_t shown = std::min(count, most);
  for (std::size_t i = 0; i < shown; ++i) {
    chosen.push_back(shown == 1 ? 0 : (i * (count - 1) + (shown - 1) / 2) / (shown - 1));
  }
  return chosen;
}

// Gates whose profile moved most from the first to the last step, in the network's order.
std::vector<std::size_t> moved_most(const Trace& trace, std::size_t most) {
  std::vector<double> moved(trace.gates);
  for (std::size_t g = 0; g < trace.gates; ++g) {
    const auto &a = trace.first(g).measures.profile, &b = trace.last(g).measures.profile;
    for (std::size_t i = 0; i < a.size(); ++i) moved[g] += std::abs(a[i] - b[i]);
  }
  std::vector<std::size_t> order(trace.gates);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order,
                           [&](std::size_t a, std::size_t b) { return moved[a] > moved[b]; });
  order.resize(std::min(order.size(), most));
  std::ranges::sort(order);
  return order;
}

std::string chosen_of(std::size_t chosen, const Trace& trace) {
  return chosen == trace.gates
             ? ""
             : fmt::format(" The {} of {} gates whose profile moved most; data.trace has all.",
                           chosen, trace.gates);
}

Figure trajectories(const Trace& trace) {
  const std::vector<std::size_t> gates = moved_most(trace, kTrajectories);
  const std::vector<std::size_t> steps = evenly(trace.steps, kSteps);
  Figure figure{.kind = Figure::Kind::kLines,
                .id = "trajectories",
                .title = "Effective offsets of every gate in training",
                .caption = fmt::format(
                    "A line per gate, a point per step shown ({} of {} logged). Down: each window "
                    "keeps fewer; left along the dashed line: the same ones in every window.{}",
                    steps.size(), trace.steps, chosen_of(gates.size(), trace)),
                .x_title = "static effective offsets",
                .y_title = "per-window effective offsets",
                .diagonal = true,
                .in_order = true};
  for (const std::size_t g : gates) {
    const bool of_values = trace.first(g).of_values;
    record::FigureSeries line{.name = of_values ? "value gates" : "key gates",
                              .role = of_values ? "boundary" : "model"};
    for (const std::size_t s : steps) {
      const GateTraceRow& row = trace.at(s, g);
      line.x.push_back(row.measures.fixed);
      line.y.push_back(row.measures.per_window);
      line.label.push_back(fmt::format("{}, step {}", name_of(row), row.step));
    }
    figure.series.push_back(std::move(line));
  }
  figure.description = fmt::format("{}: {} gates from step {} to step {}.", figure.title,
                                   gates.size(), trace.first(0).step, trace.last(0).step);
  return figure;
}

Figure profile_over_steps(const Trace& trace, std::size_t gate, const std::string& note) {
  const GateTraceRow& last = trace.last(gate);
  const auto W = static_cast<std::int64_t>(last.measures.profile.size());
  std::vector<MapRow> rows;
  for (const std::size_t s : evenly(trace.steps, kSteps)) {
    const GateTraceRow& row = trace.at(s, gate);
    const auto& profile = row.measures.profile;
    rows.push_back(
        {.name = fmt::format("step {}", row.step), .cells = {profile.begin(), profile.end()}});
  }
  return map_figure({.id = fmt::format("training-layer-{}-head-{}-{}", last.layer, last.head,
                                       last.of_values ? "value" : "key"),
                     .title = fmt::format("Gate mass by offset in training, {}", name_of(last)),
                     .caption = "1 is the uniform share." + note,
                     .x_title = "offset",
                     .y_title = "gate mass over uniform share",
                     .low = 0,
                     .high = static_cast<double>(W),
                     .on_page_only = true},
                    W, std::move(rows));
}

record::FindingsTable table_of(const Trace& trace, const std::string& text) {
  record::FindingsTable table{
      .title = fmt::format("Gates in training, from step {} to step {}", trace.first(0).step,
                           trace.last(0).step),
      .header = {"gate", "static", "per window", "peak offset", "peak there since step",
                 "mass there"},
      .note = fmt::format("Over {}, the same at every step; logged by `kvphase train "
                          "--trace-gates`.",
                          text)};
  for (std::size_t g = 0; g < trace.gates; ++g) {
    const GateTraceRow &a = trace.first(g), &b = trace.last(g);
    table.rows.push_back(
        {name_of(b), fmt::format("{:.2f} to {:.2f}", a.measures.fixed, b.measures.fixed),
         fmt::format("{:.2f} to {:.2f}", a.measures.per_window, b.measures.per_window),
         fmt::format("{} to {}", peak_of(a), peak_of(b)), fmt::format("{}", settled_at(trace, g)),
         fmt::format("{:.2f}", b.measures.profile[static_cast<std::size_t>(peak_of(b))])});
  }
  return table;
}

}  // namespace

void add_trace(record::Findings& findings, const train::GateTrace& trace) {
  const std::string text =
      fmt::format("{} {} of {} tokens", trace.text.sequences, trace.text.source, trace.text.tokens);
  Json rows = Json::array();
  for (const GateTraceRow& row : trace.rows) rows.push_back(train::to_json(row));
  findings.data["trace"] = {{"text", train::to_json(trace.text)}, {"rows", std::move(rows)}};
  if (trace.rows.empty()) {
    findings.notes.push_back(
        fmt::format("The training logged no gates: {} hold no whole window.", text));
    return;
  }
  const Trace steps = trace_of(trace.rows);
  findings.tables.push_back(table_of(steps, text));
  findings.figures.push_back(trajectories(steps));
  const std::vector<std::size_t> gates = moved_most(steps, kMaps);
  for (const std::size_t gate : gates) {
    findings.figures.push_back(profile_over_steps(steps, gate, chosen_of(gates.size(), steps)));
  }
}

}  // namespace kvphase::lab
