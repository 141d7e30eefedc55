// The figures of report.html: Vega-Lite specifications with their words. Colours are CSS variables
// (var(--...)), so that one drawing follows light, dark and print.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "record/result.h"
#include "report/markup.h"

namespace kvphase::report {

// What a mark stands for, shown above the figure. `kind` is a CSS class: model, boundary, control,
// level.
struct LegendEntry {
  std::string kind;
  std::string text;
};

struct Chart {
  std::string id;  // "curve", "phases", "periodogram", "score-margin"
  std::string title;
  std::string caption;
  std::string description;  // the figure in words, for those who cannot see it
  std::vector<LegendEntry> legend;
  base::Json spec;  // Vega-Lite; width "container"
  Table data;       // the same numbers as a table
};

// Only figures that have data; empty for an empty result. The control is overlaid where its design
// is comparable (same modulus, stride and score).
std::vector<Chart> charts_of(const record::Result& result,
                             const std::optional<record::Result>& control);

// "W4/S4, 1 KV head", or the title when the model has no name; at most 60 bytes and an ellipsis.
std::string series_name(const record::Result& result);

// Whether the control's curve can be drawn over the result's.
bool comparable(const record::Result& result, const record::Result& control);

}  // namespace kvphase::report
