#include "report/markup.h"

#include <fmt/format.h>

#include "report/text.h"

namespace kvphase::report {
namespace {

std::string cell_html(std::string_view text, std::string_view tag, std::string_view attributes) {
  const std::size_t newline = text.find('\n');
  std::string content = escape_html(text.substr(0, newline));
  if (newline != std::string_view::npos) {
    content += "<small>" + escape_html(text.substr(newline + 1)) + "</small>";
  }
  return fmt::format("<{0}{1}>{2}</{0}>", tag, attributes, content);
}

}  // namespace

std::string escape_html(std::string_view text) {
  std::string out;
  for (const char c : printable(text)) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string json_for_script(const base::Json& json) {
  const std::string text = json.dump(-1, ' ', false, base::Json::error_handler_t::replace);
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::string_view three = std::string_view(text).substr(i, 3);
    if (text[i] == '<') {
      out += "\\u003c";
    } else if (text[i] == '>') {
      out += "\\u003e";
    } else if (text[i] == '&') {
      out += "\\u0026";
    } else if (three == "\xE2\x80\xA8" || three == "\xE2\x80\xA9") {
      out += three[2] == '\xA8' ? "\\u2028" : "\\u2029";
      i += 2;
    } else {
      out += text[i];
    }
  }
  return out;
}

std::string table_html(const Table& table, std::string_view note) {
  std::string html = "<div class=\"scroll\" tabindex=\"0\"><table>";
  html += "<thead><tr>";
  for (const std::string& cell : table.header) html += cell_html(cell, "th", " scope=\"col\"");
  html += "</tr></thead><tbody>";
  for (const auto& row : table.rows) {
    html += "<tr>";
    for (std::size_t i = 0; i < row.size(); ++i) {
      html += i == 0 ? cell_html(row[i], "th", " scope=\"row\"") : cell_html(row[i], "td", "");
    }
    html += "</tr>";
  }
  html += "</tbody></table></div>\n";
  // Outside the box that scrolls, so that it is read whole.
  if (!note.empty()) html += "<p class=\"note\">" + escape_html(note) + "</p>\n";
  return html;
}

}  // namespace kvphase::report
