#include "report/html.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "report/charts.h"
#include "report/contrasts.h"
#include "report/document.h"
#include "report/markup.h"
#include "report/text.h"

namespace kvphase::report {
namespace {

using record::Estimate;
using record::Extreme;
using record::Gap;
using record::Result;

std::string header_html(const Result& result, const std::optional<Result>& control) {
  std::string html = "<header>\n";
  html += paragraph("kvphase phase audit" + (result.title.empty() ? "" : ": " + result.title),
                    "kicker");
  html += fmt::format("<p class=\"badge {}\">{}</p>\n", name_of(result.verdict.kind),
                      label_of(result.verdict.kind));
  const std::string sentence = printable(result.verdict.sentence);
  html += fmt::format("<h1>{}</h1>\n",
                      escape_html(sentence.empty() ? label_of(result.verdict.kind) : sentence));
  if (control) {
    const std::string name = series_name(*control);
    html += fmt::format("<p class=\"beside\"><b>Control{}:</b> {}</p>\n",
                        name == "control" ? "" : ", " + escape_html(name),
                        escape_html(control->verdict.sentence));
    if (!comparable(result, *control)) {
      html += paragraph(
          "The control's curve is not drawn: its residues or its score differ from this result's.",
          "beside");
    }
  }
  if (result.confirmation) html += paragraph(printable(result.confirmation->sentence), "beside");
  if (!result.verdict.next_step.empty()) {
    html += fmt::format("<p class=\"beside\"><b>Next:</b> {}</p>\n",
                        escape_html(result.verdict.next_step));
  }
  html += paragraph(design_text(result), "design");
  return html + "</header>\n";
}

std::string requirements_html(const Result& result) {
  if (result.requirements.empty()) return "";
  Table table;
  table.header = {"requirement", "outcome", "why"};
  for (const record::Requirement& r : result.requirements) {
    table.rows.push_back({r.text, r.outcome, r.sentence});
  }
  return "<section>\n<h2>Requirements</h2>\n" + table_html(table, "") + "</section>\n";
}

std::string sequential_html(const Result& result) {
  if (!result.sequential) return "";
  const record::Sequential& s = *result.sequential;
  Table table;
  table.header = {"sequential audit", ""};
  table.rows = {{"stopping rule", s.rule},
                {"e-value", e_value_text(s)},
                {"prompts", saving_text(s)},
                {"phases that may be the worst", fmt::format("{}", fmt::join(s.candidates, ", "))}};
  return "<section>\n<h2>Early stop</h2>\n" +
         table_html(table,
                    "An e-value holds however often one looks; a p-value for a fixed sample "
                    "size would not, so none is given.") +
         "</section>\n";
}

std::string warnings_html(const Result& result) {
  if (result.context.warnings.empty()) return "";
  return "<aside class=\"warnings\" aria-label=\"Warnings\">\n<h2>Warnings</h2>\n<ul>\n" +
         list_items(result.context.warnings) + "</ul>\n</aside>\n";
}

// A unit after the number is set smaller: "80.0 points".
std::string tile(std::string_view name, const std::string& value, const std::string& detail) {
  const std::size_t space = value.find(' ');
  const bool unit = space != std::string::npos && value.find_first_of("0123456789") < space;
  return fmt::format("<div><dt>{}</dt><dd>{}{}<small>{}</small></dd></div>\n", name,
                     escape_html(value.substr(0, unit ? space : value.size())),
                     unit ? "<span>" + escape_html(value.substr(space)) + "</span>" : "",
                     escape_html(detail));
}

std::string bracketed(const std::string& interval) {
  return interval.empty() ? "" : fmt::format("[{}]", interval);
}

std::string tile_detail(const Extreme& extreme, std::string_view kind,
                        std::optional<std::int64_t> boundary) {
  if (!extreme.group) return extreme.estimate.reason;
  std::string text = fmt::format("{} {}", kind, *extreme.group);
  if (boundary == extreme.group) text += ", the boundary";
  return text;
}

std::string tiles_html(const Result& result) {
  const Unit unit = unit_of(result);
  const bool folded = result.folded.has_value();
  const std::string_view kind = folded ? "phase" : "residue";
  const Extreme& worst = folded ? result.folded->worst : result.worst;
  const Extreme& best = folded ? result.folded->best : result.best;
  const Gap& gap = folded ? result.folded->gap : result.gap;
  const auto boundary = boundary_phase(result);
  std::string html = "<dl class=\"tiles\">\n";
  html += tile("Mean", value_text(result.mean.value, unit),
               result.mean.value ? bracketed(interval_text(result.mean.low, result.mean.high, unit))
                                 : result.mean.reason);
  html += tile("Worst", value_text(worst.estimate.value, unit), tile_detail(worst, kind, boundary));
  html += tile("Best", value_text(best.estimate.value, unit), tile_detail(best, kind, boundary));
  html +=
      tile("Gap", difference_text(gap.estimate.value, unit),
           gap.noise ? "noise alone: " + difference_text(gap.noise, unit) : gap.estimate.reason);
  html += tile("Period", period_text(result.period),
               result.period.p_value ? p_text(result.period.p_value) : result.period.reason);
  return html + "</dl>\n";
}

// One column of the table of key numbers.
struct Column {
  std::string name;
  std::string_view kind;  // "residue" | "phase"
  const Estimate* mean;
  const Extreme* worst;
  const Extreme* best;
  const Gap* gap;
  Unit unit;
};

std::string second_line(const std::string& text) {
  return text.empty() ? "" : fmt::format("\n{}", text);
}

std::string undefined_cell(const Estimate& e) {
  return std::string(kUndefined) + second_line(printable(e.reason));
}

std::string estimate_cell(const Estimate& e, Unit unit, const std::string& where = "") {
  if (!e.value) return undefined_cell(e);
  const std::string interval = bracketed(interval_text(e.low, e.high, unit));
  return value_text(e.value, unit) + where + second_line(interval);
}

std::string extreme_cell(const Extreme& extreme, const Column& column) {
  return estimate_cell(
      extreme.estimate, column.unit,
      extreme.group ? fmt::format(" at {}\u00a0{}", column.kind, *extreme.group) : std::string());
}

// Differences without their unit, which the row's name says.
std::string bare(std::string text) {
  for (const std::string_view unit : {" points", " nats"}) {
    for (std::size_t at; (at = text.find(unit)) != std::string::npos;) text.erase(at, unit.size());
  }
  return text;
}

// "0.034", "< 0.0001": a p-value in a row that says so.
std::string p_cell(std::optional<double> p) {
  const std::string text = p_text(p);
  return text.starts_with("p = ") ? text.substr(4) : text.starts_with("p ") ? text.substr(2) : text;
}

std::string gap_cell(const Gap& gap, Unit unit) {
  if (!gap.estimate.value) return undefined_cell(gap.estimate);
  const std::string interval =
      bracketed(difference_interval_text(gap.estimate.low, gap.estimate.high, unit));
  return bare(difference_text(gap.estimate.value, unit) + second_line(interval));
}

std::string numbers_html(const Result& result, const std::optional<Result>& control) {
  std::vector<Column> columns;
  const auto add = [&](const Result& r, const std::string& who) {
    if (r.folded) {
      columns.push_back({who + fmt::format("by phase ({})", r.folded->stride), "phase", &r.mean,
                         &r.folded->worst, &r.folded->best, &r.folded->gap, unit_of(r)});
    }
    if (r.other_stride) {
      columns.push_back({who + fmt::format("by the other stride ({})", r.other_stride->stride),
                         "phase", &r.mean, &r.other_stride->worst, &r.other_stride->best,
                         &r.other_stride->gap, unit_of(r)});
    }
    columns.push_back({who + fmt::format("by residue ({})", r.residues.size()), "residue", &r.mean,
                       &r.worst, &r.best, &r.gap, unit_of(r)});
  };
  add(result, "");
  if (control) add(*control, "control\n");
  Table table;
  table.header = {""};
  const std::string_view unit = unit_name(unit_of(result));
  table.rows = {{"mean"},
                {"worst"},
                {"best"},
                {unit.empty() ? "gap" : fmt::format("gap, {}", unit)},
                {"noise alone, expected"},
                {"noise alone, 95th percentile"},
                {"p of the gap"},
                {"gap, cross-fitted"}};
  for (const Column& c : columns) {
    table.header.push_back(c.name);
    const std::vector<std::string> cells = {estimate_cell(*c.mean, c.unit),
                                            extreme_cell(*c.worst, c),
                                            extreme_cell(*c.best, c),
                                            gap_cell(*c.gap, c.unit),
                                            bare(difference_text(c.gap->noise, c.unit)),
                                            bare(difference_text(c.gap->noise_high, c.unit)),
                                            p_cell(c.gap->p_value),
                                            bare(difference_text(c.gap->cross_fitted, c.unit))};
    for (std::size_t i = 0; i < cells.size(); ++i) table.rows[i].push_back(cells[i]);
  }
  return "<section>\n<h2>Key numbers</h2>\n" + tiles_html(result) +
         table_html(table, "Brackets: " + confidence_text(result) +
                               " intervals. Cross-fitted: worst and best chosen on one half of "
                               "the items and measured on the other.") +
         "</section>\n";
}

std::string positions_html(const Result& result) {
  const record::PositionCheck& p = result.positions;
  std::string html = "<section>\n<h2>Position check</h2>\n";
  if (!p.checked) {
    html += paragraph(p.note.empty() ? "Positions were not checked: the data do not hold them."
                                     : p.note);
    return html + "</section>\n";
  }
  const auto range = [](double low, double high, std::string_view unit) {
    return low == high ? fmt::format("{:.6g} {}, the same for all", low, unit)
                       : fmt::format("{:.6g} to {:.6g} {}", low, high, unit);
  };
  Table table;
  table.header = {"what must be equal", "found"};
  table.rows = {
      {"query position", p.query_position_fixed ? "fixed" : "varies"},
      {"prompt length", p.length_fixed ? "fixed" : "varies"},
      {"mean target position, over residues", range(p.mean_low, p.mean_high, "tokens")},
      {"variance of it, over residues", range(p.variance_low, p.variance_high, "tokens squared")}};
  html += paragraph(p.ok ? "Passed: residues differ in phase and in nothing else that was checked."
                         : "Not passed: a difference between residues may come from more than "
                           "their phase.",
                    p.ok ? "" : "alert");
  html += table_html(table, "");
  return html + paragraph(p.note) + "</section>\n";
}

std::string missing_html(const Result& result) {
  const record::Design& design = result.design;
  std::string html = "<section>\n<h2>Missing replies</h2>\n";
  if (design.observations == 0) return html + paragraph("No prompts.") + "</section>\n";
  if (design.missing == 0) {
    html += paragraph(
        fmt::format("None: all {} planned prompts were scored.", count_text(design.observations)));
    return html + "</section>\n";
  }
  html += paragraph(
      fmt::format("{} of {} planned prompts have no usable reply. They count neither as wrong nor "
                  "as right; the last two columns show what accuracy would be if they all were.",
                  count_text(design.missing), count_text(design.observations)));
  Table table;
  const bool share = unit_of(result) == Unit::kShare;
  table.header = {"residue", "planned", "scored", "missing"};
  if (share) table.header.insert(table.header.end(), {"if all wrong", "if all right"});
  for (const record::Group& g : result.residues) {
    const std::int64_t missing = g.planned - g.n;
    if (missing <= 0) continue;
    table.rows.push_back(
        {std::to_string(g.index), count_text(g.planned), count_text(g.n), count_text(missing)});
    if (!share) continue;
    const auto planned = static_cast<double>(g.planned);
    table.rows.back().push_back(
        value_text(static_cast<double>(g.correct.value_or(0)) / planned, Unit::kShare));
    table.rows.back().push_back(
        value_text(static_cast<double>(g.correct.value_or(0) + missing) / planned, Unit::kShare));
  }
  if (!table.rows.empty()) html += table_html(table, "");
  return html + "</section>\n";
}

std::string reading_html(const Result& result) {
  std::string html = "<section>\n<h2>How to read this</h2>\n<ul>\n";
  html += list_items({
      "A residue is the target's token position modulo R; a phase is the same modulo the stride of "
      "the model's cache compression. A model that treats all positions alike has a flat curve.",
      "The gap is best minus worst. It is never negative, so noise alone makes one: compare it "
      "with "
      "the gap from noise alone, its p-value and the cross-fitted gap, which can be negative.",
      "The period is tested, not read off the curve: its p-value is the chance that a flat curve "
      "looks as periodic at any candidate. The worst phase's interval does not account for having "
      "been chosen as the worst.",
  });
  html += "</ul>\n<h2>What the numbers do not say</h2>\n<ul>\n";
  html += list_items({
      "No period found is not proof of none: a dip smaller than this sample can show stays unseen.",
      "A curve says that phase matters, not why; a control that differs in its attention alone "
      "does.",
  });
  html += list_items(result.notes);
  return html + "</ul>\n</section>\n";
}

class Definitions {
 public:
  void add(std::string_view name, std::string_view value, bool code = false) {
    if (value.empty()) return;
    const std::string text = escape_html(value);
    html_ += fmt::format("<div><dt>{}</dt><dd>{}</dd></div>\n", escape_html(name),
                         code ? "<code>" + text + "</code>" : text);
  }
  std::string html() const { return "<dl class=\"context\">\n" + html_ + "</dl>\n"; }

 private:
  std::string html_;
};

std::string context_html(const Result& result, const std::optional<Result>& control) {
  const record::RunContext& c = result.context;
  Definitions list;
  list.add("Repeat with", c.command, true);
  list.add("Model", c.model_name + (c.model_kind.empty() ? "" : " (" + c.model_kind + ")"));
  list.add("Weights SHA-256", c.model_sha256, true);
  if (!c.model_config.is_null()) list.add("Model config", c.model_config.dump(), true);
  list.add("Task", result.design.task);
  if (!result.design.options.is_null())
    list.add("Task options", result.design.options.dump(), true);
  list.add("Prompt set SHA-256", c.prompt_set_sha256, true);
  list.add("Seed", std::to_string(c.seed));
  list.add("Data", result.data_kind);
  list.add("Mean", result.mean.method);
  list.add("Gap", (result.folded ? result.folded->gap : result.gap).estimate.method);
  list.add("Gap from noise", (result.folded ? result.folded->gap : result.gap).noise_method);
  list.add("Period", result.period.method);
  if (result.period.p_second) {
    list.add("Period, second null",
             p_text(result.period.p_second) +
                 (result.period.second_null.empty() ? "" : "; " + result.period.second_null));
  }
  if (!result.period.p_second && !result.period.p_second_reason.empty()) {
    list.add("Period, second null", "none: " + result.period.p_second_reason);
  }
  if (result.period.p_misfit) {
    list.add("Period, differences beyond it", p_text(result.period.p_misfit));
  } else if (!result.period.p_misfit_reason.empty()) {
    list.add("Period, differences beyond it", "not tested: " + result.period.p_misfit_reason);
  }
  std::string nested;
  for (const record::NestedPeriods& t : result.period.nested) {
    nested +=
        fmt::format("{}{} over {}: {}", nested.empty() ? "" : "; ", t.to, t.from, p_text(t.p));
  }
  list.add("Period, nested", nested);
  list.add("Period, limits", result.period.reason);
  for (const record::ScoreSummary& score : result.scores) {
    list.add("Period of the " + score.name,
             period_text(score.period) + ", " + p_text(score.period.p_value));
  }
  list.add("Started", c.started);
  list.add("Machine", c.host + (c.threads > 0 ? fmt::format(", {} threads", c.threads) : ""));
  if (!c.version.empty()) {
    list.add("Program", fmt::format("kvphase {}, commit {}, {}", c.version, c.commit, c.build));
  }
  if (control) {
    list.add("Control", control->title);
    list.add("Control's weights SHA-256", control->context.model_sha256, true);
    list.add("Control, repeat with", control->context.command, true);
  }
  return "<section>\n<h2>What ran</h2>\n" + list.html() + "</section>\n";
}

}  // namespace

std::string html_report(const Result& result, const std::optional<Result>& control) {
  std::string html;
  html += header_html(result, control);
  html += requirements_html(result);
  html += sequential_html(result);
  html += warnings_html(result);
  html += numbers_html(result, control);
  html += figures_html(charts_of(result, control));
  html += contrasts_html(result);
  html += positions_html(result);
  html += missing_html(result);
  html += reading_html(result);
  html += context_html(result, control);
  return document_html(fmt::format("{}: {}", label_of(result.verdict.kind), result.title), html);
}

}  // namespace kvphase::report
