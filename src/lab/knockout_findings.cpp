// The analysis of knockout.h: plain numbers in, findings out.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <set>

#include "lab/knockout_analysis.h"
#include "lab/shared.h"

namespace kvphase::lab {
namespace {

using base::Json;
using record::Figure;
using record::Findings;
using stats::Estimate;

constexpr double kDeepest = 100;  // of the map's colours, percent

std::string name_of(Replacement replacement) {
  switch (replacement) {
    case Replacement::kZero:
      return "zero";
    case Replacement::kResample:
      return "resample";
    case Replacement::kMean:
      break;
  }
  return "mean";
}

Json json_of(const PhaseTest& test) {
  return {{"p", base::number_or_null(test.p)},
          {"p_holm", base::number_or_null(test.p_holm)},
          {"reason", test.reason}};
}

Json tallies(const KnockoutAnswers& a, const std::vector<SiteResult>& results,
             PhaseTest SiteResult::*test) {
  Json json;
  for (const bool layers : {false, true}) {
    const Tally t = tally(a, results, layers, test);
    json[layers ? "layers" : "heads"] = {
        {"significant", t.found}, {"tested", t.tested}, {"all", t.all}};
  }
  return json;
}

Json data_of(const KnockoutAnswers& a, const std::vector<SiteResult>& results,
             const std::vector<double>& clean, std::int64_t stride) {
  Json residues = Json::array();
  for (std::size_t r = 0; r < clean.size(); ++r) {
    residues.push_back({{"residue", r},
                        {"n", a.items},
                        {"right", clean[r]},
                        {"accuracy", clean[r] / static_cast<double>(a.items)}});
  }
  Json sites = Json::array();
  for (std::size_t s = 0; s < results.size(); ++s) {
    const Site& site = a.sites[s];
    const SiteResult& result = results[s];
    Json by_residue = Json::array();
    for (const auto& value : result.by_residue) by_residue.push_back(base::number_or_null(value));
    Json phases = Json::array();
    for (const Estimate& e : result.phases) phases.push_back(to_json(e));
    sites.push_back(
        {{"name", site.name},
         {"layer", site.layer},
         {"first_query_head", site.first_head},
         {"query_heads", site.heads},
         {"whole_layer", site.whole_layer},
         {"change_by_residue", by_residue},
         {"change_by_phase", phases},
         {"mean_change", to_json(result.mean)},
         {"net_change_points", to_json(result.points)},
         {"largest_loss_minus_mean", to_json(result.concentrated)},
         {"largest_loss_minus_mean_crossed", to_json(result.crossed)},
         {"largest_loss_at_phase", result.worst_phase ? Json(*result.worst_phase) : Json(nullptr)},
         {"depends_on_phase", result.net.p ? Json(depends_on_phase(result)) : Json(nullptr)},
         {"net_depends_on_phase", json_of(result.net)},
         {"loss_depends_on_phase", json_of(result.lost)}});
  }
  return {{"stride", stride},
          {"unit", "percent of clean accuracy"},
          {"interval", results.empty() ? "" : results.front().mean.method},
          {"level", kKnockoutLevel},
          {"net_depends_on_phase", tallies(a, results, &SiteResult::net)},
          {"loss_depends_on_phase", tallies(a, results, &SiteResult::lost)},
          {"clean", residues},
          {"sites", sites}};
}

Figure map_of(const KnockoutAnswers& a, const std::vector<SiteResult>& results,
              std::int64_t stride) {
  std::vector<MapRow> rows;
  for (std::size_t s = 0; s < results.size(); ++s) {
    rows.push_back({.name = a.sites[s].name});
    for (const Estimate& e : results[s].phases) rows.back().cells.push_back(e.value);
  }
  return map_figure(
      {.id = "map",
       .title = "Change of accuracy by knocked-out head or layer and phase",
       .caption = "Red: right answers are lost; a row that is red at some phases only is a "
                  "head that those phases depend on.",
       .x_title = "phase",
       .y_title = "change, % of clean accuracy",
       .low = -kDeepest,
       .high = kDeepest},
      stride, std::move(rows));
}

std::string points(const Estimate& e) { return estimate_cell(e, "{:+.1f}"); }

record::FindingsTable table_of(const KnockoutAnswers& a, const std::vector<SiteResult>& results) {
  std::vector<std::size_t> order(results.size());
  std::iota(order.begin(), order.end(), 0U);
  std::ranges::stable_sort(order, [&](std::size_t x, std::size_t y) {
    constexpr double kLast = -1e9;
    return results[x].crossed.value.value_or(kLast) > results[y].crossed.value.value_or(kLast);
  });
  record::FindingsTable table{
      .title = "Heads and layers, most phase-concentrated first",
      .header = {"knocked out", "net change, points", "at phase", "largest loss, %",
                 "minus mean loss", "crossed", "p net", "p lost", "depends on phase"},
      .note =
          "Net change: of accuracy, percentage points of all prompts, gains and losses together. "
          "Losses: net too, percent of clean accuracy. Brackets: 95% bootstrap intervals over "
          "items; of minus mean loss percentiles of a maximum, which resampling pushes up. The "
          "largest of several losses exceeds their mean by chance, too; crossed: the "
          "same, the phase chosen in one half of the items and measured in the other (0 where "
          "phases are alike). p, corrected over all rows (Holm): net, that every phase keeps the "
          "same share of what its accuracy exceeds a guess by; lost, that it keeps the same share "
          "of its right answers. -: cannot be tested. Depends on phase: p net is at most the level "
          "and the interval of crossed lies above 0."};
  for (const std::size_t s : order) {
    const SiteResult& r = results[s];
    table.rows.push_back(
        {a.sites[s].name, points(r.points), r.worst_phase ? fmt::format("{}", *r.worst_phase) : "-",
         r.worst_phase ? points(r.phases[static_cast<std::size_t>(*r.worst_phase)]) : "-",
         points(r.concentrated), points(r.crossed), p_cell(r.net.p_holm), p_cell(r.lost.p_holm),
         !r.net.p              ? "-"
         : depends_on_phase(r) ? "yes"
                               : "not shown"});
  }
  return table;
}

record::FindingsTable clean_table(const std::vector<double>& clean, std::int64_t items,
                                  std::int64_t stride) {
  record::FindingsTable table{.title = "Clean accuracy by phase",
                              .header = {"phase", "right", "of", "accuracy, %"},
                              .note =
                                  "Where little is right to begin with, a relative change is "
                                  "noisy: see its interval."};
  for (std::int64_t phase = 0; phase < stride; ++phase) {
    double right = 0;
    std::int64_t n = 0;
    for (std::size_t r = static_cast<std::size_t>(phase); r < clean.size();
         r += static_cast<std::size_t>(stride)) {
      right += clean[r];
      n += items;
    }
    table.rows.push_back({fmt::format("{}", phase), fmt::format("{:.0f}", right),
                          fmt::format("{}", n),
                          fmt::format("{:.1f}", 100 * right / static_cast<double>(n))});
  }
  return table;
}

// "4 of 5 heads tested (of 8)"
std::string counted(const Tally& t, const char* what) {
  if (t.tested == 0) return fmt::format("none of the {} {} could be tested", t.all, what);
  if (t.tested == t.all) return fmt::format("{} of {} {}", t.found, t.all, what);
  return fmt::format("{} of {} {} tested (of {})", t.found, t.tested, what, t.all);
}

std::string sentence_of(const std::string& model, const KnockoutAnswers& a,
                        const std::vector<SiteResult>& results) {
  const Tally heads = tally(a, results, false, &SiteResult::net);
  const Tally layers = tally(a, results, true, &SiteResult::net);
  if (heads.tested + layers.tested == 0) {
    std::set<std::string> reasons;
    for (const SiteResult& r : results) reasons.insert(r.net.reason);
    return fmt::format(
        "{}: whether the net change of accuracy depends on phase could be tested for none of {}{} "
        "layers ({}).",
        model, heads.all > 0 ? fmt::format("{} heads and ", heads.all) : "", layers.all,
        fmt::join(reasons, "; "));
  }
  std::optional<std::size_t> top;
  for (std::size_t s = 0; s < results.size(); ++s) {
    if (!depends_on_phase(results[s])) continue;
    if (!top || *results[s].crossed.value > *results[*top].crossed.value) top = s;
  }
  std::string text = fmt::format(
      "{}: the net change of accuracy depends on phase (corrected p at most {:g}, and the largest "
      "loss above the mean loss on items that did not choose its phase): ",
      model, kKnockoutLevel);
  if (heads.all > 0) text += counted(heads, "heads") + ", ";
  text += counted(layers, "layers");
  if (!top) return text + ".";
  const SiteResult& r = results[*top];
  return text + fmt::format("; most concentrated: {}, {:+.1f}% at phase {}, {:+.1f}% on average.",
                            a.sites[*top].name,
                            *r.phases[static_cast<std::size_t>(*r.worst_phase)].value,
                            *r.worst_phase, *r.mean.value);
}

}  // namespace

Findings knockout_findings(const KnockoutAnswers& a, const KnockoutOptions& options,
                           const record::RunContext& context) {
  check_stride(options.stride, a.modulus, "knockout");
  const std::vector<SiteResult> results = analyse(a, options);
  std::vector<double> clean(static_cast<std::size_t>(a.modulus));
  for (std::size_t at = 0; at < a.clean.size(); ++at) clean[at % clean.size()] += a.clean[at];

  Findings findings{.kind = "knockout",
                    .title = fmt::format("{}: knockouts at the query position, {} replacement",
                                         context.model_name, name_of(options.replacement)),
                    .sentence = sentence_of(context.model_name, a, results),
                    .context = context};
  findings.options = {
      {"task", task::LookupTask(options.lookup).options()},
      {"stride", options.stride},
      {"replacement", name_of(options.replacement)},
      {"calibration_prompts", options.replacement == Replacement::kZero ? 0 : options.calibration},
      {"seed", options.seed},
      {"replicates", options.replicates},
      {"permutations", options.permutations}};
  findings.data = data_of(a, results, clean, options.stride);
  std::vector<std::string> names = {"clean"};
  std::vector<const std::vector<std::uint8_t>*> columns = {&a.clean};
  for (std::size_t s = 0; s < a.sites.size(); ++s) {
    names.push_back(a.sites[s].name);
    columns.push_back(&a.knocked[s]);
  }
  findings.answers = answers_csv(a.modulus, names, columns);
  findings.tables = {table_of(a, results), clean_table(clean, a.items, options.stride)};
  findings.figures = {map_of(a, results, options.stride)};
  findings.notes = {
      "A knockout replaces a head's output at the query position only. Everything before that "
      "position stays as it was, so it shows what the query reads through this head, not what the "
      "head did while the prompt was read.",
      "Relative change per residue is averaged over the residues of a phase. It is noisy where "
      "little was right without the knockout.",
      "The sentence counts heads and layers whose net change depends on phase: gains (wrong "
      "answers made right) count against losses, the corrected p is at most the level, and the "
      "interval of the crossed largest loss minus the mean lies above 0. A head that costs every "
      "phase the same share of what its accuracy exceeds a guess by does not depend on phase, "
      "however much it costs; nor does a layer without which every phase guesses alike.",
      "The other test looks only at prompts that are right without the knockout. It also finds "
      "heads that make as many wrong answers right as right ones wrong, where phases differ in how "
      "near their answers are to the margin: it says that phases are fragile, not that the head "
      "serves one.",
      "A layer of a single head stands once, as the layer."};
  return findings;
}

}  // namespace kvphase::lab
