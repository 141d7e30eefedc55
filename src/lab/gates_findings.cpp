// The analysis of gates.h: plain numbers in, findings out.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/random.h"
#include "lab/gates.h"
#include "lab/shared.h"
#include "stats/item_bootstrap.h"

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
  const auto W = static_cast<std::size_t>(gate.window);
  const auto E = static_cast<std::size_t>(gate.channels);
  const auto statistic = [&](std::span<const double> sums,
                             std::span<std::optional<double>> values) {
    const double windows = sums[E * W + 1];
    if (windows <= 0) return;
    double fixed = 0;
    std::vector<double> mass(W);
    for (std::size_t e = 0; e < E; ++e) {
      const auto channel = sums.subspan(e * W, W);
      fixed += effective_offsets(channel, windows);
      for (std::size_t i = 0; i < W; ++i) mass[i] += channel[i];
    }
    const auto channels = static_cast<double>(E);
    values[0] = fixed / channels;
    values[1] = sums[E * W] / windows;
    for (std::size_t i = 0; i < W; ++i) {
      values[2 + i] = mass[i] / channels / windows * static_cast<double>(W);
    }
  };
  const std::vector<Estimate> found = stats::bootstrap_statistic(
      gate.rows, E * W + 2, 2 + W, statistic,
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

std::string name_of(const GateSums& gate) {
  return fmt::format("layer {} head {} {}", gate.layer, gate.head,
                     gate.of_values ? "value" : "key");
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
    if (gates[i].of_values && gates[i].layer == gates[key].layer &&
        gates[i].head == gates[key].head) {
      return i;
    }
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
    record::FigureSeries& s = figure.series[reading.gates[i].of_values ? 1 : 0];
    s.x.push_back(results[i].fixed.value.value_or(0));
    s.y.push_back(results[i].per_window.value);
    s.label.push_back(name_of(reading.gates[i]));
  }
  std::erase_if(figure.series, [](const record::FigureSeries& s) { return s.x.empty(); });
  figure.description = fmt::format("{}: {} gates.", figure.title, results.size());
  return figure;
}

Figure profiles(const GateReading& reading, const std::vector<GateResult>& results) {
  const std::int64_t W = reading.gates.front().window;
  Figure figure{.kind = Figure::Kind::kHeatmap,
                .id = "profiles",
                .title = "Gate mass by offset",
                .caption =
                    "1 is the uniform share. Value gates also moved back by one offset: where "
                    "that lines up with the key gate, a token is kept with its successor.",
                .x_title = "offset",
                .y_title = "gate mass over uniform share",
                .columns = names_of_phases(W),
                .low = 0,
                .high = static_cast<double>(W)};
  for (std::size_t i = 0; i < results.size(); ++i) {
    const bool of_values = reading.gates[i].of_values;
    for (const std::size_t shift : {std::size_t{0}, std::size_t{1}}) {
      if (shift == 1 && !of_values) continue;
      figure.rows.push_back(name_of(reading.gates[i]) + (shift == 1 ? ", moved by -1" : ""));
      figure.cells.emplace_back();
      const auto& profile = results[i].profile;
      for (std::size_t k = 0; k < profile.size(); ++k) {
        figure.cells.back().push_back(profile[(k + shift) % profile.size()].value);
      }
    }
  }
  figure.description =
      fmt::format("{}: {} rows of {} offsets.", figure.title, figure.rows.size(), W);
  return figure;
}

std::string sentence_of(const std::string& model, const GateReading& reading,
                        const std::vector<GateResult>& results, std::int64_t one_later,
                        std::int64_t pairs) {
  const auto W = static_cast<double>(reading.gates.front().window);
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

}  // namespace

double effective_offsets(std::span<const double> weights, double total) {
  double entropy = 0;
  for (const double weight : weights) {
    const double share = weight / total;
    if (share > 0) entropy -= share * std::log(share);
  }
  return std::exp(entropy);
}

Findings gate_findings(const GateReading& reading, const GateOptions& options,
                       const record::RunContext& context) {
  Findings findings{.kind = "gates",
                    .title = fmt::format("{}: gates over {} prompts of {} tokens",
                                         context.model_name, reading.prompts, reading.tokens),
                    .context = context};
  findings.options = {{"task", task::LookupTask(options.lookup).options()},
                      {"prompts", reading.prompts},
                      {"seed", options.seed},
                      {"replicates", options.replicates}};
  findings.data = {{"gates", Json::array()}};
  if (reading.gates.empty()) {
    findings.sentence =
        fmt::format("{}: no layer is chunked, so there are no gates.", context.model_name);
    return findings;
  }
  std::vector<GateResult> results;
  for (std::size_t i = 0; i < reading.gates.size(); ++i) {
    results.push_back(analyse(reading.gates[i], options, i));
  }
  record::FindingsTable table{
      .title = "Gates",
      .header = {"gate", "static", "per window", "peak offset", "its phase", "mass there",
                 "value lags key by", "correlation"},
      .note =
          "Effective offsets: 1 is one-hot, W uniform; brackets: 95% bootstrap intervals over "
          "prompts. Mass: over the uniform share. Lag: the circular shift at which the value "
          "profile correlates most with its key's."};
  std::int64_t pairs = 0, one_later = 0;
  for (std::size_t i = 0; i < results.size(); ++i) {
    const GateSums& gate = reading.gates[i];
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
      "Gates depend on the text. These are means over the prompts named above; other text may be "
      "gated otherwise.",
      "Static effective offsets say whether the same offsets are kept in every window; a gate with "
      "many static and few per-window ones keeps few tokens, chosen by content.",
      "Windows cut at the beginning of the sequence are left out. Vector gates: means over "
      "channels."};
  return findings;
}

}  // namespace kvphase::lab
