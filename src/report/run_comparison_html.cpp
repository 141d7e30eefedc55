#include "report/run_comparison_html.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>

#include "report/claims.h"
#include "report/document.h"
#include "report/markup.h"
#include "report/run_charts.h"
#include "report/run_comparison.h"
#include "report/text.h"

namespace kvphase::report {
namespace {

using record::ComparedRun;
using record::PairedRuns;
using record::RunComparison;
using record::TestedDifference;

// "50.6" or "48.1-52.5" over the runs that have one; "-" when none has.
template <typename ValueOf>
std::string over_runs(const RunComparison& c, const std::vector<std::size_t>& runs,
                      const ValueOf& value_of) {
  std::optional<double> low, high;
  for (const std::size_t i : runs) {
    const std::optional<double> value = value_of(c.runs[i]);
    if (!value) continue;
    low = std::min(low.value_or(*value), *value);
    high = std::max(high.value_or(*value), *value);
  }
  const std::string from = number_text(low);
  const std::string to = number_text(high);
  return from == to ? from : from + "\u2013" + to;
}

std::string periods_of(const RunComparison& c, const std::vector<std::size_t>& runs) {
  std::vector<std::pair<std::string, int>> found;
  for (const std::size_t i : runs) {
    const std::string text = found_text(c.runs[i]);
    const auto known = std::ranges::find(found, text, &std::pair<std::string, int>::first);
    if (known == found.end()) {
      found.emplace_back(text, 1);
    } else {
      ++known->second;
    }
  }
  if (found.size() == 1) return found[0].first;
  std::string text;
  for (const auto& [what, count] : found) {
    text += fmt::format("{}{}: {}", text.empty() ? "" : ", ", what, count);
  }
  return text;
}

std::string minutes_text(std::optional<double> seconds) {
  return seconds ? fmt::format("{:.{}f}", *seconds / 60, *seconds < 600 ? 1 : 0) : std::string("-");
}

std::string sortable(const Table& table, std::string_view note) {
  return "<div class=\"sortable\">\n" + table_html(table, note) + "</div>\n";
}

std::string header_html(const RunComparison& c, const std::vector<RunSet>& sets) {
  std::set<std::string> designs, models;
  std::int64_t audits = 0, published = 0;
  for (const ComparedRun& run : c.runs) {
    if (run.published) {
      ++published;
      continue;
    }
    ++audits;
    if (!run.design.empty()) designs.insert(run.design);
    models.insert(run.result.context.model_sha256.empty() ? run.name
                                                          : run.result.context.model_sha256);
  }
  const auto counted = [](std::int64_t count, const char* what) {
    return fmt::format("{} {}{}", count_text(count), what, count == 1 ? "" : "s");
  };
  std::string what = counted(audits, "audit") + " of " + counted(std::ssize(models), "model");
  if (!designs.empty()) what += " of " + counted(std::ssize(designs), "design");
  if (published > 0) what += ", beside " + counted(published, "published curve");
  std::string links;
  for (const RunSet& set : sets) {
    links += fmt::format("{}<a href=\"#set-{}\">{}</a>", links.empty() ? "" : " \u00b7 ", set.id,
                         escape_html(set.title));
  }
  return "<header>\n" + paragraph("kvphase: models side by side", "kicker") +
         fmt::format("<h1>{}</h1>\n", escape_html(c.sentence)) + paragraph(what + ".", "design") +
         (links.empty() ? "" : "<p class=\"design\">" + links + "</p>\n") + "</header>\n";
}

std::string designs_html(const RunComparison& c, const RunSet& set) {
  Table table;
  table.header = {"design",     "runs",           "mean %",           "worst %",
                  "gap",        "noise gap",      "period",           "bytes / token",
                  "parameters", "trained tokens", "training, minutes"};
  for (const RunGroup& group : set.groups) {
    for (const auto* runs : {&group.runs, &group.published}) {
      if (runs->empty()) continue;
      const ComparedRun& first = c.runs[runs->front()];
      std::optional<double> seconds;
      for (const std::size_t i : *runs) {
        const auto& s = c.runs[i].training.seconds;
        if (s) seconds = seconds.value_or(0) + *s / static_cast<double>(runs->size());
      }
      const auto r = [](const ComparedRun& run) -> const record::Result& { return run.result; };
      table.rows.push_back(
          {group.name + (first.published ? " (published)" : ""), fmt::format("{}", runs->size()),
           over_runs(c, *runs, [&](const auto& run) { return r(run).mean.value; }),
           over_runs(c, *runs, [&](const auto& run) { return r(run).worst.estimate.value; }),
           over_runs(c, *runs, [&](const auto& run) { return r(run).gap.estimate.value; }),
           over_runs(c, *runs, [&](const auto& run) { return r(run).gap.noise; }),
           periods_of(c, *runs), bytes_text(first), amount_text(first.parameters),
           amount_text(first.training.tokens), minutes_text(seconds)});
    }
  }
  return sortable(table,
                  "Ranges are over seeds; training time is their mean. Worst and gap are over "
                  "residues; noise gap: what a flat curve would show. Click a heading to sort.");
}

std::string figure_html(const RunFigure& figure, int number) {
  const std::string id = escape_html(figure.id);
  const bool many = !figure.panels.front().title.empty();
  std::string html = fmt::format("<figure id=\"{}\" aria-labelledby=\"{}-caption\">\n", id, id);
  html += fmt::format("<figcaption id=\"{}-caption\"><b>Figure {}. {}.</b> {}</figcaption>\n", id,
                      number, escape_html(figure.title), escape_html(figure.caption));
  if (!figure.legend.empty()) html += legend_html(figure.legend);
  if (many) html += "<div class=\"panels\">\n";
  for (const Panel& panel : figure.panels) {
    if (many) {
      html += fmt::format("<div class=\"panel\"><h3>{}</h3><p>{}</p>\n", escape_html(panel.title),
                          escape_html(panel.detail));
    }
    html += fmt::format("<div class=\"chart\" aria-label=\"{}\"></div>\n",
                        escape_html(panel.description));
    html += "<script type=\"application/json\">" + json_for_script(panel.spec) + "</script>\n";
    if (many) html += "</div>\n";
  }
  if (many) html += "</div>\n";
  html += fmt::format("<details><summary>In words and numbers</summary>\n{}{}</details>\n",
                      paragraph(figure.description), table_html(figure.data, ""));
  return html + "</figure>\n";
}

std::string figures_html(const RunComparison& c, const std::vector<RunSet>& sets) {
  std::string html;
  int number = 0;
  for (const RunSet& set : sets) {
    html += fmt::format("<section id=\"set-{}\">\n<h2>{}</h2>\n", set.id, escape_html(set.title));
    html += designs_html(c, set);
    for (const RunFigure& figure : figures_of(c, set)) html += figure_html(figure, ++number);
    html += "</section>\n";
  }
  if (html.empty()) return "";
  return "<noscript><p>The figures need JavaScript; the tables under them hold the same "
         "numbers.</p></noscript>\n" +
         html;
}

std::string p_cell(std::optional<double> p) {
  return p ? (*p < 1e-4 ? "< 0.0001" : fmt::format("{:.3f}", *p)) : std::string("-");
}

std::string pairs_html(const RunComparison& c) {
  if (c.pairs.empty()) return "";
  Table table;
  table.header = {"run",         "reference", "mean, points",        "p", "worst, points", "p",
                  "gap, points", "p",         "items for / against", "p"};
  const bool tokens = tokens_differ(c);
  if (tokens) table.header.push_back("tokens per answer");
  std::int64_t lower = 0, wider = 0;
  for (const PairedRuns& pair : c.pairs) {
    std::vector<std::string> row = {
        printable(c.runs[pair.run].name),
        fmt::format("{}\n{}, modulo {}, {} prompts", printable(c.runs[pair.reference].name),
                    pair.rule, pair.modulus, count_text(pair.prompts))};
    for (const TestedDifference* d : {&pair.mean, &pair.worst, &pair.gap}) {
      std::string text = tested_text(*d);
      if (const auto at = text.find(" ["); at != std::string::npos) text[at] = '\n';
      row.push_back(text);
      row.push_back(p_cell(d->p_holm));
    }
    row.push_back(fmt::format("{} / {}", pair.items_for_run, pair.items_for_reference));
    row.push_back(p_cell(pair.p_items_holm));
    if (tokens) row.push_back(token_difference_text(pair));
    table.rows.push_back(std::move(row));
    const auto significant = [&](const TestedDifference& d) {
      return d.p_holm && *d.p_holm <= c.level;
    };
    lower += significant(pair.worst) && *pair.worst.estimate.value < 0 ? 1 : 0;
    wider += significant(pair.gap) && *pair.gap.estimate.value > 0 ? 1 : 0;
  }
  const std::string summary = fmt::format(
      "Of {} runs with a reference on the same {}, {} have a lower worst phase and {} a wider "
      "gap than it (Holm's correction over all {} p-values of this page, level {:g}).",
      c.pairs.size(), tokens ? "items and residues" : "prompts", lower, wider, count_text(c.tests),
      c.level);
  return "<section id=\"pairs\">\n<h2>Paired tests</h2>\n" + paragraph(summary) +
         "<details><summary>Every test</summary>\n" +
         sortable(table,
                  "Run minus reference on the same prompts; items are the clusters. Brackets: 95% "
                  "bounds, uncorrected; those of worst and gap hold whichever phase is the worst. "
                  "Items for / against: items with more right answers of the run, and fewer "
                  "(McNemar's mid-p). p-values are corrected.") +
         "</details>\n</section>\n";
}

std::string runs_html(const RunComparison& c) {
  Table table;
  table.header = {
      "run",    "mean %",      "worst %",       "at residue",     "gap",  "noise gap", "p of gap",
      "period", "p of period", "bytes / token", "trained tokens", "loss", "minutes"};
  std::set<std::string> reasons;
  for (const ComparedRun& run : c.runs) {
    const record::Result& r = run.result;
    table.rows.push_back(
        {printable(run.name), number_text(r.mean.value), number_text(r.worst.estimate.value),
         r.worst.group ? fmt::format("{}", *r.worst.group) : "-", number_text(r.gap.estimate.value),
         number_text(r.gap.noise), p_cell(r.gap.p_value), found_text(run), p_cell(r.period.p_value),
         bytes_text(run), amount_text(run.training.tokens),
         run.training.loss ? fmt::format("{:.3f}", *run.training.loss) : "-",
         minutes_text(run.training.seconds)});
    for (const auto& [what, reason] :
         {std::pair("cache", run.cache.reason), std::pair("training", run.training.reason)}) {
      if (!reason.empty()) reasons.insert(fmt::format("{}: {}", what, reason));
    }
  }
  std::string note = "Dashes: not known";
  if (!reasons.empty()) note += fmt::format(" ({})", fmt::join(reasons, "; "));
  return "<section id=\"runs\">\n<h2>Every run</h2>\n<details><summary>" +
         fmt::format("{} rows", table.rows.size()) + "</summary>\n" + sortable(table, note + ".") +
         "</details>\n</section>\n";
}

std::string reading_html(const RunComparison& c) {
  std::vector<std::string> notes = {
      "A residue is the target's token position modulo R; a phase is the same modulo the stride of "
      "the model's cache compression. A model that treats all positions alike has a flat curve.",
      "The gap is best minus worst residue. It is never negative, so noise alone makes one: "
      "compare "
      "it with the noise gap.",
      "Several seeds of one design are several models, not several measurements of one: where they "
      "disagree, the design alone does not decide.",
  };
  notes.insert(notes.end(), c.notes.begin(), c.notes.end());
  return "<section>\n<h2>How to read this</h2>\n<ul>\n" + list_items(notes) + "</ul>\n</section>\n";
}

std::string context_html(const RunComparison& c) {
  const record::RunContext& context = c.context;
  return fmt::format(
      "<section>\n<h2>What ran</h2>\n<dl class=\"context\">\n<div><dt>Repeat with</dt><dd><code>{}"
      "</code></dd></div>\n<div><dt>Compared</dt><dd>{}</dd></div>\n<div><dt>Program</"
      "dt><dd>kvphase "
      "{}, commit {}, {}</dd></div>\n</dl>\n</section>\n",
      escape_html(context.command), escape_html(context.started), escape_html(context.version),
      escape_html(context.commit), escape_html(context.build));
}

}  // namespace

std::string run_comparison_html(const RunComparison& c) {
  const std::vector<RunSet> sets = run_sets(c);
  return document_html("kvphase: models side by side",
                       header_html(c, sets) + figures_html(c, sets) + claims_html(c.claims) +
                           pairs_html(c) + runs_html(c) + reading_html(c) + context_html(c),
                       "wide");
}

}  // namespace kvphase::report
