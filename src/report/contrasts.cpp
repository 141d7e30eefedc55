#include "report/contrasts.h"

#include <fmt/format.h>

#include <algorithm>

#include "report/markup.h"
#include "report/text.h"

namespace kvphase::report {
namespace {

using record::Contrast;
using record::Contrasts;
using record::Result;

// Tables longer than this are folded away on the page.
constexpr std::size_t kLongTable = 12;

std::string because(const std::string& reason) {
  return reason.empty() ? "" : " (" + printable(reason) + ")";
}

std::string or_reason(const std::string& text, const std::string& reason) {
  return text.empty() ? std::string(kUndefined) + because(reason) : text;
}

std::string mean_text(const Contrasts& c, Unit unit, std::string_view plus_minus) {
  if (!c.mean.value) return or_reason("", c.mean.reason);
  std::string text = value_text(c.mean.value, unit);
  if (c.standard_error) {
    text += fmt::format(" {} {}", plus_minus, difference_text(c.standard_error, unit));
  }
  const std::string interval = interval_text(c.mean.low, c.mean.high, unit);
  if (!interval.empty()) text += " [" + interval + "]";
  return text + because(c.mean.reason);
}

std::string test_text(const Contrasts::Test& t) {
  std::string text;
  if (t.statistic) text = fmt::format("{:.1f}", *t.statistic);
  if (t.freedom) text += fmt::format(" ({} df)", *t.freedom);
  if (t.p_chi_squared) text += (text.empty() ? "" : ", ") + p_text(t.p_chi_squared);
  if (t.p_permutation) text += ", resampled " + p_text(t.p_permutation);
  return text.empty() ? or_reason("", t.reason) : text + because(t.reason);
}

std::string items_text(const Contrasts::Test& t, std::string_view group) {
  if (!t.items || !t.informative) return "";
  std::string text = fmt::format("{} of {} items answer differently at some {}",
                                 count_text(*t.informative), count_text(*t.items), group);
  if (t.dropped.value_or(0) > 0) {
    text += fmt::format("; {} miss a {} and are left out", count_text(*t.dropped), group);
  }
  return text;
}

std::string spread_text(const Contrasts::Spread& s, Unit unit) {
  if (!s.sd) return or_reason("", s.reason);
  std::string text = *s.sd > 0 ? difference_text(s.sd, unit) : "no more than sampling adds";
  if (s.standard_error) {
    text += fmt::format("; standard error of one mean {}", difference_text(s.standard_error, unit));
  }
  return text + (s.shrinkage ? fmt::format("; shrinkage {:.2f}", *s.shrinkage) : because(s.reason));
}

std::string discordant_text(const Contrast& c) {
  return c.only_group && c.only_worst ? fmt::format("{} : {}", *c.only_group, *c.only_worst) : "";
}

std::string bracketed(const std::string& interval) {
  return interval.empty() ? "" : "[" + interval + "]";
}

const std::vector<record::Group>& groups_of(const Result& result) {
  return result.folded ? result.folded->phases : result.residues;
}

// The bare number, in a column that says what it is.
std::string p_cell(const std::optional<double>& p) {
  const std::string text = p_text(p);
  return !p ? std::string(kUndefined) : text.starts_with("p = ") ? text.substr(4) : text.substr(2);
}

Table pairs_table(const Result& result, const Contrasts& c) {
  const Unit unit = unit_of(result);
  Table table;
  table.header = {c.groups, "mean", "shrunk mean"};
  if (!c.pairs.empty()) {
    table.header.insert(
        table.header.end(),
        {fmt::format("minus {} {}\ninterval", c.groups, c.worst.value_or(0)),
         fmt::format("right only here :\nonly at {}", c.worst.value_or(0)), "p", "p, Holm"});
  }
  for (const record::Group& group : groups_of(result)) {
    const auto i = static_cast<std::size_t>(group.index);
    const auto shrunk = i < c.spread.shrunk.size() ? c.spread.shrunk[i] : std::nullopt;
    std::vector<std::string> row = {std::to_string(group.index), value_text(group.accuracy, unit),
                                    shrunk ? value_text(shrunk, unit) : ""};
    if (!c.pairs.empty()) {
      const auto pair = std::ranges::find(c.pairs, group.index, &Contrast::group);
      if (pair == c.pairs.end()) {
        row.insert(row.end(), {c.worst == group.index ? "the worst" : "", "", "", ""});
      } else {
        const std::string interval =
            bracketed(difference_interval_text(pair->difference.low, pair->difference.high, unit));
        row.insert(row.end(),
                   {difference_text(pair->difference.value, unit) + "\n" +
                        (interval.empty() ? printable(pair->difference.reason) : interval),
                    discordant_text(*pair), p_cell(pair->p), p_cell(pair->p_holm)});
      }
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

std::string plural(const Contrasts& c) { return c.groups + "s"; }

std::string used(const Contrasts& c) {
  return c.data == "paired"     ? "paired items"
         : c.data == "unpaired" ? "prompts without partners"
                                : "bare counts";
}

}  // namespace

std::string contrasts_html(const Result& result) {
  if (!result.contrasts) return "";
  const Contrasts& c = *result.contrasts;
  const Unit unit = unit_of(result);
  const auto lines = [](const std::string& text, const std::string& small) {
    return small.empty() ? text : text + "\n" + printable(small);
  };
  Table table;
  table.header = {used(c), ""};
  table.rows = {
      {"mean", lines(mean_text(c, unit, "\u00b1"), c.mean.method)},
      {fmt::format("do the {} differ?", plural(c)),
       lines(test_text(c.test), c.test.method + (items_text(c.test, c.groups).empty()
                                                     ? ""
                                                     : "; " + items_text(c.test, c.groups)))},
      {fmt::format("spread of the {}\nstandard deviation without sampling noise", plural(c)),
       lines(spread_text(c.spread, unit), c.spread.method)}};
  std::string html = fmt::format("<section>\n<h2>Comparing {}</h2>\n", escape_html(plural(c)));
  html += table_html(table, c.limits);
  const Table pairs = pairs_table(result, c);
  const std::string note =
      (c.pairs_reason.empty() ? c.pairs_method : "No pairs: " + c.pairs_reason) +
      (c.spread.shrunk.empty() ? "" : ". Shrunk: towards the common mean, by what noise explains") +
      ".";
  if (pairs.rows.size() > kLongTable) {
    html += fmt::format("<details><summary>Every {} against the worst</summary>\n{}</details>\n",
                        escape_html(c.groups), table_html(pairs, note));
  } else {
    html += table_html(pairs, note);
  }
  return html + "</section>\n";
}

std::vector<std::pair<std::string, std::string>> contrast_lines(const Result& result) {
  std::vector<std::pair<std::string, std::string>> lines;
  if (!result.contrasts) return lines;
  const Contrasts& c = *result.contrasts;
  const Unit unit = unit_of(result);
  const auto method = [](const std::string& text) {
    return text.empty() ? "" : "; " + printable(text);
  };
  lines.emplace_back("mean", mean_text(c, unit, "+-") + method(c.mean.method));
  const std::string items = items_text(c.test, c.groups);
  lines.emplace_back(
      "differ", test_text(c.test) + method(c.test.method) + (items.empty() ? "" : "; " + items));
  lines.emplace_back("spread", spread_text(c.spread, unit) + method(c.spread.method));
  for (const Contrast& pair : c.pairs) {
    const std::string interval =
        difference_interval_text(pair.difference.low, pair.difference.high, unit);
    std::string text =
        fmt::format("{} over {} {}{}", difference_text(pair.difference.value, unit), c.groups,
                    c.worst.value_or(0),
                    interval.empty() ? because(pair.difference.reason) : " [" + interval + "]");
    if (pair.only_group && pair.only_worst) {
      text += fmt::format(", {} items right only here, {} only there", *pair.only_group,
                          *pair.only_worst);
    }
    text += fmt::format(", {}, Holm {}", p_text(pair.p), p_text(pair.p_holm));
    lines.emplace_back(fmt::format("{} {}", c.groups, pair.group), text);
  }
  lines.emplace_back("pairs", c.pairs_reason.empty() ? printable(c.pairs_method)
                                                     : "none: " + printable(c.pairs_reason));
  lines.emplace_back("limits", printable(c.limits));
  return lines;
}

}  // namespace kvphase::report
