#include "record/findings.h"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "base/error.h"

namespace kvphase::record {
namespace {

using base::Json;
using base::ObjectReader;
using Values = std::vector<std::optional<double>>;

const std::vector<std::string> kKinds = {"heatmap", "lines", "points"};

std::string schema_of(std::string_view kind) { return fmt::format("kvphase.{}/1", kind); }

Json to_json(const Values& values) {
  Json json = Json::array();
  for (const auto& value : values) json.push_back(base::number_or_null(value));
  return json;
}

Values read_values(const Json& json, const std::string& scope) {
  Values values;
  if (!json.is_array()) throw base::usage_error(scope, "expected a list, got {}", json.dump());
  for (const Json& value : json) {
    if (!value.is_null() && !value.is_number()) {
      throw base::usage_error(scope, "expected numbers or null, got {}", value.dump());
    }
    values.push_back(value.is_null() ? std::nullopt : std::optional(value.get<double>()));
  }
  return values;
}

std::vector<double> read_numbers(const Json& json, const std::string& scope) {
  std::vector<double> numbers;
  for (const auto& value : read_values(json, scope)) {
    if (!value) throw base::usage_error(scope, "expected numbers, got null");
    numbers.push_back(*value);
  }
  return numbers;
}

Json to_json(const Figure& figure) {
  Json json = {{"kind", kKinds.at(static_cast<std::size_t>(figure.kind))},
               {"id", figure.id},
               {"title", figure.title},
               {"caption", figure.caption},
               {"description", figure.description},
               {"x_title", figure.x_title},
               {"y_title", figure.y_title}};
  if (figure.kind == Figure::Kind::kHeatmap) {
    json["rows"] = figure.rows;
    json["columns"] = figure.columns;
    json["cells"] = Json::array();
    for (const Values& row : figure.cells) json["cells"].push_back(to_json(row));
    json["low"] = figure.low;
    json["high"] = figure.high;
    json["on_page_only"] = figure.on_page_only;
    return json;
  }
  json["diagonal"] = figure.diagonal;
  json["in_order"] = figure.in_order;
  // Left out where they say nothing, so that the other commands' files stay as they were.
  for (const auto& [key, value] :
       {std::pair{"log_x", figure.log_x}, std::pair{"log_y", figure.log_y},
        std::pair{"named", figure.named}}) {
    if (value) json[key] = true;
  }
  json["series"] = Json::array();
  for (const FigureSeries& s : figure.series) {
    json["series"].push_back({{"name", s.name},
                              {"role", s.role},
                              {"x", s.x},
                              {"y", to_json(s.y)},
                              {"low", to_json(s.low)},
                              {"high", to_json(s.high)},
                              {"label", s.label}});
    if (!s.size.empty()) json["series"].back()["size"] = s.size;
  }
  return json;
}

Figure read_figure(const Json& json, const std::string& scope) {
  ObjectReader reader(json, scope);
  Figure figure;
  figure.kind = static_cast<Figure::Kind>(reader.choice("kind", kKinds));
  figure.id = reader.text("id");
  figure.title = reader.text("title");
  figure.caption = reader.text("caption");
  figure.description = reader.text("description");
  figure.x_title = reader.text("x_title");
  figure.y_title = reader.text("y_title");
  if (figure.kind == Figure::Kind::kHeatmap) {
    figure.rows = reader.texts("rows");
    figure.columns = reader.texts("columns");
    for (const Json& row : reader.required("cells")) {
      figure.cells.push_back(read_values(row, scope + ".cells"));
      if (figure.cells.back().size() != figure.columns.size()) {
        throw base::usage_error(scope, "expected {} cells per row, got {}", figure.columns.size(),
                                figure.cells.back().size());
      }
    }
    if (figure.cells.size() != figure.rows.size()) {
      throw base::usage_error(scope, "expected {} rows of cells, got {}", figure.rows.size(),
                              figure.cells.size());
    }
    figure.low = reader.real("low");
    figure.high = reader.real("high");
    figure.on_page_only = reader.boolean("on_page_only", false);
  } else {
    figure.diagonal = reader.boolean("diagonal");
    figure.in_order = reader.boolean("in_order", false);
    figure.log_x = reader.boolean("log_x", false);
    figure.log_y = reader.boolean("log_y", false);
    figure.named = reader.boolean("named", false);
    for (const Json& item : reader.required("series")) {
      ObjectReader series(item, scope + ".series");
      FigureSeries s;
      s.name = series.text("name");
      s.role = series.text("role");
      s.x = read_numbers(series.required("x"), scope + ".series.x");
      s.y = read_values(series.required("y"), scope + ".series.y");
      s.low = read_values(series.required("low"), scope + ".series.low");
      s.high = read_values(series.required("high"), scope + ".series.high");
      s.label = series.texts("label");
      if (series.has("size"))
        s.size = read_numbers(series.required("size"), scope + ".series.size");
      series.finish();
      const auto fits = [&](std::size_t size) { return size == s.x.size() || size == 0; };
      if (s.y.size() != s.x.size() || !fits(s.low.size()) || s.high.size() != s.low.size() ||
          !fits(s.label.size()) || !fits(s.size.size())) {
        throw base::usage_error(scope, "expected lists of {} values in series '{}'", s.x.size(),
                                s.name);
      }
      figure.series.push_back(std::move(s));
    }
  }
  reader.finish();
  return figure;
}

Json to_json(const FindingsTable& table) {
  return {
      {"title", table.title}, {"header", table.header}, {"rows", table.rows}, {"note", table.note}};
}

FindingsTable read_table(const Json& json, const std::string& scope) {
  ObjectReader reader(json, scope);
  FindingsTable table;
  table.title = reader.text("title");
  table.header = reader.texts("header");
  for (const Json& row : reader.required("rows")) {
    table.rows.emplace_back();
    for (const Json& cell : row) table.rows.back().push_back(cell.get<std::string>());
  }
  table.note = reader.text("note");
  reader.finish();
  return table;
}

}  // namespace

Json to_json(const Findings& f) {
  Json json = {{"schema", schema_of(f.kind)},   {"title", f.title},        {"sentence", f.sentence},
               {"context", to_json(f.context)}, {"options", f.options},    {"data", f.data},
               {"tables", Json::array()},       {"figures", Json::array()}};
  for (const FindingsTable& table : f.tables) json["tables"].push_back(to_json(table));
  for (const Figure& figure : f.figures) json["figures"].push_back(to_json(figure));
  json["notes"] = f.notes;
  return json;
}

Findings findings_from_json(const Json& json, std::string_view kind, std::string_view scope) {
  ObjectReader reader(json, std::string(scope));
  Findings f;
  const std::string schema = reader.text("schema");
  if (schema != schema_of(kind)) {
    throw base::usage_error(scope, "expected schema '{}', got '{}'", schema_of(kind), schema);
  }
  f.kind = kind;
  f.title = reader.text("title");
  f.sentence = reader.text("sentence");
  f.context = context_from_json(reader.required("context"), fmt::format("{}.context", scope));
  f.options = reader.required("options");
  f.data = reader.required("data");
  for (const Json& table : reader.required("tables")) {
    f.tables.push_back(read_table(table, fmt::format("{}.tables", scope)));
  }
  for (const Json& figure : reader.required("figures")) {
    f.figures.push_back(read_figure(figure, fmt::format("{}.figures", scope)));
  }
  f.notes = reader.texts("notes");
  reader.finish();
  return f;
}

}  // namespace kvphase::record
