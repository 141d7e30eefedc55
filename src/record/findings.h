// What one look into a model found: a sentence, tables, figures and the numbers behind them, with
// their context. Reports read only this. Knows nothing about what was looked at: `kind` names the
// command, `data` holds its numbers in its own words.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "record/context.h"

namespace kvphase::record {

// One curve or cloud. x, y (and low, high, label, size where not empty) have one value per
// point.
struct FigureSeries {
  std::string name;
  std::string role = "model";  // "model" | "boundary" | "control": its colour
  std::vector<double> x;
  std::vector<std::optional<double>> y;
  std::vector<std::optional<double>> low;  // interval, may be empty
  std::vector<std::optional<double>> high;
  std::vector<std::string> label;  // of each point, may be empty
  std::vector<double> size;        // of each point's mark, at least 0, may be empty
};

struct Figure {
  enum class Kind { kHeatmap, kLines, kPoints };
  Kind kind = Kind::kLines;
  std::string id;  // letters, digits and '-', once per findings
  std::string title;
  std::string caption;
  std::string description;  // the figure in words
  std::string x_title;
  std::string y_title;  // of a heatmap: what its colour shows
  // kHeatmap: cells[row][column], coloured from low to high, 0 neutral where that lies between.
  std::vector<std::string> rows;
  std::vector<std::string> columns;
  std::vector<std::vector<std::optional<double>>> cells;
  double low = 0;
  double high = 1;
  bool on_page_only = false;  // not as text, too
  // kLines and kPoints
  std::vector<FigureSeries> series;
  bool diagonal = false;  // the line y = x beside them
  bool in_order = false;  // lines join points in their order rather than from left to right
  bool log_x = false;     // logarithmic, to base 2; values above 0
  bool log_y = false;     // logarithmic, to base 10; values above 0
  bool named = false;     // every series' name at its last point
};

struct FindingsTable {
  std::string title;
  std::vector<std::string> header;
  std::vector<std::vector<std::string>> rows;
  std::string note;
};

struct Findings {
  std::string kind;      // "knockout" | "gates" | ...
  std::string title;     // "w8s8-4kv: knockouts"
  std::string sentence;  // what was found, whole
  RunContext context;
  base::Json options;  // everything that shaped the numbers
  base::Json data;     // the numbers
  std::vector<FindingsTable> tables;
  std::vector<Figure> figures;
  std::vector<std::string> notes;  // how to read them, what they do not say
  // Every prompt's answers as CSV with a header, for a file beside result.json; not part of it.
  std::string answers;
};

// schema "kvphase.KIND/1"; findings_from_json(to_json(x)) equals x but for the answers.
base::Json to_json(const Findings& findings);
// Throws a usage error for another kind than `kind`, another version or a file that is none.
Findings findings_from_json(const base::Json& json, std::string_view kind, std::string_view scope);

}  // namespace kvphase::record
