// The analysis of knockout.h: plain numbers in, findings out.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>

#include "base/error.h"
#include "base/random.h"
#include "lab/knockout.h"
#include "lab/shared.h"
#include "stats/item_bootstrap.h"
#include "stats/paired.h"
#include "stats/period.h"
#include "stats/score_table.h"

namespace kvphase::lab {
namespace {

using base::Json;
using record::Figure;
using record::Findings;
using stats::Estimate;
using Values = std::vector<std::optional<double>>;

constexpr double kLevel = 0.05;
constexpr double kDeepest = 100;  // of the map's colours, percent

// 100 (knocked - clean) / clean per residue; empty where nothing was right.
Values changes(std::span<const double> clean, std::span<const double> knocked) {
  Values change(clean.size());
  for (std::size_t r = 0; r < clean.size(); ++r) {
    if (clean[r] > 0) change[r] = 100 * (knocked[r] - clean[r]) / clean[r];
  }
  return change;
}

// The mean over the residues of each phase; empty where a residue is.
Values folded(const Values& by_residue, std::size_t stride) {
  Values by_phase(stride);
  for (std::size_t phase = 0; phase < stride; ++phase) {
    double sum = 0, count = 0;
    bool whole = true;
    for (std::size_t r = phase; r < by_residue.size(); r += stride) {
      whole = whole && by_residue[r].has_value();
      sum += by_residue[r].value_or(0);
      count += 1;
    }
    if (whole && count > 0) by_phase[phase] = sum / count;
  }
  return by_phase;
}

std::optional<double> mean(const Values& values) {
  double sum = 0;
  for (const auto& value : values) {
    if (!value) return std::nullopt;
    sum += *value;
  }
  return values.empty() ? std::nullopt : std::optional(sum / static_cast<double>(values.size()));
}

// Largest loss minus mean loss, and where it is.
struct Concentration {
  std::optional<double> points;
  std::optional<std::int64_t> phase;
};
Concentration concentration(const Values& change) {
  const auto average = mean(change);
  if (!average) return {};
  const auto lowest = std::ranges::min_element(change);
  return {.points = *average - **lowest, .phase = lowest - change.begin()};
}

struct SiteResult {
  Values by_residue;
  std::vector<Estimate> phases;  // S
  Estimate mean;
  Estimate concentrated;  // largest loss minus mean loss
  std::optional<std::int64_t> worst_phase;
  std::optional<double> p;  // its loss depends on phase
  std::string p_reason;
  std::optional<double> p_holm;
};

// items x (1 + sites) R sums: the clean answers first.
std::vector<double> item_rows(const KnockoutAnswers& a) {
  const auto R = static_cast<std::size_t>(a.modulus);
  const std::size_t columns = R * (1 + a.sites.size());
  std::vector<double> rows(static_cast<std::size_t>(a.items) * columns);
  for (std::size_t item = 0; item < static_cast<std::size_t>(a.items); ++item) {
    for (std::size_t r = 0; r < R; ++r) {
      const std::size_t at = item * R + r;
      rows[item * columns + r] = a.clean[at];
      for (std::size_t s = 0; s < a.sites.size(); ++s) {
        rows[item * columns + (s + 1) * R + r] = a.knocked[s][at];
      }
    }
  }
  return rows;
}

std::vector<SiteResult> estimate(const KnockoutAnswers& a, const KnockoutOptions& options) {
  const auto R = static_cast<std::size_t>(a.modulus);
  const auto S = static_cast<std::size_t>(options.stride);
  const std::size_t per_site = S + 2;  // phases, mean, concentration
  const auto statistic = [&](std::span<const double> sums,
                             std::span<std::optional<double>> values) {
    for (std::size_t s = 0; s < a.sites.size(); ++s) {
      const Values change = folded(changes(sums.first(R), sums.subspan((s + 1) * R, R)), S);
      std::ranges::copy(change, values.begin() + static_cast<std::ptrdiff_t>(s * per_site));
      values[s * per_site + S] = mean(change);
      values[s * per_site + S + 1] = concentration(change).points;
    }
  };
  const std::vector<double> rows = item_rows(a);
  const std::size_t columns = R * (1 + a.sites.size());
  const std::vector<Estimate> estimates =
      stats::bootstrap_statistic(rows, columns, per_site * a.sites.size(), statistic,
                                 {.replicates = options.replicates,
                                  .seed = base::derive_seed(options.seed, "knockout.bootstrap")});
  std::vector<double> sums(columns);
  for (std::size_t i = 0; i < rows.size(); ++i) sums[i % columns] += rows[i];
  std::vector<SiteResult> results(a.sites.size());
  for (std::size_t s = 0; s < results.size(); ++s) {
    const auto first = estimates.begin() + static_cast<std::ptrdiff_t>(s * per_site);
    SiteResult& site = results[s];
    site.by_residue = changes(std::span(sums).first(R), std::span(sums).subspan((s + 1) * R, R));
    site.phases.assign(first, first + static_cast<std::ptrdiff_t>(S));
    site.mean = estimates[s * per_site + S];
    site.concentrated = estimates[s * per_site + S + 1];
    site.worst_phase = concentration(folded(site.by_residue, S)).phase;
  }
  return results;
}

// Which of an item's right answers stay right: does that follow the phase?
void test_sites(std::vector<SiteResult>& results, const KnockoutAnswers& a,
                const KnockoutOptions& options) {
  std::vector<double> tested;
  std::vector<std::size_t> of;
  for (std::size_t s = 0; s < results.size(); ++s) {
    std::vector<stats::ScoreRow> rows;
    for (std::size_t at = 0; at < a.clean.size(); ++at) {
      if (a.clean[at] == 0) continue;
      rows.push_back({.item = static_cast<std::int64_t>(at) / a.modulus,
                      .position = a.position[at],
                      .score = static_cast<double>(a.knocked[s][at])});
    }
    const stats::PeriodResult test =
        stats::find_period(stats::make_score_table(std::move(rows), "knockout"),
                           {.min_period = options.stride,
                            .max_period = options.stride,
                            .permutations = options.permutations,
                            .other_permutations = 199,  // of nulls that are not read here
                            .seed = base::derive_seed(options.seed, "knockout.permutation", {s}),
                            .always_second = false});
    if (test.candidates.empty()) {
      results[s].p_reason = test.reason.empty() ? "no item varies" : test.reason;
      continue;
    }
    results[s].p = test.candidates.front().p_raw;
    tested.push_back(*results[s].p);
    of.push_back(s);
  }
  const std::vector<double> adjusted = stats::holm(tested);
  for (std::size_t i = 0; i < of.size(); ++i) results[of[i]].p_holm = adjusted[i];
}

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
         {"largest_loss_minus_mean", to_json(result.concentrated)},
         {"largest_loss_at_phase", result.worst_phase ? Json(*result.worst_phase) : Json(nullptr)},
         {"p", base::number_or_null(result.p)},
         {"p_reason", result.p_reason},
         {"p_holm", base::number_or_null(result.p_holm)}});
  }
  return {{"stride", stride},
          {"unit", "percent of clean accuracy"},
          {"interval", results.empty() ? "" : results.front().mean.method},
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
    return results[x].concentrated.value.value_or(-1) > results[y].concentrated.value.value_or(-1);
  });
  record::FindingsTable table{
      .title = "Heads and layers, most phase-concentrated first",
      .header = {"knocked out", "mean change, %", "at phase", "largest loss, %",
                 "largest minus mean loss", "p", "p, Holm"},
      .note =
          "Percent of clean accuracy; brackets: 95% bootstrap intervals over items. p: "
          "permutation test, inside items, that the share of right answers that stay right is "
          "the same at every phase; Holm: corrected over all rows."};
  for (const std::size_t s : order) {
    const SiteResult& r = results[s];
    table.rows.push_back(
        {a.sites[s].name, points(r.mean), r.worst_phase ? fmt::format("{}", *r.worst_phase) : "-",
         r.worst_phase ? points(r.phases[static_cast<std::size_t>(*r.worst_phase)]) : "-",
         points(r.concentrated), p_cell(r.p), p_cell(r.p_holm)});
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

std::string sentence_of(const std::string& model, const KnockoutAnswers& a,
                        const std::vector<SiteResult>& results) {
  std::int64_t heads = 0, layers = 0, heads_found = 0, layers_found = 0;
  std::optional<std::size_t> top;
  for (std::size_t s = 0; s < results.size(); ++s) {
    const bool found = results[s].p_holm && *results[s].p_holm <= kLevel;
    (a.sites[s].whole_layer ? layers : heads) += 1;
    (a.sites[s].whole_layer ? layers_found : heads_found) += found ? 1 : 0;
    if (!found || !results[s].concentrated.value) continue;
    if (!top || *results[s].concentrated.value > *results[*top].concentrated.value) top = s;
  }
  std::string text = fmt::format("{}: the loss of ", model);
  if (heads > 0) text += fmt::format("{} of {} heads and ", heads_found, heads);
  text += fmt::format("{} of {} layers depends on phase (level {:g} after correction)",
                      layers_found, layers, kLevel);
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
  std::vector<SiteResult> results = estimate(a, options);
  test_sites(results, a, options);
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
      "The test looks only at prompts that are right without the knockout: a head that costs every "
      "phase the same share is not phase-dependent, however much it costs. Gains are not tested.",
      "A layer of a single head stands once, as the layer."};
  return findings;
}

}  // namespace kvphase::lab
