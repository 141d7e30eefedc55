#include "report/findings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <system_error>

#include "base/error.h"
#include "base/files.h"
#include "report/chart_spec.h"
#include "report/document.h"
#include "report/label_places.h"
#include "report/markup.h"
#include "report/text.h"

namespace kvphase::report {
namespace {

using base::Json;
using record::Figure;
using record::FigureSeries;
using record::Findings;
using record::FindingsTable;

constexpr int kPlotHeight = 240;
constexpr int kRowHeight = 20;

std::string number(const std::optional<double>& x) {
  if (!x) return "-";
  const double size = std::abs(*x);
  return size >= 10  ? fmt::format("{:.1f}", *x)
         : size >= 1 ? fmt::format("{:.2f}", *x)
                     : fmt::format("{:.3f}", *x);
}

Json axis(const std::string& title) {
  return {{"title", title}, {"tickCount", 6}, {"ticks", false}, {"labelOverlap", "greedy"}};
}

Json heatmap_spec(const Figure& figure) {
  Json rows = Json::array();
  for (std::size_t i = 0; i < figure.rows.size(); ++i) {
    for (std::size_t k = 0; k < figure.columns.size(); ++k) {
      const auto& cell = figure.cells[i][k];
      if (!cell) continue;
      rows.push_back({{"row", printable(figure.rows[i])},
                      {"column", figure.columns[k]},
                      {"value", *cell},
                      {"label", fmt::format("{}, {} {}: {}", printable(figure.rows[i]),
                                            figure.x_title, figure.columns[k], number(cell))}});
    }
  }
  Json row_names = Json::array();
  for (const std::string& name : figure.rows) row_names.push_back(printable(name));
  const bool both_signs = figure.low < 0 && figure.high > 0;
  Json scale = {{"domain", {figure.low, figure.high}}, {"clamp", true}};
  scale["scheme"] = both_signs ? "redblue" : "viridis";
  if (both_signs) scale["domainMid"] = 0;
  Json spec = base_spec(figure.description,
                        std::max(60, kRowHeight * static_cast<int>(figure.rows.size())));
  spec["data"] = {{"values", rows}};
  spec["mark"] = {{"type", "rect"}, {"aria", false}};
  spec["encoding"] = {
      {"x",
       {{"field", "column"},
        {"type", "ordinal"},
        {"sort", figure.columns},
        {"title", figure.x_title},
        {"axis", {{"labelAngle", 0}, {"ticks", false}, {"labelOverlap", "greedy"}}}}},
      {"y",
       {{"field", "row"},
        {"type", "nominal"},
        {"sort", row_names},
        {"title", nullptr},
        {"axis", {{"labelLimit", 190}, {"domain", false}, {"ticks", false}}}}},
      {"color",
       {{"field", "value"},
        {"type", "quantitative"},
        {"scale", scale},
        {"legend",
         {{"title", figure.y_title},
          {"orient", "top"},
          {"gradientLength", 160},
          {"labelColor", "var(--ink-2)"},
          {"titleColor", "var(--ink-2)"}}}}},
      {"tooltip", {{"field", "label"}}}};
  return spec;
}

const char* shape_of(const FigureSeries& series) {
  return series.role == "control" ? "square" : series.role == "boundary" ? "diamond" : "circle";
}

// Of each named series' last point; the others stand to the right.
std::vector<LabelPlace> places_of(const Figure& figure) {
  struct Range {
    bool log = false;
    double low = std::numeric_limits<double>::infinity();
    double high = -low;

    double scaled(double v) const { return log ? std::log(v) : v; }
    void add(double v) {
      low = std::min(low, scaled(v));
      high = std::max(high, scaled(v));
    }
    double share(double v) const { return high > low ? (scaled(v) - low) / (high - low) : 0.5; }
  };
  Range x{.log = figure.log_x}, y{.log = figure.log_y};
  for (const FigureSeries& s : figure.series) {
    for (const double v : s.x) x.add(v);
    for (const auto* values : {&s.y, &s.low, &s.high}) {
      for (const std::optional<double>& v : *values) {
        if (v) y.add(*v);
      }
    }
  }
  std::vector<NamedMark> marks;
  for (const FigureSeries& s : figure.series) {
    const bool shown = !s.x.empty() && s.y.back();
    marks.push_back({.x = shown ? x.share(s.x.back()) : 1,
                     .y = shown ? 1 - y.share(*s.y.back()) : 1,
                     .name = shown ? printable(s.name) : ""});
  }
  return place_labels(marks);
}

Json plot_spec(const Figure& figure) {
  const bool lines = figure.kind == Figure::Kind::kLines;
  Json x = {{"field", "x"},
            {"type", "quantitative"},
            {"scale", {{"zero", false}, {"padding", 12}}},
            {"axis", axis(figure.x_title)}};
  Json y = {{"field", "y"},
            {"type", "quantitative"},
            {"scale", {{"zero", false}}},
            {"axis", axis(figure.y_title)}};
  if (figure.log_x) {
    x["scale"] = {{"type", "log"}, {"base", 2}, {"nice", false}, {"padding", 12}};
    x["axis"]["format"] = ",d";
  }
  if (figure.log_y) {
    y["scale"] = {{"type", "log"}, {"padding", 12}};
    y["axis"]["format"] = "~s";
  }
  double largest = 0;  // mark
  for (const FigureSeries& s : figure.series) {
    for (const double size : s.size) largest = std::max(largest, size);
  }
  Json layers = Json::array();
  std::optional<double> low, high;
  std::vector<LabelPlace> places(figure.series.size());
  if (figure.named) places = places_of(figure);
  for (std::size_t k = 0; k < figure.series.size(); ++k) {
    const FigureSeries& s = figure.series[k];
    Json rows = Json::array();
    for (std::size_t i = 0; i < s.x.size(); ++i) {
      for (const double v : {s.x[i], s.y[i].value_or(s.x[i])}) {
        low = std::min(low.value_or(v), v);
        high = std::max(high.value_or(v), v);
      }
      const std::string what =
          s.label.empty() ? fmt::format("{} {:g}", figure.x_title, s.x[i]) : printable(s.label[i]);
      rows.push_back(
          {{"x", s.x[i]},
           {"at", i},
           {"y", base::number_or_null(s.y[i])},
           {"low", s.low.empty() ? Json() : base::number_or_null(s.low[i])},
           {"high", s.high.empty() ? Json() : base::number_or_null(s.high[i])},
           {"size", s.size.empty() || largest == 0 ? Json() : Json(s.size[i] / largest)},
           {"label", fmt::format("{}, {}: {}", printable(s.name), what, number(s.y[i]))}});
    }
    const std::string color = fmt::format("var(--{})", s.role);
    Json marks = Json::array();
    if (lines) {
      Json encoding = {{"color", {{"value", color}}}};
      if (figure.in_order) encoding["order"] = {{"field", "at"}, {"type", "quantitative"}};
      marks.push_back({{"mark", {{"type", "line"}, {"strokeWidth", 1.25}, {"aria", false}}},
                       {"encoding", std::move(encoding)}});
    }
    if (!s.low.empty()) {
      marks.push_back(
          {{"transform", Json::array({{{"filter", "datum.low !== null && datum.high !== null"}}})},
           {"mark", {{"type", "rule"}, {"strokeWidth", 1.25}, {"aria", false}}},
           {"encoding",
            {{"y", {{"field", "low"}}},
             {"y2", {{"field", "high"}}},
             {"color", {{"value", color}}}}}});
    }
    marks.push_back({{"mark", {{"type", "point"}, {"filled", true}, {"size", 40}, {"aria", false}}},
                     {"encoding",
                      {{"color", {{"value", color}}},
                       {"shape", {{"value", shape_of(s)}}},
                       {"tooltip", {{"field", "label"}}}}}});
    if (!s.size.empty()) {
      marks.back()["mark"]["opacity"] = 0.8;
      marks.back()["encoding"]["size"] = {{"field", "size"},
                                          {"type", "quantitative"},
                                          {"scale", {{"domain", {0, 1}}, {"range", {24, 420}}}},
                                          {"legend", nullptr}};
    }
    if (figure.named && !s.x.empty()) {
      marks.push_back(
          {{"transform",
            Json::array({{{"filter", fmt::format("datum.at === {}", s.x.size() - 1)}}})},
           {"mark",
            {{"type", "text"},
             {"align", places[k].left ? "right" : "left"},
             {"dx", (places[k].left ? -1 : 1) * (s.size.empty() ? 8 : 13)},
             {"dy", places[k].down},
             {"fontSize", 10},
             {"aria", false}}},
           {"encoding",
            {{"text", {{"value", printable(s.name)}}}, {"color", {{"value", "var(--ink-2)"}}}}}});
    }
    layers.push_back({{"data", {{"values", rows}}},
                      {"encoding", {{"x", x}, {"y", y}}},
                      {"layer", std::move(marks)}});
  }
  if (figure.diagonal && low) {
    layers.push_back(
        {{"data", {{"values", {{{"x", *low}, {"y", *low}}, {{"x", *high}, {"y", *high}}}}}},
         {"mark",
          {{"type", "line"}, {"strokeDash", {5, 4}}, {"strokeWidth", 1.25}, {"aria", false}}},
         {"encoding", {{"x", x}, {"y", y}, {"color", {{"value", "var(--ink-2)"}}}}}});
  }
  Json spec = base_spec(figure.description, kPlotHeight);
  spec["layer"] = std::move(layers);
  return spec;
}

Table table_of(const Figure& figure) {
  Table table;
  if (figure.kind == Figure::Kind::kHeatmap) {
    table.header = {figure.y_title};
    for (const std::string& column : figure.columns) table.header.push_back(column);
    for (std::size_t i = 0; i < figure.rows.size(); ++i) {
      table.rows.push_back({printable(figure.rows[i])});
      for (const auto& cell : figure.cells[i]) table.rows.back().push_back(number(cell));
    }
    return table;
  }
  table.header = {"series", figure.x_title, figure.y_title, "interval"};
  for (const FigureSeries& s : figure.series) {
    for (std::size_t i = 0; i < s.x.size(); ++i) {
      std::string name = printable(s.name);
      if (!s.label.empty()) name += ", " + printable(s.label[i]);
      const bool bounded = !s.low.empty() && s.low[i] && s.high[i];
      table.rows.push_back(
          {name, number(s.x[i]), number(s.y[i]),
           bounded ? fmt::format("{} to {}", number(s.low[i]), number(s.high[i])) : ""});
    }
  }
  return table;
}

std::string context_html(const Findings& f) {
  const record::RunContext& c = f.context;
  std::string list;
  const auto add = [&](std::string_view name, const std::string& value) {
    if (value.empty()) return;
    list +=
        fmt::format("<div><dt>{}</dt><dd><code>{}</code></dd></div>\n", name, escape_html(value));
  };
  add("Repeat with", c.command);
  add("Model", c.model_name);
  add("Weights SHA-256", c.model_sha256);
  if (!c.model_config.is_null()) add("Model config", c.model_config.dump());
  add("Options", f.options.dump());
  add("Started", c.started);
  add("Machine", c.host + (c.threads > 0 ? fmt::format(", {} threads", c.threads) : ""));
  add("Program", fmt::format("kvphase {}, commit {}, {}", c.version, c.commit, c.build));
  return "<section>\n<h2>What ran</h2>\n<dl class=\"context\">\n" + list + "</dl>\n</section>\n";
}

// Columns as wide as their longest cell; the first to the left, numbers to the right.
std::string columns_text(const Table& table) {
  std::vector<std::size_t> width(table.header.size());
  const auto one_line = [](std::string text) {
    std::replace(text.begin(), text.end(), '\n', ' ');
    return text;
  };
  const auto measure = [&](const std::vector<std::string>& row) {
    for (std::size_t i = 0; i < row.size() && i < width.size(); ++i) {
      width[i] = std::max(width[i], row[i].size());
    }
  };
  measure(table.header);
  for (const auto& row : table.rows) measure(row);
  std::string text;
  const auto write = [&](const std::vector<std::string>& row) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string cell = one_line(row[i]);
      text +=
          i == 0 ? fmt::format("{:<{}}", cell, width[i]) : fmt::format("  {:>{}}", cell, width[i]);
    }
    while (text.back() == ' ') text.pop_back();
    text += '\n';
  };
  write(table.header);
  for (const auto& row : table.rows) write(row);
  return text;
}

// A map in text: numbers, on a background that darkens away from neutral.
std::string map_text(const Figure& figure, bool color) {
  Table table = table_of(figure);
  table.header[0] = figure.x_title;
  if (!color) return columns_text(table);
  std::size_t name_width = table.header[0].size();
  for (const std::string& row : figure.rows) name_width = std::max(name_width, row.size());
  constexpr std::size_t kCell = 7;
  std::string text = fmt::format("{:<{}}", figure.x_title, name_width);
  for (const std::string& column : figure.columns) text += fmt::format("{:>{}}", column, kCell);
  text += '\n';
  for (std::size_t i = 0; i < figure.rows.size(); ++i) {
    text += fmt::format("{:<{}}", printable(figure.rows[i]), name_width);
    for (const auto& cell : figure.cells[i]) {
      const std::string shown = fmt::format("{:>{}}", number(cell), kCell);
      if (!cell || *cell == 0) {
        text += shown;
        continue;
      }
      const double end = *cell < 0 ? figure.low : figure.high;
      const double depth = std::clamp(*cell / end, 0.0, 1.0);
      // 256 colours: reds for losses, blues for gains, 5 steps.
      const int step = static_cast<int>(std::lround(depth * 5));
      const int shade = *cell < 0 ? 16 + 36 * step : 16 + step;
      text += step == 0 ? shown : fmt::format("\x1b[97;48;5;{}m{}\x1b[0m", shade, shown);
    }
    text += '\n';
  }
  return text;
}

}  // namespace

std::vector<Chart> charts_of(const Findings& findings) {
  std::vector<Chart> charts;
  for (const Figure& figure : findings.figures) {
    Chart chart{.id = figure.id,
                .title = printable(figure.title),
                .caption = printable(figure.caption),
                .description = printable(figure.description)};
    const bool map = figure.kind == Figure::Kind::kHeatmap;
    for (const FigureSeries& s : figure.series) {
      if (figure.named) break;  // every mark has its name beside it
      const auto named = [&](const LegendEntry& entry) {
        return entry.kind == s.role && entry.text == printable(s.name);
      };
      if (std::ranges::any_of(chart.legend, named)) continue;  // several lines of one kind
      chart.legend.push_back({s.role, printable(s.name)});
    }
    if (figure.diagonal) chart.legend.push_back({"level", "both equal"});
    chart.spec = map ? heatmap_spec(figure) : plot_spec(figure);
    chart.data = table_of(figure);
    charts.push_back(std::move(chart));
  }
  return charts;
}

std::string findings_html(const Findings& f) {
  std::string html = "<header>\n" + paragraph(printable("kvphase " + f.kind), "kicker") +
                     fmt::format("<h1>{}</h1>\n", escape_html(printable(f.sentence))) +
                     paragraph(printable(f.title), "design") + "</header>\n";
  if (!f.context.warnings.empty()) {
    html += "<section class=\"warnings\">\n<h2>Warnings</h2>\n<ul>\n" +
            list_items(f.context.warnings) + "</ul>\n</section>\n";
  }
  for (const FindingsTable& table : f.tables) {
    html += fmt::format("<section>\n<h2>{}</h2>\n{}</section>\n", escape_html(table.title),
                        table_html({.header = table.header, .rows = table.rows}, table.note));
  }
  html += figures_html(charts_of(f));
  if (!f.notes.empty()) {
    html += "<section>\n<h2>How to read this</h2>\n<ul>\n" + list_items(f.notes) +
            "</ul>\n</section>\n";
  }
  return document_html(printable(f.title), html + context_html(f), "wide");
}

std::string findings_text(const Findings& f, bool color) {
  std::string text = printable(f.sentence) + "\n";
  for (const Figure& figure : f.figures) {
    if (figure.kind != Figure::Kind::kHeatmap || figure.on_page_only) continue;
    text += fmt::format("\n{} ({})\n{}", printable(figure.title), figure.y_title,
                        map_text(figure, color));
  }
  for (const FindingsTable& table : f.tables) {
    text += fmt::format("\n{}\n{}", printable(table.title),
                        columns_text({.header = table.header, .rows = table.rows}));
    if (!table.note.empty()) text += printable(table.note) + "\n";
  }
  for (const std::string& warning : f.context.warnings) {
    text += "\nWarning: " + printable(warning) + "\n";
  }
  return text;
}

std::string findings_json(const Findings& findings) {
  return record::to_json(findings).dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

void write_findings(const std::filesystem::path& folder, const Findings& findings) {
  std::error_code failure;
  std::filesystem::create_directories(folder, failure);
  if (failure) {
    throw base::environment_error("report", "expected a folder that can be written, got {}: {}",
                                  folder.string(), failure.message());
  }
  base::write_file_atomically(folder / "report.txt", findings_text(findings));
  base::write_file_atomically(folder / "report.html", findings_html(findings));
  if (!findings.answers.empty()) {
    base::write_file_atomically(folder / "answers.csv", findings.answers);
  }
  base::write_file_atomically(folder / "result.json", findings_json(findings));
}

}  // namespace kvphase::report
