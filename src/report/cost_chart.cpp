#include "report/cost_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
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
  // Of the seeds' 95% intervals the lowest and the highest bound; empty where a seed has none.
  std::optional<double> from;
  std::optional<double> to;
  double gap = 0;  // mean of the seeds' gaps
  std::optional<std::int64_t> stride;
  std::int64_t steps = 0;  // of the training
};

std::optional<Cost> cost_of(const RunComparison& c, const RunGroup& group) {
  Cost cost{.label = group.name};
  bool intervals = true;
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
    cost.stride = run.stride;
    cost.steps = run.training.steps.value_or(0);
    const record::Estimate& estimate = run.result.worst.estimate;
    intervals = intervals && estimate.low && estimate.high;
    if (!intervals) continue;
    cost.from = std::min(cost.from.value_or(*estimate.low), *estimate.low);
    cost.to = std::max(cost.to.value_or(*estimate.high), *estimate.high);
  }
  if (!intervals) cost.from = cost.to = std::nullopt;
  if (cost.seeds == 0) return std::nullopt;
  cost.mean /= static_cast<double>(cost.seeds);
  cost.gap /= static_cast<double>(cost.seeds);
  return cost;
}

std::string range_text(const Cost& cost) {
  const std::string low = number_text(cost.low), high = number_text(cost.high);
  return low == high ? low : fmt::format("{} to {}", low, high);
}

std::string interval_text(const Cost& cost) {
  if (!cost.from) return "-";
  return fmt::format("{} to {}", number_text(cost.from), number_text(cost.to));
}

std::string aligned_design(const Cost& cost) {
  if (cost.kind != Kind::kStaggered) return cost.design;
  return cost.design.substr(0, cost.design.size() - record::kStaggeredSuffix.size());
}

const Cost* twin_of(const Cost& staggered, const std::vector<Cost>& costs) {
  if (staggered.kind != Kind::kStaggered) return nullptr;
  const auto at = std::ranges::find_if(costs, [&](const Cost& cost) {
    return cost.design == aligned_design(staggered) && cost.variant == staggered.variant;
  });
  return at == costs.end() ? nullptr : &*at;
}

// A panel's costs, in the order of their bytes.
struct Family {
  std::string title;
  std::vector<Cost> costs;
};

// Twins by stride, changes of a design beside it, and all else.
std::vector<Family> families_of(const std::vector<Cost>& costs) {
  const auto sizes_changed = [](const Cost& cost) {  // more a design of its own than a change
    return cost.variant.starts_with("head_width=") || cost.variant.starts_with("kv_heads=");
  };
  std::map<std::int64_t, Family> twins;
  std::map<std::string, Family> changed;
  Family others{.title = "Designs as they are", .costs = {}};
  std::set<std::pair<std::string, std::string>> paired;
  for (const Cost& cost : costs) {
    if (const Cost* twin = twin_of(cost, costs)) {
      paired.insert({cost.design, cost.variant});
      paired.insert({twin->design, twin->variant});
    }
  }
  for (const Cost& cost : costs) {
    const bool longer =
        cost.variant.empty() && std::ranges::any_of(costs, [&](const Cost& other) {
          return other.design == cost.design && other.variant.empty() && other.steps < cost.steps;
        });
    const bool change = (!cost.variant.empty() && !sizes_changed(cost)) || longer;
    if (change) {
      const std::string base = aligned_design(cost);
      changed[base].title = fmt::format("{}, changed", base);
      changed[base].costs.push_back(cost);
    } else if (paired.contains({cost.design, cost.variant}) && cost.stride) {
      twins[*cost.stride].title =
          fmt::format("Aligned and staggered grids, stride {}", *cost.stride);
      twins[*cost.stride].costs.push_back(cost);
    } else {
      others.costs.push_back(cost);
    }
  }
  std::vector<Family> families;
  for (auto& [stride, family] : twins) families.push_back(std::move(family));
  for (auto& [base, family] : changed) {
    for (const Cost& cost : costs) {  // what it is compared with
      const bool listed =
          std::ranges::find(family.costs, cost.label, &Cost::label) != family.costs.end();
      if (cost.design == base && cost.variant.empty() && !listed) family.costs.push_back(cost);
    }
    families.push_back(std::move(family));
  }
  if (!others.costs.empty()) families.push_back(std::move(others));
  for (Family& family : families) {
    std::ranges::stable_sort(family.costs, {},
                             [](const Cost& c) { return std::pair(c.bytes, c.mean); });
  }
  return families;
}

// Where the marks stand so that none covers another: at least kApart of the panel's width between
// neighbours, moved as little as that allows (pooled neighbours keep the mean of where they
// belong). Fractions 0..1 of the logarithmic axis, by the order of bytes.
std::vector<double> places_of(const std::vector<Cost>& costs, double low, double high) {
  constexpr double kApart = 0.07;
  struct Block {
    double sum = 0;  // of the members' wishes, each less its distance from the block's first
    double count = 0;
  };
  const double apart = std::min(kApart, 1.0 / static_cast<double>(costs.size()));
  std::vector<Block> blocks;
  double index = 0;
  for (const Cost& cost : costs) {
    blocks.push_back(
        {.sum = std::log(cost.bytes / low) / std::log(high / low) - apart * index++, .count = 1});
    while (blocks.size() > 1) {
      const Block last = blocks.back();
      Block& before = blocks[blocks.size() - 2];
      if (before.sum / before.count <= last.sum / last.count) break;
      before.sum += last.sum;
      before.count += last.count;
      blocks.pop_back();
    }
  }
  std::vector<double> places;
  for (const Block& block : blocks) {
    for (double i = 0; i < block.count; ++i) {
      places.push_back(block.sum / block.count + apart * static_cast<double>(places.size()));
    }
  }
  return places;
}

// Costs with their number in the panel and where they are drawn, bytes.
struct Placed {
  std::vector<Cost> costs;
  std::vector<double> x;
  double low = 1;
  double high = 2;
};

Placed place(const Family& family) {
  Placed placed{.costs = family.costs,
                .x = {},
                .low = family.costs.front().bytes,
                .high = family.costs.back().bytes};
  const double margin = std::max(1.12, std::pow(placed.high / placed.low, 0.12));
  placed.low /= margin;
  placed.high *= margin;
  const std::vector<double> places = places_of(placed.costs, placed.low, placed.high);
  // What stands at an end may have been pushed over it.
  const double ratio = placed.high / placed.low;
  for (const double at : places) placed.x.push_back(placed.low * std::pow(ratio, at));
  placed.low = std::min(placed.low, placed.x.front() / 1.05);
  placed.high = std::max(placed.high, placed.x.back() * 1.08);
  return placed;
}

Json mark_rows(const Placed& placed) {
  Json rows = Json::array();
  for (std::size_t i = 0; i < placed.costs.size(); ++i) {
    const Cost& cost = placed.costs[i];
    const std::string color = fmt::format("var(--{})", mark_of(cost.kind).name);
    rows.push_back(
        {{"x", placed.x[i]},
         {"y", cost.mean},
         {"low", cost.low},
         {"high", cost.high},
         {"from", cost.from.value_or(cost.low)},
         {"to", cost.to.value_or(cost.high)},
         {"gap", cost.gap},
         {"name", cost.label},
         {"number", fmt::format("{}", i + 1)},
         {"color", color},
         {"fill", cost.seeds == 1 ? "var(--paper)" : color},
         {"shape", mark_of(cost.kind).shape},
         {"label",
          fmt::format("{}: {:.4g} bytes per token, worst residue {}%, 95% {}, gap {}, {} seed{}",
                      cost.label, cost.bytes, range_text(cost), interval_text(cost),
                      number_text(cost.gap), cost.seeds, cost.seeds == 1 ? "" : "s")}});
  }
  return rows;
}

// From an aligned design to its twin on staggered grids.
Json twin_rows(const Placed& placed) {
  Json rows = Json::array();
  for (std::size_t i = 0; i < placed.costs.size(); ++i) {
    const Cost* at = twin_of(placed.costs[i], placed.costs);
    if (at == nullptr) continue;
    const auto from = static_cast<std::size_t>(at - placed.costs.data());
    rows.push_back({{"x", placed.x[from]},
                    {"y", at->mean},
                    {"x2", placed.x[i]},
                    {"y2", placed.costs[i].mean}});
  }
  return rows;
}

std::string key_text(const Placed& placed) {
  std::string text;
  for (std::size_t i = 0; i < placed.costs.size(); ++i) {
    const Cost& cost = placed.costs[i];
    text += fmt::format("{}{} {} ({:.0f}{})", i == 0 ? "" : " \u00b7 ", i + 1, cost.label,
                        cost.bytes, cost.seeds == 1 ? ", one seed" : "");
  }
  return text;
}

Json channel(const char* field, const char* type = "quantitative") {
  return {{"field", field}, {"type", type}, {"scale", nullptr}};
}

Json cost_spec(const Placed& placed, const std::string& description) {
  Json spec = base_spec(description, 220);
  const Json y = {{"field", "y"},
                  {"type", "quantitative"},
                  {"scale", {{"domain", {0, 1}}}},
                  {"title", "worst residue"},
                  {"axis", {{"format", ".0%"}, {"tickCount", 5}, {"ticks", false}}}};
  const Json x = {
      {"field", "x"},
      {"type", "quantitative"},
      {"scale",
       {{"type", "log"}, {"base", 2}, {"nice", false}, {"domain", {placed.low, placed.high}}}},
      {"title", "cache, bytes per token"},
      {"axis", {{"tickCount", 5}, {"format", "d"}, {"ticks", false}, {"labelOverlap", true}}}};
  Json layers = Json::array();
  if (const Json twins = twin_rows(placed); !twins.empty()) {
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
  const auto line = [&](double width, const char* low, const char* high) {
    layers.push_back({{"mark", {{"type", "rule"}, {"strokeWidth", width}, {"aria", false}}},
                      {"encoding",
                       {{"x", x},
                        {"y", with(y, {{"field", low}})},
                        {"y2", {{"field", high}}},
                        {"color", channel("color", "nominal")}}}});
  };
  line(1, "from", "to");
  line(3, "low", "high");
  layers.push_back({{"mark", {{"type", "point"}, {"strokeWidth", 1.5}, {"aria", false}}},
                    {"encoding",
                     {{"x", x},
                      {"y", y},
                      {"size",
                       {{"field", "gap"},
                        {"type", "quantitative"},
                        {"scale", {{"domain", {0, 1}}, {"range", {24, 260}}}},
                        {"legend", nullptr}}},
                      {"stroke", channel("color", "nominal")},
                      {"fill", channel("fill", "nominal")},
                      {"shape", channel("shape", "nominal")},
                      {"tooltip", {{"field", "label"}}}}}});
  layers.push_back({{"mark",
                     {{"type", "text"},
                      {"align", "left"},
                      {"baseline", "bottom"},
                      {"dx", 4},
                      {"dy", -3},
                      {"fontSize", 11},
                      {"clip", false},
                      {"color", "var(--ink)"},
                      {"aria", false}}},
                    {"encoding", {{"x", x}, {"y", y}, {"text", {{"field", "number"}}}}}});
  spec["data"] = {{"values", mark_rows(placed)}};
  spec["layer"] = std::move(layers);
  return spec;
}

}  // namespace

RunFigure cost_figure(const RunComparison& c, const RunSet& set) {
  RunFigure figure;
  figure.id = "cost-" + set.id;
  figure.title = "Worst residue against the cost of the cache";
  figure.data.header = {"design", "runs", "bytes per token", "worst %", "95%", "gap"};
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
                                interval_text(cost), number_text(cost.gap)});
  }
  std::set<std::int64_t> tokens, elements;
  for (const ComparedRun& run : c.runs) {
    if (!run.cache.bytes_per_token) continue;
    tokens.insert(run.cache.tokens);
    elements.insert(run.cache.element_bytes);
  }
  figure.caption = fmt::format(
      "A panel per family of options; numbers are named under its title, with their bytes. A mark "
      "at the mean of the seeds' worst residues, larger where the gap is; thick: from the lowest "
      "seed to the highest; thin: the seeds' 95% intervals (whichever residue is the worst), "
      "lowest "
      "to highest bound; hollow: one seed. Dotted: from aligned grids to staggered ones. Bytes of "
      "one sequence's cache divided by its tokens, all layers, {} bytes per number, at the model's "
      "context length ({} tokens), logarithmic; marks that would cover each other are moved apart.",
      fmt::join(elements, ", "), fmt::join(tokens, ", "));
  const std::vector<Family> families = families_of(costs);
  figure.description = fmt::format("{}, {}: {} designs in {} panels; the table lists them.",
                                   figure.title, set.title, costs.size(), families.size());
  for (const Family& family : families) {
    const Placed placed = place(family);
    const std::string key = key_text(placed);
    const std::string description = fmt::format("{}, {}: {}", figure.title, family.title, key);
    figure.panels.push_back({.title = family.title,
                             .detail = key,
                             .description = description,
                             .spec = cost_spec(placed, description)});
  }
  return figure;
}

}  // namespace kvphase::report
