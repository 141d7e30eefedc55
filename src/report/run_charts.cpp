#include "report/run_charts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>
#include <set>

#include "report/chart_spec.h"
#include "report/cost_chart.h"
#include "report/run_comparison.h"
#include "report/text.h"

namespace kvphase::report {
namespace {

using base::Json;
using record::ComparedRun;
using record::Group;
using record::RunComparison;

// A curve by group; a group without a value is empty.
using Curve = std::vector<std::optional<double>>;

Curve curve_of(const ComparedRun& run) {
  Curve curve;
  for (const Group& g : run.result.residues) curve.push_back(g.accuracy);
  return curve;
}

// Right answers by residue added up modulo `stride`; stride divides their number.
Curve folded_curve(const ComparedRun& run, std::int64_t stride) {
  const auto size = static_cast<std::size_t>(stride);
  std::vector<double> n(size), correct(size);
  for (std::size_t r = 0; r < run.result.residues.size(); ++r) {
    const Group& g = run.result.residues[r];
    if (!g.correct) continue;
    n[r % size] += static_cast<double>(g.n);
    correct[r % size] += static_cast<double>(*g.correct);
  }
  Curve curve(size);
  for (std::size_t p = 0; p < size; ++p) {
    if (n[p] > 0) curve[p] = correct[p] / n[p];
  }
  return curve;
}

std::string seed_name(const ComparedRun& run) {
  const std::string who = run.seed ? fmt::format("seed {}", *run.seed) : std::string("one run");
  return run.published ? "published" + (run.seed ? ", " + who : "") : who;
}

struct Range {
  std::size_t low = 0;
  std::size_t high = 0;
};
std::optional<Range> range_of(const Curve& curve) {
  std::optional<Range> range;
  for (std::size_t i = 0; i < curve.size(); ++i) {
    if (!curve[i]) continue;
    if (!range) range = Range{i, i};
    if (*curve[i] < *curve[range->low]) range->low = i;
    if (*curve[i] > *curve[range->high]) range->high = i;
  }
  return range;
}

std::string words_of(const Curve& curve, const ComparedRun& run, const char* kind) {
  const auto range = range_of(curve);
  if (!range) return seed_name(run) + " has no value";
  return fmt::format("{} {}% at {} {} to {}% at {}", seed_name(run), number_text(curve[range->low]),
                     kind, range->low, number_text(curve[range->high]), range->high);
}

Json curve_rows(const Curve& curve, const std::string& series) {
  Json rows = Json::array();
  for (std::size_t i = 0; i < curve.size(); ++i) {
    rows.push_back({{"x", i}, {"y", base::number_or_null(curve[i])}, {"s", series}});
  }
  return rows;
}

Json share_axis() {
  return {
      {"field", "y"},
      {"type", "quantitative"},
      {"scale", {{"domain", {0, 1}}}},
      {"title", nullptr},
      {"axis", {{"format", ".0%"}, {"values", {0, 0.5, 1}}, {"domain", false}, {"ticks", false}}}};
}

// Numbers at multiples of the stride, where it is known and not too small.
Json group_axis(std::size_t count, std::optional<std::int64_t> stride) {
  std::size_t step = count <= 12 ? 1 : 4;
  if (count > 12 && stride && *stride >= 4) step = static_cast<std::size_t>(*stride);
  Json values = Json::array();
  for (std::size_t v = 0; v < count; v += step) values.push_back(v);
  return {{"field", "x"},
          {"type", "quantitative"},
          {"title", nullptr},
          {"scale", {{"domain", {-0.5, static_cast<double>(count) - 0.5}}, {"nice", false}}},
          {"axis", {{"format", "d"}, {"values", values}, {"grid", true}, {"ticks", false}}}};
}

Json curve_layer(const Json& rows, const char* color, bool dashed, const char* kind) {
  const Json label = {
      {{"calculate",
        fmt::format("datum.s + ', {} ' + datum.x + ': ' + format(datum.y, '.1%')", kind)},
       {"as", "label"}}};
  Json line = {{"type", "line"}, {"strokeWidth", 1.25}, {"opacity", 0.9}, {"aria", false}};
  if (dashed) line["strokeDash"] = {4, 3};
  return {
      {"data", {{"values", rows}}},
      {"transform", Json::array({label.at(0)})},
      {"layer",
       Json::array(
           {{{"mark", line},
             {"encoding", {{"color", {{"value", color}}}, {"detail", {{"field", "s"}}}}}},
            {{"mark",
              {{"type", "point"},
               {"filled", true},
               {"opacity", 1},
               {"size", dashed ? 10 : 14},
               {"aria", false}}},
             {"encoding", {{"color", {{"value", color}}}, {"tooltip", {{"field", "label"}}}}}}})}};
}

// One design: its seeds as lines, the reference's band behind them, published curves dashed.
Panel curve_panel(const RunComparison& c, const RunGroup& group, const RunSet& set,
                  std::optional<std::int64_t> fold) {
  const char* kind = fold ? "phase" : "residue";
  const auto curve = [&](std::size_t run) {
    return fold ? folded_curve(c.runs[run], *fold) : curve_of(c.runs[run]);
  };
  const std::size_t count = static_cast<std::size_t>(fold ? *fold : set.modulus);
  Panel panel{.title = group.name};
  Json ours = Json::array();
  Json published = Json::array();
  std::vector<std::string> words;
  for (const std::size_t i : group.runs) {
    for (const Json& row : curve_rows(curve(i), std::to_string(i))) ours.push_back(row);
    words.push_back(words_of(curve(i), c.runs[i], kind));
  }
  for (const std::size_t i : group.published) {
    for (const Json& row : curve_rows(curve(i), std::to_string(i))) published.push_back(row);
    words.push_back(words_of(curve(i), c.runs[i], kind));
  }
  panel.spec = base_spec("", 110);
  panel.spec["padding"] = {{"left", 0}, {"right", 4}, {"top", 6}, {"bottom", 0}};
  panel.spec["config"]["axis"].update(
      {{"labelFontSize", 10}, {"labelPadding", 3}, {"titlePadding", 4}});
  Json layers = Json::array();
  std::optional<double> low, high;
  for (const std::size_t i : group.references) {
    for (const auto& value : curve(i)) {
      if (!value) continue;
      low = std::min(low.value_or(*value), *value);
      high = std::max(high.value_or(*value), *value);
    }
  }
  if (low) {
    words.push_back(fmt::format("reference from {} to {}%", number_text(low), number_text(high)));
    layers.push_back({{"data", {{"values", Json::array({{{"y", *low}, {"y2", *high}}})}}},
                      {"mark",
                       {{"type", "rect"},
                        {"opacity", 0.3},
                        {"stroke", "var(--control)"},  // a band without height stays visible
                        {"strokeWidth", 2},
                        {"aria", false}}},
                      {"encoding",
                       {{"y", share_axis()},
                        {"y2", {{"field", "y2"}}},
                        {"color", {{"value", "var(--control)"}}}}}});
  }
  const Json axes = {
      {"x", group_axis(count, group.runs.empty() ? std::nullopt : c.runs[group.runs[0]].stride)},
      {"y", share_axis()}};
  if (!published.empty()) {
    Json layer = curve_layer(published, "var(--boundary)", true, kind);
    layer["encoding"] = axes;
    layers.push_back(std::move(layer));
  }
  Json layer = curve_layer(ours, "var(--model)", false, kind);
  layer["encoding"] = axes;
  layers.push_back(std::move(layer));
  panel.spec["layer"] = std::move(layers);
  panel.description = fmt::format("{} by {}: {}.", group.name, kind, fmt::join(words, "; "));
  panel.spec["description"] = panel.description;

  std::vector<double> gaps;
  std::int64_t named = 0;
  for (const std::size_t i : group.runs) {
    const auto values = curve(i);
    if (const auto range = range_of(values)) {
      gaps.push_back(*values[range->high] - *values[range->low]);
    }
    const auto& r = c.runs[i].result;
    named += r.verdict.kind == record::VerdictKind::kPeriodic && r.period.value ? 1 : 0;
  }
  if (!gaps.empty()) {
    const auto [least, most] = std::ranges::minmax(gaps);
    panel.detail = fmt::format(
        "gap {}{}; period in {} of {}", number_text(least),
        number_text(least) == number_text(most) ? std::string() : "\u2013" + number_text(most),
        named, group.runs.size());
  }
  return panel;
}

Table curve_table(const RunComparison& c, const RunSet& set, bool folded) {
  Table table;
  std::int64_t most = folded ? 0 : set.modulus;
  for (const RunGroup& group : set.groups) {
    for (const std::size_t i : group.runs) {
      if (folded) most = std::max(most, c.runs[i].stride.value_or(0));
    }
  }
  table.header = {folded ? "accuracy by phase, %" : "accuracy by residue, %"};
  for (std::int64_t r = 0; r < most; ++r) table.header.push_back(fmt::format("{}", r));
  for (const RunGroup& group : set.groups) {
    for (const auto* list : {&group.runs, &group.published}) {
      for (const std::size_t i : *list) {
        const ComparedRun& run = c.runs[i];
        if (folded && (!run.stride || set.modulus % *run.stride != 0)) continue;
        std::vector<std::string> row = {printable(run.name)};
        for (const auto& value : folded ? folded_curve(run, *run.stride) : curve_of(run)) {
          row.push_back(number_text(value));
        }
        row.resize(table.header.size());
        table.rows.push_back(std::move(row));
      }
    }
  }
  return table;
}

RunFigure curves_figure(const RunComparison& c, const RunSet& set, bool folded) {
  RunFigure figure;
  figure.id = (folded ? "phases-" : "curves-") + set.id;
  figure.title = folded ? "Accuracy by phase of each design's own stride"
                        : fmt::format("Accuracy by token position modulo {}", set.modulus);
  figure.caption = folded ? "The same answers folded: a phase is the position modulo the stride."
                          : "A panel per design, a line per seed, all on one scale of 0 to 100%.";
  figure.legend = {{"model", "our runs, a line per seed"}};
  bool band = false, published = false;
  std::size_t lines = 0;
  for (const RunGroup& group : set.groups) {
    std::optional<std::int64_t> fold;
    if (folded) {
      if (group.runs.empty()) continue;
      fold = c.runs[group.runs[0]].stride;
      if (!fold || *fold < 2 || set.modulus % *fold != 0) continue;
    }
    figure.panels.push_back(curve_panel(c, group, set, fold));
    band = band || !group.references.empty();
    published = published || !group.published.empty();
    lines += group.runs.size() + group.published.size();
  }
  if (published) figure.legend.push_back({"published", "published, the same design at its size"});
  if (band) {
    figure.legend.push_back(
        {"band", "full-attention reference: lowest to highest residue, all seeds"});
  }
  figure.description = fmt::format(
      "{}, {}: {} panels with {} curves; each panel's own words give "
      "its lowest and highest value.",
      figure.title, set.title, figure.panels.size(), lines);
  figure.data = curve_table(c, set, folded);
  return figure;
}

RunFigure range_figure(const RunComparison& c, const RunSet& set) {
  RunFigure figure;
  figure.id = "range-" + set.id;
  figure.title = "Mean and worst residue of every design";
  figure.caption =
      "A line per seed from its worst residue (diamond) to its mean (circle): what a mean hides. "
      "Published ones are hollow, below.";
  figure.legend = {{"model", "mean"}, {"boundary", "worst residue"}};
  figure.data.header = {"run", "mean %", "worst %", "at residue", "gap", "noise gap"};
  Json rows = Json::array();
  Json names = Json::array();
  std::string lowest_name;
  std::optional<double> lowest;
  for (const RunGroup& group : set.groups) {
    names.push_back(group.name);
    for (const auto* list : {&group.runs, &group.published}) {
      for (const std::size_t i : *list) {
        const ComparedRun& run = c.runs[i];
        const record::Result& r = run.result;
        figure.data.rows.push_back({printable(run.name), number_text(r.mean.value),
                                    number_text(r.worst.estimate.value),
                                    r.worst.group ? fmt::format("{}", *r.worst.group) : "-",
                                    number_text(r.gap.estimate.value), number_text(r.gap.noise)});
        if (!r.mean.value || !r.worst.estimate.value) continue;
        if (!run.published && (!lowest || *r.worst.estimate.value < *lowest)) {
          lowest = r.worst.estimate.value;
          lowest_name = run.name;
        }
        rows.push_back({{"d", group.name},
                        {"who", run.published ? "published" : "ours"},
                        {"mean", *r.mean.value},
                        {"worst", *r.worst.estimate.value},
                        {"label", fmt::format("{}: mean {}%, worst {}%", printable(run.name),
                                              number_text(r.mean.value),
                                              number_text(r.worst.estimate.value))}});
      }
    }
  }
  figure.description =
      fmt::format("{}, {}: {} designs{}.", figure.title, set.title, set.groups.size(),
                  lowest ? fmt::format(", the lowest worst residue {}% of {}", number_text(lowest),
                                       printable(lowest_name))
                         : std::string());
  Json spec = base_spec(figure.description, 22 * static_cast<int>(set.groups.size()));
  const Json y = {
      {"field", "d"},
      {"type", "nominal"},
      {"sort", names},
      {"title", nullptr},
      {"axis", {{"labelLimit", 190}, {"domain", false}, {"ticks", false}, {"grid", true}}}};
  const Json x = {{"type", "quantitative"},
                  {"scale", {{"domain", {0, 1}}}},
                  {"title", "accuracy"},
                  {"axis", {{"format", ".0%"}, {"tickCount", 5}, {"ticks", false}}}};
  const auto point = [&](const char* field, const char* color, const char* shape) {
    return Json{
        {"mark", {{"type", "point"}, {"size", 42}, {"strokeWidth", 1.5}, {"aria", false}}},
        {"encoding",
         {{"x", with({{"field", field}}, x)},
          {"shape", {{"value", shape}}},
          {"stroke", {{"value", color}}},
          {"fill",
           {{"condition", {{"test", "datum.who === 'published'"}, {"value", "var(--paper)"}}},
            {"value", color}}},
          {"tooltip", {{"field", "label"}}}}}};
  };
  spec["data"] = {{"values", rows}};
  spec["encoding"] = {{"y", y},
                      {"yOffset",
                       {{"field", "who"},
                        {"type", "nominal"},
                        {"sort", {"ours", "published"}},
                        {"scale", {{"domain", {"ours", "published"}}, {"paddingOuter", 0.6}}}}}};
  spec["layer"] = Json::array(
      {{{"mark", {{"type", "rule"}, {"strokeWidth", 1.25}, {"opacity", 0.55}, {"aria", false}}},
        {"encoding",
         {{"x", with({{"field", "worst"}}, x)},
          {"x2", {{"field", "mean"}}},
          {"color", {{"value", "var(--control)"}}}}}},
       point("mean", "var(--model)", "circle"),
       point("worst", "var(--boundary)", "diamond")});
  figure.panels.push_back(
      {.title = {}, .detail = {}, .description = figure.description, .spec = spec});
  return figure;
}

// Mean over seeds of each residue.
Curve mean_curve(const RunComparison& c, const std::vector<std::size_t>& runs, std::size_t size) {
  Curve mean(size);
  for (std::size_t r = 0; r < size; ++r) {
    double sum = 0;
    double count = 0;
    for (const std::size_t i : runs) {
      const Curve curve = curve_of(c.runs[i]);
      if (r >= curve.size() || !curve[r]) continue;
      sum += *curve[r];
      count += 1;
    }
    if (count > 0) mean[r] = sum / count;
  }
  return mean;
}

RunFigure map_figure(const RunComparison& c, const RunSet& set) {
  RunFigure figure;
  figure.id = "map-" + set.id;
  figure.title = "All designs at a glance";
  figure.caption = fmt::format(
      "A row per design, its seeds averaged; a column per token position modulo {}; dark is wrong, "
      "bright is right. Stripes are periods.",
      set.modulus);
  Json rows = Json::array();
  Json names = Json::array();
  const auto size = static_cast<std::size_t>(set.modulus);
  figure.data.header = {"mean over seeds, %"};
  for (std::size_t r = 0; r < size; ++r) figure.data.header.push_back(fmt::format("{}", r));
  for (const RunGroup& group : set.groups) {
    for (const auto* list : {&group.runs, &group.published}) {
      if (list->empty()) continue;
      const std::string name = group.name + (list == &group.published ? " (published)" : "");
      names.push_back(name);
      const Curve curve = mean_curve(c, *list, size);
      figure.data.rows.push_back({name});
      for (std::size_t r = 0; r < size; ++r) {
        figure.data.rows.back().push_back(number_text(curve[r]));
        if (curve[r]) rows.push_back({{"d", name}, {"x", r}, {"y", *curve[r]}});
      }
    }
  }
  figure.description = fmt::format("{}, {}: {} rows of {} residues, shaded from 0 to 100%.",
                                   figure.title, set.title, names.size(), size);
  Json spec = base_spec(figure.description, 17 * static_cast<int>(names.size()));
  spec["data"] = {{"values", rows}};
  spec["transform"] = Json::array(
      {{{"calculate", "datum.d + ', residue ' + datum.x + ': ' + format(datum.y, '.1%')"},
        {"as", "label"}}});
  spec["mark"] = {{"type", "rect"}, {"aria", false}};
  spec["encoding"] = {
      {"x",
       {{"field", "x"},
        {"type", "ordinal"},
        {"title", fmt::format("token position modulo {}", set.modulus)},
        {"axis", {{"labelAngle", 0}, {"ticks", false}, {"labelOverlap", "greedy"}}}}},
      {"y",
       {{"field", "d"},
        {"type", "nominal"},
        {"sort", names},
        {"title", nullptr},
        {"axis", {{"labelLimit", 190}, {"domain", false}, {"ticks", false}}}}},
      {"color",
       {{"field", "y"},
        {"type", "quantitative"},
        {"scale", {{"scheme", "viridis"}, {"domain", {0, 1}}}},
        {"legend",
         {{"title", "accuracy"},
          {"format", ".0%"},
          {"orient", "top"},
          {"gradientLength", 160},
          {"labelColor", "var(--ink-2)"},
          {"titleColor", "var(--ink-2)"}}}}},
      {"tooltip", {{"field", "label"}}}};
  figure.panels.push_back(
      {.title = {}, .detail = {}, .description = figure.description, .spec = spec});
  return figure;
}

std::string id_of(const std::string& text) {
  std::string id;
  for (const char c : text) {
    id += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '-';
  }
  return id;
}

}  // namespace

std::vector<RunSet> run_sets(const RunComparison& c) {
  std::map<std::size_t, std::size_t> reference_of;
  for (const record::PairedRuns& pair : c.pairs) reference_of[pair.run] = pair.reference;
  std::vector<RunSet> sets;
  std::map<std::string, std::size_t> set_at;
  std::map<std::pair<std::size_t, std::string>, std::size_t> group_at;
  for (std::size_t i = 0; i < c.runs.size(); ++i) {
    const ComparedRun& run = c.runs[i];
    if (run.result.score != "accuracy" || run.result.residues.empty()) continue;
    const std::string padding = padding_text(run);
    const std::int64_t R = run.result.design.modulus;
    const std::string task = printable(run.result.design.task);
    const std::string key = fmt::format("{}{}{}-{}", task == "lookup" ? "" : task,
                                        task.empty() || task == "lookup" ? "" : "-", padding, R);
    const auto [set, new_set] = set_at.emplace(key, sets.size());
    if (new_set) {
      std::string title =
          fmt::format("{}{} padding, positions modulo {}",
                      task.empty() || task == "lookup" ? "" : task + ", ", padding, R);
      title.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(title.front())));
      sets.push_back({.title = std::move(title), .id = id_of(key), .modulus = R});
    }
    RunSet& home = sets[set->second];
    const std::string name = printable(run.label);
    const auto [group, new_group] =
        group_at.emplace(std::pair(set->second, name), home.groups.size());
    if (new_group) home.groups.push_back({.name = name});
    RunGroup& at = home.groups[group->second];
    (run.published ? at.published : at.runs).push_back(i);
    // The reference, or a twin's reference, where it is full attention.
    std::size_t reference = i;
    for (int step = 0; step < 2 && reference_of.contains(reference); ++step) {
      reference = reference_of.at(reference);
      if (!c.runs[reference].control) continue;
      if (std::ranges::find(at.references, reference) == at.references.end()) {
        at.references.push_back(reference);
      }
      break;
    }
  }
  return sets;
}

std::vector<RunFigure> figures_of(const RunComparison& c, const RunSet& set) {
  std::vector<RunFigure> figures = {range_figure(c, set), map_figure(c, set),
                                    curves_figure(c, set, false)};
  RunFigure folded = curves_figure(c, set, true);
  if (!folded.panels.empty()) figures.push_back(std::move(folded));
  RunFigure cost = cost_figure(c, set);
  if (!cost.panels.empty()) figures.push_back(std::move(cost));
  return figures;
}

}  // namespace kvphase::report
