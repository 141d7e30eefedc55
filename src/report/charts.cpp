#include "report/charts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "report/chart_spec.h"
#include "report/text.h"

namespace kvphase::report {
namespace {

// The control's legend entry says that it is one.
std::string control_name(const record::Result& control) {
  const std::string name = series_name(control);
  return name == "control" ? name : name + " (control)";
}

using base::Json;
using record::Group;
using record::Result;

constexpr const char* kModel = "var(--model)";
constexpr const char* kBoundary = "var(--boundary)";
constexpr const char* kControl = "var(--control)";
// Residues; the control's points stand this much to the right so that intervals do not overlap.
constexpr double kDodge = 0.24;
constexpr double kSmallestDrawnP = 1e-16;

Json y_axis(const Result& result) {
  if (unit_of(result) == Unit::kShare) {
    return {{"type", "quantitative"},
            {"scale", {{"domain", {0, 1}}}},
            {"title", "accuracy"},
            {"axis", {{"format", ".0%"}, {"tickCount", 5}, {"domain", false}, {"ticks", false}}}};
  }
  return {{"type", "quantitative"},
          {"scale", {{"zero", false}}},
          {"title", result.score + (unit_of(result) == Unit::kNats ? " (nats)" : "")},
          {"axis", {{"tickCount", 5}, {"domain", false}, {"ticks", false}}}};
}

// "residue 3: 20.0% [9.6 to 34.6%], 10 of 50"
std::string group_label(std::string_view series, std::string_view kind, const Group& group,
                        const Result& result) {
  const Unit unit = unit_of(result);
  const std::string interval = interval_text(group.low, group.high, unit);
  std::string text =
      fmt::format("{}, {} {}: {}", series, kind, group.index, value_text(group.accuracy, unit));
  if (!interval.empty()) text += " [" + interval + "]";
  text += unit == Unit::kShare ? fmt::format(", {} of {}", count_text(group.correct.value_or(0)),
                                             count_text(group.n))
                               : fmt::format(", n = {}", count_text(group.n));
  if (group.boundary) text += ", boundary phase";
  return text;
}

// Rows {x, y, low, high, boundary, label}; a group without a value breaks the line and has no mark.
Json group_rows(const Result& result, const std::vector<Group>& groups, std::string_view kind,
                double shift) {
  Json rows = Json::array();
  for (const Group& group : groups) {
    rows.push_back({{"x", static_cast<double>(group.index) + shift},
                    {"y", base::number_or_null(group.accuracy)},
                    {"low", base::number_or_null(group.low)},
                    {"high", base::number_or_null(group.high)},
                    {"boundary", group.boundary},
                    {"label", group_label(series_name(result), kind, group, result)}});
  }
  return rows;
}

Json boundary_color(const char* otherwise) {
  return {{"condition", {{"test", "datum.boundary"}, {"value", kBoundary}}}, {"value", otherwise}};
}

Json interval_layer(const char* color, double width) {
  return {
      {"transform", Json::array({{{"filter", "datum.low !== null && datum.high !== null"}}})},
      {"mark", {{"type", "rule"}, {"strokeWidth", width}, {"aria", false}}},
      {"encoding",
       {{"y", {{"field", "low"}}}, {"y2", {{"field", "high"}}}, {"color", boundary_color(color)}}}};
}

Json point_layer(const char* color, double size, const char* shape) {
  return {{"mark", {{"type", "point"}, {"filled", true}, {"opacity", 1}}},
          {"encoding",
           {{"size",  // a diamond of equal area looks smaller than a circle
             {{"condition", {{"test", "datum.boundary"}, {"value", 2 * size}}}, {"value", size}}},
            {"color", boundary_color(color)},
            {"shape",
             {{"condition", {{"test", "datum.boundary"}, {"value", "diamond"}}}, {"value", shape}}},
            {"tooltip", {{"field", "label"}}},
            {"description", {{"field", "label"}}}}}};
}

Json line_layer(const char* color, double opacity) {
  return {
      {"mark", {{"type", "line"}, {"strokeWidth", 1.25}, {"opacity", opacity}, {"aria", false}}},
      {"encoding", {{"color", {{"value", color}}}}}};
}

Json series_layers(Json rows, const Json& x, const Json& y, const char* color, double line_opacity,
                   double size, const char* shape) {
  return {{"data", {{"values", std::move(rows)}}},
          {"encoding", {{"x", with({{"field", "x"}}, x)}, {"y", with({{"field", "y"}}, y)}}},
          {"layer", Json::array({line_layer(color, line_opacity), interval_layer(color, 1.5),
                                 point_layer(color, size, shape)})}};
}

// Grid lines stand at multiples of the stride where it is known, so that they show the period.
Json residue_axis(const Result& result, std::size_t count) {
  constexpr std::size_t kMostTicks = 12;
  Json axis = {{"title", fmt::format("token position modulo {}", result.design.modulus)},
               {"format", "d"},
               {"labelOverlap", "greedy"},
               {"grid", true}};
  if (result.folded && result.folded->stride > 1) {
    const std::int64_t stride = result.folded->stride;
    const auto step = count <= kMostTicks ? 1 : static_cast<std::size_t>(stride);
    Json values = Json::array();
    for (std::size_t v = 0; v < count; v += step) values.push_back(v);
    axis["values"] = values;
    axis["gridColor"] = {
        {"condition",
         {{"test", fmt::format("datum.value % {} === 0", stride)}, {"value", "var(--grid)"}}},
        {"value", "transparent"}};
  } else {
    axis["tickMinStep"] = 1;
  }
  return {{"type", "quantitative"},
          {"scale", {{"domain", {-0.6, static_cast<double>(count) - 0.4}}, {"nice", false}}},
          {"axis", axis}};
}

std::vector<LegendEntry> legend_of(const Result& result, const std::optional<Result>& control) {
  std::vector<LegendEntry> legend = {{"model", series_name(result)}};
  if (const auto boundary = boundary_phase(result)) {
    legend.push_back({"boundary", fmt::format("its boundary phase, {}", *boundary)});
  }
  if (control) legend.push_back({"control", control_name(*control)});
  return legend;
}

std::string range_text(const std::vector<Group>& groups, std::string_view kind, Unit unit) {
  const Group* low = nullptr;
  const Group* high = nullptr;
  for (const Group& group : groups) {
    if (!group.accuracy) continue;
    if (low == nullptr || *group.accuracy < *low->accuracy) low = &group;
    if (high == nullptr || *group.accuracy > *high->accuracy) high = &group;
  }
  if (low == nullptr) return "no value";
  return fmt::format("lowest {} at {} {}, highest {} at {} {}", value_text(low->accuracy, unit),
                     kind, low->index, value_text(high->accuracy, unit), kind, high->index);
}

std::string describe(const std::string& what, const Result& result,
                     const std::vector<Group>& groups, std::string_view kind,
                     const std::vector<Group>* control) {
  const Unit unit = unit_of(result);
  std::string text = fmt::format("{}: {}.", what, range_text(groups, kind, unit));
  if (const auto boundary = boundary_phase(result)) {
    text += fmt::format(" The boundary phase is {}.", *boundary);
  }
  if (control != nullptr) text += fmt::format(" Control: {}.", range_text(*control, kind, unit));
  return text;
}

Table group_table(const Result& result, const std::vector<Group>& groups, std::string_view kind,
                  const std::vector<Group>* control) {
  const Unit unit = unit_of(result);
  const bool share = unit == Unit::kShare;
  Table table;
  table.header = {std::string(kind), "n"};
  if (share) table.header.push_back("correct");
  table.header.push_back(share ? "accuracy" : result.score);
  table.header.push_back(confidence_text(result) + " interval");
  if (control != nullptr) table.header.push_back("control");
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const Group& group = groups[i];
    std::vector<std::string> row = {
        fmt::format("{}{}", group.index, group.boundary ? " (boundary)" : ""), count_text(group.n)};
    if (share) row.push_back(group.correct ? count_text(*group.correct) : "");
    row.push_back(value_text(group.accuracy, unit));
    row.push_back(interval_text(group.low, group.high, unit));
    if (control != nullptr) {
      row.push_back(i < control->size() ? value_text((*control)[i].accuracy, unit) : "");
    }
    table.rows.push_back(row);
  }
  return table;
}

bool has_values(const std::vector<Group>& groups) {
  return std::any_of(groups.begin(), groups.end(), [](const Group& g) { return g.accuracy; });
}

Chart curve_chart(const Result& result, const std::optional<Result>& control) {
  Chart chart;
  chart.id = "curve";
  const std::string score = unit_of(result) == Unit::kShare ? "Accuracy" : result.score;
  chart.title = score + " by residue";
  chart.caption = fmt::format(
      "Each point is the score over all prompts whose target token stands at that position modulo "
      "{}; bars are {} intervals.",
      result.design.modulus, confidence_text(result));
  chart.legend = legend_of(result, control);
  const std::vector<Group>* other = control ? &control->residues : nullptr;
  chart.description = describe(score + " by residue", result, result.residues, "residue", other);
  chart.data = group_table(result, result.residues, "residue", other);
  chart.spec = base_spec(chart.description, 260);
  const Json x = residue_axis(result, result.residues.size());
  const Json y = y_axis(result);
  Json layers = Json::array();
  if (control) {
    layers.push_back(series_layers(group_rows(*control, control->residues, "residue", kDodge), x, y,
                                   kControl, 0.4, 34, "square"));
  }
  layers.push_back(series_layers(group_rows(result, result.residues, "residue", 0), x, y, kModel,
                                 0.45, 52, "circle"));
  chart.spec["layer"] = layers;
  return chart;
}

Json bar_layers(const char* color) {
  Json whisker = interval_layer(color, 1.75);
  whisker["encoding"]["color"] = {{"value", "var(--ink)"}};
  return Json::array({{{"mark", {{"type", "bar"}, {"opacity", 0.85}}},
                       {"encoding",
                        {{"color", boundary_color(color)},
                         {"tooltip", {{"field", "label"}}},
                         {"description", {{"field", "label"}}}}}},
                      whisker});
}

// The value over each bar's whisker.
Json label_layers() {
  return Json::array({{{"mark", {{"type", "text"}, {"dy", -8}, {"fontSize", 12}, {"aria", false}}},
                       {"encoding",
                        {{"y", {{"field", "top"}}},
                         {"text", {{"field", "text"}}},
                         {"color", {{"value", "var(--ink)"}}}}}}});
}

Chart phase_chart(const Result& result, const std::optional<Result>& control) {
  const record::Folded& folded = *result.folded;
  const Unit unit = unit_of(result);
  Chart chart;
  chart.id = "phases";
  const std::string score = unit == Unit::kShare ? "Accuracy" : result.score;
  chart.title = fmt::format("{} by phase (position modulo {})", score, folded.stride);
  chart.caption = fmt::format(
      "The residues folded to the stride {} ({}); the dashed line is the mean over all prompts; "
      "whiskers are {} intervals.",
      folded.stride,
      folded.source == "model"      ? "known from the model"
      : folded.source == "detected" ? "detected in these data"
                                    : "given",
      confidence_text(result));
  chart.legend = legend_of(result, control);
  const std::vector<Group>* other = control ? &control->folded->phases : nullptr;
  chart.description = describe(chart.title, result, folded.phases, "phase", other);
  chart.data = group_table(result, folded.phases, "phase", other);
  chart.spec = base_spec(chart.description, 240);

  constexpr std::size_t kMostLabelled = 8;
  const std::size_t bars = folded.phases.size() * (control ? 2 : 1);
  const auto rows = [&](const Result& r, const std::vector<Group>& groups,
                        std::string_view series) {
    Json list = group_rows(r, groups, "phase", 0);
    for (Json& row : list) {
      row["text"] = row["y"].is_null()     ? ""
                    : unit == Unit::kShare ? fmt::format("{:.0f}%", 100 * row["y"].get<double>())
                                           : fmt::format("{:.2f}", row["y"].get<double>());
      row["phase"] = row["x"].get<double>();
      row["series"] = series;
      row["top"] = row["high"].is_null() ? row["y"] : row["high"];
    }
    return list;
  };
  const Json x = {{"type", "ordinal"},
                  {"title", fmt::format("phase: token position modulo {}", folded.stride)},
                  {"axis", {{"labelAngle", 0}, {"ticks", false}}},
                  {"scale", {{"paddingInner", 0.3}, {"paddingOuter", 0.2}}}};
  Json y = y_axis(result);
  if (unit != Unit::kShare) y["scale"] = {{"zero", true}};
  Json layers = Json::array();
  const auto add = [&](const Json& list, const Json& marks) {
    layers.push_back({{"data", {{"values", list}}},
                      {"encoding",
                       {{"x", with({{"field", "phase"}}, x)},
                        {"y", with({{"field", "y"}}, y)},
                        {"xOffset", {{"field", "series"}, {"sort", {"model", "control"}}}}}},
                      {"layer", marks}});
  };
  const Json own = rows(result, folded.phases, "model");
  const Json others = control ? rows(*control, control->folded->phases, "control") : Json();
  add(own, bar_layers(kModel));
  if (control) add(others, bar_layers(kControl));
  if (result.mean.value) {
    layers.push_back(
        {{"data", {{"values", Json::array({{{"y", *result.mean.value}}})}}},
         {"mark",
          {{"type", "rule"}, {"strokeDash", {5, 4}}, {"strokeWidth", 1.25}, {"aria", false}}},
         {"encoding", {{"y", with({{"field", "y"}}, y)}, {"color", {{"value", "var(--ink-2)"}}}}}});
  }
  if (bars <= kMostLabelled) {  // last, so that nothing crosses them
    add(own, label_layers());
    if (control) add(others, label_layers());
  }
  chart.spec["layer"] = layers;
  return chart;
}

double height_of(double p) { return -std::log10(std::max(p, kSmallestDrawnP)); }

Json period_rows(const record::Period& period, std::string_view series, double shift) {
  Json rows = Json::array();
  for (const record::PeriodCandidate& c : period.candidates) {
    rows.push_back({{"x", static_cast<double>(c.period) + shift},
                    {"y", height_of(c.p_adjusted)},
                    {"zero", 0},
                    {"boundary", period.value == c.period},
                    {"label", fmt::format("{}, period {}: adjusted {}, F = {:.3g}", series,
                                          c.period, p_text(c.p_adjusted), c.statistic)}});
  }
  return rows;
}

Chart period_chart(const Result& result, const std::optional<Result>& control) {
  const record::Period& period = result.period;
  Chart chart;
  chart.id = "periodogram";
  chart.title = "Evidence for each candidate period";
  chart.caption = fmt::format(
      "Height is \u2212log\u2081\u2080 of the p-value, adjusted over all candidates; a point above "
      "the dashed "
      "line is significant at level {:g}. Periods that share factors with a true one stand high as "
      "well; the "
      "smallest that suffices is reported.",
      period.level);
  chart.legend = {{"model", series_name(result)}};
  if (period.value) {
    chart.legend.push_back({"boundary", fmt::format("the period found, {}", *period.value)});
  }
  const bool overlaid = control && !control->period.candidates.empty();
  if (overlaid) chart.legend.push_back({"control", control_name(*control)});
  chart.description = fmt::format(
      "Periodogram over {} candidate periods: {}.", period.candidates.size(),
      period.value ? fmt::format("period {} found, {}", *period.value, p_text(period.p_value))
                   : "no period found, smallest " + p_text(period.p_value));
  chart.data.header = {"period", "F", "p of this period", "p adjusted"};
  if (overlaid) chart.data.header.push_back("control, p adjusted");
  std::int64_t first = period.candidates.front().period, last = first;
  for (std::size_t i = 0; i < period.candidates.size(); ++i) {
    const record::PeriodCandidate& c = period.candidates[i];
    first = std::min(first, c.period);
    last = std::max(last, c.period);
    chart.data.rows.push_back({fmt::format("{}", c.period), fmt::format("{:.4g}", c.statistic),
                               p_text(c.p_raw), p_text(c.p_adjusted)});
    if (!overlaid) continue;
    std::string other;
    for (const record::PeriodCandidate& d : control->period.candidates) {
      if (d.period == c.period) other = p_text(d.p_adjusted);
    }
    chart.data.rows.back().push_back(other);
  }
  chart.spec = base_spec(chart.description, 220);
  const Json x = {
      {"type", "quantitative"},
      {"scale",
       {{"domain", {static_cast<double>(first) - 0.6, static_cast<double>(last) + 0.6}},
        {"nice", false}}},
      {"title", "candidate period, tokens"},
      {"axis", {{"format", "d"}, {"tickMinStep", 1}, {"labelOverlap", "greedy"}, {"grid", false}}}};
  const Json y = {{"type", "quantitative"},
                  {"title", "\u2212log\u2081\u2080 adjusted p"},
                  {"scale", {{"zero", true}}},
                  {"axis", {{"tickCount", 4}, {"domain", false}, {"ticks", false}}}};
  const auto series = [&](const record::Period& p, std::string_view name, double shift,
                          const char* color, double size, const char* shape) {
    const Json stem = {
        {"mark", {{"type", "rule"}, {"strokeWidth", 2}, {"aria", false}}},
        {"encoding",
         {{"y", {{"field", "zero"}}}, {"y2", {{"field", "y"}}}, {"color", boundary_color(color)}}}};
    return Json{{"data", {{"values", period_rows(p, name, shift)}}},
                {"encoding", {{"x", with({{"field", "x"}}, x)}, {"y", with({{"field", "y"}}, y)}}},
                {"layer", Json::array({stem, point_layer(color, size, shape)})}};
  };
  Json layers = Json::array();
  if (overlaid) {
    layers.push_back(
        series(control->period, series_name(*control), kDodge, kControl, 34, "square"));
  }
  layers.push_back(series(period, series_name(result), 0, kModel, 70, "circle"));
  const double level = height_of(std::clamp(period.level, kSmallestDrawnP, 1.0));
  const Json level_data = {{"values", Json::array({{{"y", level}}})}};
  const Json level_y = {{"y", with({{"field", "y"}}, y)}, {"color", {{"value", "var(--ink-2)"}}}};
  layers.push_back(
      {{"data", level_data},
       {"mark", {{"type", "rule"}, {"strokeDash", {5, 4}}, {"strokeWidth", 1.25}, {"aria", false}}},
       {"encoding", level_y}});
  chart.legend.push_back({"level", fmt::format("level {:g}", period.level)});
  chart.spec["layer"] = layers;
  return chart;
}

Chart score_chart(const Result& result, const record::ScoreSummary& score) {
  Chart chart;
  chart.id = "score-" + score.name;
  const Unit unit = unit_of(score.name);
  const std::string name = score.name == "logprob"  ? "Log-probability of the right answer"
                           : score.name == "margin" ? "Margin over the best wrong answer"
                                                    : printable(score.name);
  chart.title = name + " by residue";
  chart.caption = fmt::format(
      "Means{} over {} prompts. A continuous score shows a period with fewer prompts than "
      "right and wrong alone; its own test says: period {}, {}.",
      unit == Unit::kNats ? " in nats" : "", count_text(score.n), period_text(score.period),
      p_text(score.period.p_value));
  chart.legend = legend_of(result, std::nullopt);
  chart.data.header = {"residue", unit == Unit::kNats ? "mean (nats)" : "mean"};
  Json rows = Json::array();
  std::vector<Group> groups;
  for (std::size_t i = 0; i < score.residue_means.size(); ++i) {
    const auto& mean = score.residue_means[i];
    chart.data.rows.push_back({std::to_string(i), value_text(mean, unit)});
    const bool boundary = i < result.residues.size() && result.residues[i].boundary;
    groups.push_back({.index = static_cast<std::int64_t>(i), .accuracy = mean});
    rows.push_back({{"x", i},
                    {"y", base::number_or_null(mean)},
                    {"low", nullptr},
                    {"high", nullptr},
                    {"boundary", boundary},
                    {"label", fmt::format("residue {}: {}", i, difference_text(mean, unit))}});
  }
  chart.description = fmt::format("{}: {}{}.", chart.title, range_text(groups, "residue", unit),
                                  unit == Unit::kNats ? ", in nats" : "");
  chart.spec = base_spec(chart.description, 200);
  const Json y = {{"type", "quantitative"},
                  {"title", unit == Unit::kNats ? "nats" : printable(score.name)},
                  {"scale", {{"zero", false}}},
                  {"axis", {{"tickCount", 4}, {"domain", false}, {"ticks", false}}}};
  chart.spec["layer"] =
      Json::array({series_layers(std::move(rows), residue_axis(result, score.residue_means.size()),
                                 y, kModel, 0.45, 46, "circle")});
  return chart;
}

}  // namespace

std::string series_name(const Result& result) {
  constexpr std::size_t kLongest = 60;
  std::string name = printable(result.context.model_name);
  if (name.empty()) name = printable(result.title);
  if (name.empty()) return "model";
  if (name.size() <= kLongest) return name;
  std::size_t end = kLongest;  // never inside a UTF-8 sequence
  while (end > 0 && (static_cast<unsigned char>(name[end]) & 0xC0) == 0x80) --end;
  return name.substr(0, end) + "\u2026";
}

bool comparable(const Result& result, const Result& control) {
  return result.design.modulus == control.design.modulus &&
         result.residues.size() == control.residues.size() && unit_of(result) == unit_of(control);
}

std::vector<Chart> charts_of(const Result& result, const std::optional<Result>& control) {
  const std::optional<Result> none;
  const bool overlay = control && comparable(result, *control);
  std::vector<Chart> charts;
  if (has_values(result.residues)) {
    charts.push_back(curve_chart(result, overlay ? control : none));
  }
  if (result.folded && has_values(result.folded->phases)) {
    const bool same_stride =
        overlay && control->folded && control->folded->stride == result.folded->stride;
    charts.push_back(phase_chart(result, same_stride ? control : none));
  }
  if (!result.period.candidates.empty()) {
    charts.push_back(period_chart(result, overlay ? control : none));
  }
  for (const record::ScoreSummary& score : result.scores) {
    const bool any = std::any_of(score.residue_means.begin(), score.residue_means.end(),
                                 [](const auto& mean) { return mean.has_value(); });
    if (any) charts.push_back(score_chart(result, score));
  }
  return charts;
}

}  // namespace kvphase::report
