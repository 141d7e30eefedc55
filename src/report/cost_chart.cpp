#include "report/cost_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>

#include "report/chart_spec.h"
#include "report/run_comparison.h"
#include "report/text.h"

namespace kvphase::report {
namespace {

using base::Json;
using record::ComparedRun;
using record::RunComparison;

enum class Kind { kFull, kAligned, kStaggered };

// `name` is that of a legend entry and of a CSS colour.
struct KindMark {
  const char* name;
  const char* shape;
  const char* text;
};

KindMark mark_of(Kind kind) {
  switch (kind) {
    case Kind::kFull:
      return {"control", "square", "full attention"};
    case Kind::kAligned:
      return {"model", "circle", "chunked, aligned grids"};
    case Kind::kStaggered:
      return {"boundary", "diamond", "chunked, staggered grids"};
  }
  return {};
}

// One design and variant over its seeds; shares.
struct Cost {
  std::string label;
  std::string design;
  std::string variant;
  Kind kind = Kind::kAligned;
  std::int64_t seeds = 0;
  double bytes = 0;  // per token
  double mean = 0;   // of the seeds' worst residues
  double low = 1;
  double high = 0;
  double gap = 0;  // mean of the seeds' gaps
};

std::optional<Cost> cost_of(const RunComparison& c, const RunGroup& group) {
  Cost cost{.label = group.name};
  for (const std::size_t i : group.runs) {
    const ComparedRun& run = c.runs[i];
    const auto& worst = run.result.worst.estimate.value;
    const auto& gap = run.result.gap.estimate.value;
    if (!run.cache.bytes_per_token || !worst || !gap) continue;
    cost.design = run.design;
    cost.variant = run.variant;
    cost.kind = run.control                                      ? Kind::kFull
                : run.design.ends_with(record::kStaggeredSuffix) ? Kind::kStaggered
                                                                 : Kind::kAligned;
    cost.bytes = *run.cache.bytes_per_token;
    ++cost.seeds;
    cost.mean += *worst;
    cost.gap += *gap;
    cost.low = std::min(cost.low, *worst);
    cost.high = std::max(cost.high, *worst);
  }
  if (cost.seeds == 0) return std::nullopt;
  cost.mean /= static_cast<double>(cost.seeds);
  cost.gap /= static_cast<double>(cost.seeds);
  return cost;
}

std::string range_text(const Cost& cost) {
  const std::string low = number_text(cost.low), high = number_text(cost.high);
  return low == high ? low : fmt::format("{} to {}", low, high);
}

Json mark_rows(const std::vector<Cost>& costs) {
  Json rows = Json::array();
  for (const Cost& cost : costs) {
    rows.push_back(
        {{"x", cost.bytes},
         {"y", cost.mean},
         {"low", cost.low},
         {"high", cost.high},
         {"gap", cost.gap},
         {"name", cost.label},
         {"color", fmt::format("var(--{})", mark_of(cost.kind).name)},
         {"shape", mark_of(cost.kind).shape},
         {"label", fmt::format("{}: {:.4g} bytes per token, worst residue {}%, gap {}", cost.label,
                               cost.bytes, range_text(cost), number_text(cost.gap))}});
  }
  return rows;
}

// From an aligned design to its twin on staggered grids.
Json twin_rows(const std::vector<Cost>& costs) {
  Json rows = Json::array();
  for (const Cost& twin : costs) {
    if (twin.kind != Kind::kStaggered) continue;
    const std::string aligned =
        twin.design.substr(0, twin.design.size() - record::kStaggeredSuffix.size());
    const auto at = std::ranges::find_if(costs, [&](const Cost& cost) {
      return cost.design == aligned && cost.variant == twin.variant;
    });
    if (at == costs.end()) continue;
    rows.push_back({{"x", at->bytes}, {"y", at->mean}, {"x2", twin.bytes}, {"y2", twin.mean}});
  }
  return rows;
}

Json channel(const char* field, const char* type = "quantitative") {
  return {{"field", field}, {"type", type}, {"scale", nullptr}};
}

Json cost_spec(const std::vector<Cost>& costs, const std::string& description) {
  Json spec = base_spec(description, 340);
  const Json y = {{"field", "y"},
                  {"type", "quantitative"},
                  {"scale", {{"domain", {0, 1}}}},
                  {"title", "worst residue"},
                  {"axis", {{"format", ".0%"}, {"tickCount", 5}, {"ticks", false}}}};
  const Json x = {{"field", "x"},
                  {"type", "quantitative"},
                  {"scale", {{"type", "log"}, {"nice", false}, {"padding", 24}}},
                  {"title", "cache, bytes per token (logarithmic)"},
                  {"axis", {{"tickCount", 6}, {"format", "d"}, {"ticks", false}}}};
  Json layers = Json::array();
  if (const Json twins = twin_rows(costs); !twins.empty()) {
    layers.push_back(
        {{"data", {{"values", twins}}},
         {"mark", {{"type", "rule"}, {"strokeWidth", 1}, {"strokeDash", {2, 3}}, {"aria", false}}},
         {"encoding",
          {{"x", x},
           {"y", y},
           {"x2", {{"field", "x2"}}},
           {"y2", {{"field", "y2"}}},
           {"color", {{"value", "var(--boundary)"}}}}}});
  }
  layers.push_back({{"mark", {{"type", "rule"}, {"strokeWidth", 2}, {"aria", false}}},
                    {"encoding",
                     {{"x", x},
                      {"y", with(y, {{"field", "low"}})},
                      {"y2", {{"field", "high"}}},
                      {"color", channel("color", "nominal")}}}});
  layers.push_back(
      {{"mark", {{"type", "point"}, {"filled", true}, {"opacity", 0.85}, {"aria", false}}},
       {"encoding",
        {{"x", x},
         {"y", y},
         {"size",
          {{"field", "gap"},
           {"type", "quantitative"},
           {"scale", {{"domain", {0, 1}}, {"range", {24, 420}}}},
           {"legend", nullptr}}},
         {"color", channel("color", "nominal")},
         {"shape", channel("shape", "nominal")},
         {"tooltip", {{"field", "label"}}}}}});
  constexpr std::size_t kMostNamed = 24;  // more names than that would cover each other
  if (costs.size() <= kMostNamed) {
    layers.push_back({{"mark",
                       {{"type", "text"},
                        {"align", "left"},
                        {"dx", 9},
                        {"fontSize", 10},
                        {"color", "var(--ink-2)"},
                        {"aria", false}}},
                      {"encoding", {{"x", x}, {"y", y}, {"text", {{"field", "name"}}}}}});
  }
  spec["data"] = {{"values", mark_rows(costs)}};
  spec["layer"] = std::move(layers);
  return spec;
}

}  // namespace

RunFigure cost_figure(const RunComparison& c, const RunSet& set) {
  RunFigure figure;
  figure.id = "cost-" + set.id;
  figure.title = "Worst residue against the cost of the cache";
  figure.data.header = {"design", "runs", "bytes per token", "worst %", "gap"};
  std::vector<Cost> costs;
  for (const RunGroup& group : set.groups) {
    if (const auto cost = cost_of(c, group)) costs.push_back(*cost);
  }
  if (costs.empty()) return figure;
  for (const Kind kind : {Kind::kFull, Kind::kAligned, Kind::kStaggered}) {
    if (std::ranges::find(costs, kind, &Cost::kind) == costs.end()) continue;
    figure.legend.push_back({mark_of(kind).name, mark_of(kind).text});
  }
  for (const Cost& cost : costs) {
    figure.data.rows.push_back({cost.label, fmt::format("{}", cost.seeds),
                                fmt::format("{:.4g}", cost.bytes), range_text(cost),
                                number_text(cost.gap)});
  }
  std::set<std::int64_t> tokens, elements;
  for (const ComparedRun& run : c.runs) {
    if (!run.cache.bytes_per_token) continue;
    tokens.insert(run.cache.tokens);
    elements.insert(run.cache.element_bytes);
  }
  figure.caption = fmt::format(
      "A mark per design at the mean of its runs' worst residues, a line from the lowest to the "
      "highest; larger marks have a larger gap. Dotted: from aligned grids to staggered ones. "
      "Bytes "
      "of one sequence's cache divided by its tokens, all layers, {} bytes per number, at the "
      "model's context length ({} tokens).",
      fmt::join(elements, ", "), fmt::join(tokens, ", "));
  figure.description = fmt::format("{}, {}: {} designs; the table lists them.", figure.title,
                                   set.title, costs.size());
  figure.panels.push_back({.title = {},
                           .detail = {},
                           .description = figure.description,
                           .spec = cost_spec(costs, figure.description)});
  return figure;
}

}  // namespace kvphase::report
