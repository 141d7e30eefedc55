#include "report/document.h"

#include <fmt/format.h>

#include "report/assets.h"
#include "report/markup.h"

namespace kvphase::report {
namespace {

// A library as one script element, without the comment that points to a file beside it.
std::string library_script(std::string_view name, std::string_view code, std::string_view license) {
  const std::size_t map = code.rfind("//# sourceMappingURL=");
  std::string notice(license);
  for (std::size_t at; (at = notice.find("*/")) != std::string::npos;) notice.replace(at, 2, "* /");
  return fmt::format("<script>/*! {}\n{}*/\n{}</script>\n", name, notice, code.substr(0, map));
}

}  // namespace

std::string paragraph(std::string_view text, std::string_view css_class) {
  if (text.empty()) return "";
  const std::string attribute = css_class.empty() ? "" : fmt::format(" class=\"{}\"", css_class);
  return fmt::format("<p{}>{}</p>\n", attribute, escape_html(text));
}

std::string list_items(const std::vector<std::string>& texts) {
  std::string html;
  for (const std::string& text : texts) html += "<li>" + escape_html(text) + "</li>\n";
  return html;
}

std::string legend_html(const std::vector<LegendEntry>& legend) {
  std::string html = "<ul class=\"legend\" aria-hidden=\"true\">\n";
  for (const LegendEntry& entry : legend) {
    html += fmt::format("<li class=\"{}\">{}</li>\n", entry.kind, escape_html(entry.text));
  }
  return html + "</ul>\n";
}

std::string figures_html(const std::vector<Chart>& charts) {
  if (charts.empty()) return "";
  std::string html =
      "<section>\n<h2>Figures</h2>\n<noscript><p>The figures need JavaScript; the tables under "
      "them hold the same numbers.</p></noscript>\n";
  int number = 0;
  for (const Chart& chart : charts) {
    ++number;
    const std::string id = escape_html(chart.id);
    html += fmt::format("<figure id=\"{}\" aria-labelledby=\"{}-caption\">\n", id, id);
    html += legend_html(chart.legend);
    html += fmt::format("<div class=\"chart\" aria-label=\"{}\"></div>\n",
                        escape_html(chart.description));
    html += "<script type=\"application/json\">" + json_for_script(chart.spec) + "</script>\n";
    html += fmt::format("<figcaption id=\"{}-caption\"><b>Figure {}. {}.</b> {}</figcaption>\n", id,
                        number, escape_html(chart.title), escape_html(chart.caption));
    html += fmt::format("<details><summary>In words and numbers</summary>\n{}{}</details>\n",
                        paragraph(chart.description), table_html(chart.data, ""));
    html += "</figure>\n";
  }
  return html + "</section>\n";
}

std::string document_html(std::string_view title, std::string_view body,
                          std::string_view css_class) {
  std::string html = "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n";
  html +=
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src "
      "'unsafe-inline' 'unsafe-eval'; style-src 'unsafe-inline'; img-src data:\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta name=\"color-scheme\" content=\"light dark\">\n<link rel=\"icon\" href=\"data:,\">\n";
  html += fmt::format("<title>{}</title>\n<style>\n{}</style>\n</head>\n<body>\n<main{}>\n",
                      escape_html(title), page_css(),
                      css_class.empty() ? "" : fmt::format(" class=\"{}\"", css_class));
  html += body;
  html += "</main>\n";
  if (body.find("class=\"chart\"") != std::string_view::npos) {
    html += library_script("Vega", vega_js(), vega_license());
    html += library_script("Vega-Lite", vega_lite_js(), vega_lite_license());
    html += fmt::format("<script>\n{}</script>\n", page_js());
  }
  return html + "</body>\n</html>\n";
}

}  // namespace kvphase::report
