#include "report/claims.h"

#include <fmt/format.h>

#include <algorithm>

#include "report/markup.h"

namespace kvphase::report {
namespace {

using record::Claim;
using record::ClaimPart;

bool any_run(std::span<const Claim> claims) {
  return std::ranges::any_of(claims, [](const Claim& claim) { return !claim.parts.empty(); });
}

// Free text inside a Markdown table's cell.
std::string cell(std::string_view text) {
  std::string safe;
  for (const char c : text) {
    if (c == '|') safe += '\\';
    safe += c == '\n' ? ' ' : c;
  }
  return safe;
}

}  // namespace

std::string claims_markdown(std::span<const Claim> claims) {
  if (!any_run(claims)) return "";
  std::string text = "| claim | here | how often |\n|---|---|---|\n";
  for (const Claim& claim : claims) {
    text += fmt::format("| **{}**: {} | {} | {} |\n", cell(claim.name), cell(claim.text),
                        record::name_of(claim.outcome), cell(claim.sentence));
  }
  for (const Claim& claim : claims) {
    if (claim.parts.empty()) continue;
    text += fmt::format("\n**{}**. Test: {}.\n\n| run | found | |\n|---|---|---|\n", claim.name,
                        claim.test);
    for (const ClaimPart& part : claim.parts) {
      text += fmt::format("| {} | {} | {} |\n", cell(part.name), cell(part.finding),
                          record::name_of(part.outcome));
    }
  }
  return text;
}

std::string claims_html(std::span<const Claim> claims) {
  if (!any_run(claims)) return "";
  Table summary{.header = {"claim", "here", "how often"}};
  std::string parts;
  for (const Claim& claim : claims) {
    summary.rows.push_back({claim.name + "\n" + claim.text,
                            std::string(record::name_of(claim.outcome)), claim.sentence});
    if (claim.parts.empty()) continue;
    Table table{.header = {"run", "found", ""}};
    for (const ClaimPart& part : claim.parts) {
      table.rows.push_back({part.name, part.finding, std::string(record::name_of(part.outcome))});
    }
    parts += fmt::format("<details><summary>{}</summary>\n{}</details>\n", escape_html(claim.name),
                         table_html(table, "Test: " + claim.test + "."));
  }
  return "<section id=\"claims\">\n<h2>Published claims</h2>\n" +
         table_html(summary,
                    "Of Zhu et al., arXiv 2609.36322, in our words; the last is ours. Here: what "
                    "the runs of this page say.") +
         parts + "</section>\n";
}

}  // namespace kvphase::report
