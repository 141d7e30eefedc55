// What every page of ours is made of: one file that opens offline in any current browser, with the
// style, the chart libraries where it has charts, and a content security policy that forbids every
// network request.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "report/charts.h"

namespace kvphase::report {

// The whole page; `title` is plain text, `body` HTML for <main>, `css_class` of <main>.
std::string document_html(std::string_view title, std::string_view body,
                          std::string_view css_class = "");

// Plain text as a paragraph; empty text: nothing.
std::string paragraph(std::string_view text, std::string_view css_class = "");
std::string list_items(const std::vector<std::string>& texts);
std::string legend_html(const std::vector<LegendEntry>& legend);

// A section of numbered figures, each with its table behind a click; empty for no charts.
std::string figures_html(const std::vector<Chart>& charts);

}  // namespace kvphase::report
