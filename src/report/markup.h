// HTML from plain text. Every text that reaches a page passes through here, so that nothing from
// outside (model names, notes, commands) can become markup or script.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace kvphase::report {

// Text for an element's content or a quoted attribute; control characters become spaces.
std::string escape_html(std::string_view text);

// JSON for the content of a <script> element: no '<', '>', '&', U+2028 or U+2029 stays literal, so
// neither "</script>" nor "<!--" can occur. Bytes that are not UTF-8 are replaced.
std::string json_for_script(const base::Json& json);

// A table of plain text. A cell's text after a newline is shown smaller, on a line of its own. The
// first column holds row headers.
struct Table {
  std::vector<std::string> header;
  std::vector<std::vector<std::string>> rows;
};

// `note` is plain text under the table, may be empty. The table scrolls inside its own box on
// narrow screens.
std::string table_html(const Table& table, std::string_view note);

}  // namespace kvphase::report
