// The analysis of gates.h: plain numbers in, findings out.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/random.h"
#include "lab/gate_trace_findings.h"
#include "lab/gates.h"
#include "lab/shared.h"
#include "stats/item_bootstrap.h"
#include "train/token_set.h"

namespace kvphase::lab {
namespace {

using base::Json;
using record::Figure;
using record::Findings;
using stats::Estimate;

struct GateResult {
  Estimate fixed;  // static effective offsets
  Estimate per_window;
  std::vector<Estimate> profile;  // [W] gate mass over the uniform share
  std::int64_t peak = 0;          // offset of the largest mass
};

GateResult analyse(const GateSums& gate, const GateOptions& options, std::size_t index) {
  const auto W = static_cast<std::size_t>(gate.place.window);
  const auto statistic = [&](std::span<const double> sums,
                             std::span<std::optional<double>> values) {
    const auto measures = model::measure_gate(gate.place, sums);
    if (!measures) return;
    values[0] = measures->fixed;
    values[1] = measures->per_window;
    std::ranges::copy(measures->profile, values.begin() + 2);
  };
  const std::vector<Estimate> found = stats::bootstrap_statistic(
      gate.rows, static_cast<std::size_t>(gate.place.sums()), 2 + W, statistic,
      {.replicates = options.replicates,
       .seed = base::derive_seed(options.seed, "gates.bootstrap", {index})});
  GateResult result{.fixed = found[0], .per_window = found[1]};
  result.profile.assign(found.begin() + 2, found.end());
  const auto larger = [](const Estimate& a, const Estimate& b) {
    return a.value.value_or(0) < b.value.value_or(0);
  };
  result.peak = std::ranges::max_element(result.profile, larger) - result.profile.begin();
  return result;
}

// By how many offsets, turned circularly, the value profile lags its key's: where their
// correlation is largest. Empty where one of them is flat.
struct Lag {
  std::int64_t offsets = 0;
  double correlation = 0;
};
std::optional<Lag> lag_of(const GateResult& key, const GateResult& value) {
  const std::size_t W = key.profile.size();
  std::vector<double> k, v;
  for (std::size_t i = 0; i < W; ++i) {
    k.push_back(key.profile[i].value.value_or(0));
    v.push_back(value.profile[i].value.value_or(0));
  }
  std::optional<Lag> best;
  for (std::size_t lag = 0; lag < W; ++lag) {
    std::vector<double> turned;
    for (std::size_t i = 0; i < W; ++i) turned.push_back(v[(i + lag) % W]);
    const auto r = correlation(k, turned);
    if (!r) return std::nullopt;
    if (!best || *r > best->correlation) {
      best = Lag{.offsets = static_cast<std::int64_t>(lag), .correlation = *r};
    }
  }
  return best;
}

// The value gate of the same layer and head.
std::optional<std::size_t> partner(const std::vector<GateSums>& gates, std::size_t key) {
  for (std::size_t i = 0; i < gates.size(); ++i) {
    const model::GatePlace &a = gates[i].place, &b = gates[key].place;
    if (a.of_values && a.layer == b.layer && a.head == b.head) return i;
  }
  return std::nullopt;
}

Figure plane(const GateReading& reading, const std::vector<GateResult>& results) {
  Figure figure{.kind = Figure::Kind::kPoints,
                .id = "plane",
                .title = "Static and per-window effective offsets of every gate",
                .caption =
                    "On the dashed line a gate keeps the same offsets in every window; below "
                    "it, it chooses by content. Left is one-hot, right is uniform.",
                .x_title = "static effective offsets",
                .y_title = "per-window effective offsets",
                .series = {{.name = "key gates"}, {.name = "value gates", .role = "boundary"}},
                .diagonal = true};
  for (std::size_t i = 0; i < results.size(); ++i) {
    record::FigureSeries& s = figure.series[reading.gates[i].place.of_values ? 1 : 0];
    s.x.push_back(results[i].fixed.value.value_or(0));
    s.y.push_back(results[i].per_window.value);
    s.label.push_back(name_of(reading.gates[i].place));
  }
  std::erase_if(figure.series, [](const record::FigureSeries& s) { return s.x.empty(); });
  figure.description = fmt::format("{}: {} gates.", figure.title, results.size());
  return figure;
}

Figure profiles(const GateReading& reading, const std::vector<GateResult>& results) {
  const std::int64_t W = reading.gates.front().place.window;
  std::vector<MapRow> rows;
  for (std::size_t i = 0; i < results.size(); ++i) {
    const model::GatePlace& gate = reading.gates[i].place;
    const auto& profile = results[i].profile;
    for (const std::size_t shift : {std::size_t{0}, std::size_t{1}}) {
      if (shift == 1 && !gate.of_values) continue;
      rows.push_back({.name = name_of(gate) + (shift == 1 ? ", moved by -1" : "")});
      for (std::size_t k = 0; k < profile.size(); ++k) {
        rows.back().cells.push_back(profile[(k + shift) % profile.size()].value);
      }
    }
  }
  return map_figure(
      {.id = "profiles",
       .title = "Gate mass by offset",
       .caption = "1 is the uniform share. Value gates also moved back by one offset: where that "
                  "lines up with the key gate, a token is kept with its successor.",
       .x_title = "offset",
       .y_title = "gate mass over uniform share",
       .low = 0,
       .high = static_cast<double>(W)},
      W, std::move(rows));
}

std::string sentence_of(const std::string& model, const GateReading& reading,
                        const std::vector<GateResult>& results, std::int64_t one_later,
                        std::int64_t pairs) {
  const auto W = static_cast<double>(reading.gates.front().place.window);
  std::int64_t fixed = 0, adaptive = 0;
  for (const GateResult& r : results) {
    const double s = r.fixed.value.value_or(W), w = r.per_window.value.value_or(W);
    fixed += s <= W / 2 ? 1 : 0;
    adaptive += s > W / 2 && w <= W / 2 ? 1 : 0;
  }
  std::string text = fmt::format(
      "{}: of {} gates {} keep the same few offsets in every window (static effective offsets at "
      "most W/2 = {:g}) and {} choose few by content (per-window at most W/2)",
      model, results.size(), fixed, W / 2, adaptive);
  if (pairs > 0) {
    text += fmt::format("; {} of {} value gates lie one offset behind their key gate", one_later,
                        pairs);
  }
  return text + ".";
}

// "480 lookup prompts of 128 tokens"
std::string text_of(const GateReading& reading, const GateOptions& options) {
  if (options.text.empty()) {
    return fmt::format("{} lookup prompts of {} tokens", reading.prompts, reading.tokens);
  }
  return fmt::format("{} windows of {} tokens of the validation text in {}", reading.prompts,
                     reading.tokens, fmt::join(options.text, ", "));
}

}  // namespace

Findings gate_findings(const GateReading& reading, const GateOptions& options,
                       const record::RunContext& context) {
  const std::string text = text_of(reading, options);
  Findings findings{.kind = "gates",
                    .title = fmt::format("{}: gates over {}", context.model_name, text),
                    .context = context};
  findings.options = {
      {"prompts", reading.prompts}, {"seed", options.seed}, {"replicates", options.replicates}};
  if (options.text.empty()) {
    findings.options["task"] = task::LookupTask(options.lookup).options();
  } else {
    findings.options["text"] = {{"folders", options.text},
                                {"split", train::kValidationSplit},
                                {"tokens", reading.tokens},
                                {"shards", reading.shards}};
  }
  findings.data = {{"gates", Json::array()}, {"trace", nullptr}};
  if (reading.gates.empty()) {
    findings.sentence = fmt::format("{}: {}.", context.model_name, reading.why_none);
    return findings;
  }
  std::vector<GateResult> results;
  for (std::size_t i = 0; i < reading.gates.size(); ++i) {
    results.push_back(analyse(reading.gates[i], options, i));
  }
  record::FindingsTable table{
      .title = fmt::format("Gates over {}", text),
      .header = {"gate", "static", "per window", "peak offset", "its phase", "mass there",
                 "value lags key by", "correlation"},
      .note =
          "Effective offsets: 1 is one-hot, W uniform; brackets: 95% bootstrap intervals over "
          "prompts. Mass: over the uniform share. Lag: the circular shift at which the value "
          "profile correlates most with its key's."};
  std::int64_t pairs = 0, one_later = 0;
  for (std::size_t i = 0; i < results.size(); ++i) {
    const model::GatePlace& gate = reading.gates[i].place;
    const GateResult& r = results[i];
    std::optional<Lag> lag;
    if (!gate.of_values) {
      if (const auto value = partner(reading.gates, i)) {
        lag = lag_of(r, results[*value]);
        pairs += lag ? 1 : 0;
        one_later += lag && lag->offsets == 1 ? 1 : 0;
      }
    }
    const auto peak = static_cast<std::size_t>(r.peak);
    table.rows.push_back({name_of(gate), estimate_cell(r.fixed), estimate_cell(r.per_window),
                          fmt::format("{}", r.peak), fmt::format("{}", gate.phase_of_offset[peak]),
                          estimate_cell(r.profile[peak]),
                          lag ? fmt::format("{}", lag->offsets) : "",
                          lag ? fmt::format("{:.2f}", lag->correlation) : ""});
    Json profile = Json::array();
    for (const Estimate& e : r.profile) profile.push_back(to_json(e));
    findings.data["gates"].push_back(
        {{"layer", gate.layer},
         {"head", gate.head},
         {"branch", gate.of_values ? "value" : "key"},
         {"window", gate.window},
         {"channels", gate.channels},
         {"phase_of_offset", gate.phase_of_offset},
         {"static_effective_offsets", to_json(r.fixed)},
         {"per_window_effective_offsets", to_json(r.per_window)},
         {"profile", profile},
         {"peak_offset", r.peak},
         {"value_lag", lag ? Json(lag->offsets) : Json(nullptr)},
         {"value_lag_correlation", lag ? Json(lag->correlation) : Json(nullptr)}});
  }
  findings.sentence = sentence_of(context.model_name, reading, results, one_later, pairs);
  findings.tables = {std::move(table)};
  findings.figures = {plane(reading, results), profiles(reading, results)};
  findings.notes = {
      fmt::format("Gates depend on the text. These are means over {}; other text may be gated "
                  "otherwise.",
                  text),
      "Static effective offsets say whether the same offsets are kept in every window; a gate with "
      "many static and few per-window ones keeps few tokens, chosen by content.",
      "Windows cut at the beginning of the sequence are left out. Vector gates: means over "
      "channels."};
  if (reading.trace) {
    add_trace(findings, *reading.trace);
  } else {
    findings.notes.push_back(
        "The training did not log its gates, so nothing is shown over its steps (`kvphase train "
        "--trace-gates`).");
  }
  return findings;
}

}  // namespace kvphase::lab
