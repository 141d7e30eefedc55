#include "report/run_comparison.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/clock.h"
#include "report/text.h"

namespace kvphase::report {
namespace {

using record::ComparedRun;
using record::PairedRuns;
using record::RunComparison;
using record::TestedDifference;

std::string csv_text(const std::string& text) {
  if (text.find_first_of(",\"\n\r") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

template <typename T>
std::string csv_number(const std::optional<T>& value) {
  return value ? fmt::format("{}", *value) : std::string();
}

std::string row_of(const std::vector<std::string>& cells) {
  return fmt::format("{}\n", fmt::join(cells, ","));
}

// Columns as wide as their longest cell; the first is text, the others numbers.
std::string aligned(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> width;
  for (const auto& row : rows) {
    width.resize(std::max(width.size(), row.size()));
    for (std::size_t c = 0; c < row.size(); ++c) width[c] = std::max(width[c], row[c].size());
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line = fmt::format("{:<{}}", row.front(), width.front());
    for (std::size_t c = 1; c < row.size(); ++c) line += fmt::format("  {:>{}}", row[c], width[c]);
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

// Normal tails say nothing about chances much smaller.
std::string tested_p(std::optional<double> p) {
  if (!p) return "-";
  return *p < 1e-6 ? "<1e-06" : fmt::format("{:.2g}", *p);
}

std::string signed_points(double share) {
  std::string text = fmt::format("{:+.1f}", 100 * share);
  return text == "-0.0" ? "+0.0" : text;
}

}  // namespace

std::string padding_text(const ComparedRun& run) {
  const std::string& padding = run.result.design.padding;
  return padding.empty() ? "not stated" : printable(padding);
}

std::string found_text(const ComparedRun& run) {
  switch (run.result.verdict.kind) {
    case record::VerdictKind::kPeriodic:
      break;
    case record::VerdictKind::kNoPeriod:
      return "none";
    case record::VerdictKind::kNotLearned:
      return "not learned";
    case record::VerdictKind::kInconclusive:
      return "unclear";
  }
  if (!run.result.period.value) return "unclear";
  if (!run.stride || run.stride == run.result.period.value) {
    return fmt::format("{}", *run.result.period.value);
  }
  return fmt::format("{} (stride {})", *run.result.period.value, *run.stride);
}

std::string number_text(std::optional<double> share) {
  return share ? fmt::format("{:.1f}", 100 * *share) : std::string("-");
}

std::string amount_text(std::optional<std::int64_t> count) {
  if (!count) return "-";
  const auto value = static_cast<double>(*count);
  for (const auto& [unit, name] : {std::pair(1e9, "B"), std::pair(1e6, "M"), std::pair(1e3, "K")}) {
    if (value >= unit) return fmt::format("{:.3g}{}", value / unit, name);
  }
  return fmt::format("{}", *count);
}

std::string bytes_text(const ComparedRun& run) {
  const auto& bytes = run.cache.bytes_per_token;
  return bytes ? fmt::format("{:.4g}", *bytes) : std::string("-");
}

bool tokens_differ(const RunComparison& c) {
  return std::ranges::any_of(c.pairs,
                             [](const PairedRuns& pair) { return pair.tokens.value_or(0) != 0; });
}

std::string token_difference_text(const PairedRuns& pair) {
  return pair.tokens ? fmt::format("{:+.1f}", *pair.tokens) : std::string("-");
}

std::string duration_text(std::optional<double> seconds) {
  return seconds ? base::format_duration(*seconds) : std::string("-");
}

std::string tested_text(const TestedDifference& d) {
  if (!d.estimate.value) return "-";
  std::string text = signed_points(*d.estimate.value);
  if (d.estimate.low && d.estimate.high) {
    text +=
        fmt::format(" [{} to {}]", signed_points(*d.estimate.low), signed_points(*d.estimate.high));
  }
  return text;
}

std::string run_comparison_text(const RunComparison& c) {
  std::string text = printable(c.sentence) + "\n\n";
  std::vector<std::vector<std::string>> rows = {{"run", "mean %", "worst %", "gap", "noise",
                                                 "period", "B/token", "parameters", "tokens",
                                                 "trained"}};
  for (const ComparedRun& run : c.runs) {
    const record::Result& r = run.result;
    rows.push_back({printable(run.name), number_text(r.mean.value),
                    number_text(r.worst.estimate.value), number_text(r.gap.estimate.value),
                    number_text(r.gap.noise), found_text(run), bytes_text(run),
                    amount_text(run.parameters), amount_text(run.training.tokens),
                    duration_text(run.training.seconds)});
  }
  text += aligned(rows);
  if (!c.pairs.empty()) {
    text += fmt::format(
        "\nAgainst the reference on the same {}, points; p corrected for {} tests (Holm); items "
        "+/-: with more right answers than the reference, and with fewer{}\n",
        tokens_differ(c) ? "items and residues" : "prompts", c.tests,
        tokens_differ(c) ? "; tokens: sent per answer" : "");
    const bool tokens = tokens_differ(c);
    rows = {{"run - reference", "mean", "p", "worst", "p", "gap", "p", "items +/-", "p"}};
    if (tokens) rows.front().push_back("tokens");
    for (const PairedRuns& pair : c.pairs) {
      std::vector<std::string> row = {fmt::format("{} - {}", printable(c.runs[pair.run].name),
                                                  printable(c.runs[pair.reference].name))};
      for (const TestedDifference* d : {&pair.mean, &pair.worst, &pair.gap}) {
        row.push_back(tested_text(*d));
        row.push_back(tested_p(d->p_holm));
      }
      row.push_back(fmt::format("{}/{}", pair.items_for_run, pair.items_for_reference));
      row.push_back(tested_p(pair.p_items_holm));
      if (tokens) row.push_back(token_difference_text(pair));
      rows.push_back(std::move(row));
    }
    text += aligned(rows);
  }
  if (!c.notes.empty()) text += "\n";
  for (const std::string& note : c.notes) text += "Note: " + printable(note) + "\n";
  return text;
}

std::string runs_csv(const RunComparison& c) {
  std::string csv =
      "name,published,design,variant,seed,padding,mitigation,tokens_per_answer,modulus,items,"
      "score,mean,mean_low,mean_high,worst,worst_low,worst_high,"
      "worst_residue,best,gap,gap_low,gap_high,noise_gap,gap_p,period,period_p,verdict,window,"
      "stride,worst_phase,"
      "worst_phase_accuracy,phase_gap,bytes_per_token,cache_tokens,parameters,training_steps,"
      "training_tokens,training_seconds,training_loss,folder\n";
  for (const ComparedRun& run : c.runs) {
    const record::Result& r = run.result;
    const auto& folded = r.folded;
    csv += row_of({csv_text(run.name),
                   run.published ? "1" : "0",
                   csv_text(run.design),
                   csv_text(run.variant),
                   csv_number(run.seed),
                   csv_text(r.design.padding),
                   csv_text(r.design.mitigation),
                   csv_number(r.design.tokens_per_answer),
                   fmt::format("{}", r.design.modulus),
                   r.design.items > 0 ? fmt::format("{}", r.design.items) : "",
                   csv_text(r.score),
                   csv_number(r.mean.value),
                   csv_number(r.mean.low),
                   csv_number(r.mean.high),
                   csv_number(r.worst.estimate.value),
                   csv_number(r.worst.estimate.low),
                   csv_number(r.worst.estimate.high),
                   csv_number(r.worst.group),
                   csv_number(r.best.estimate.value),
                   csv_number(r.gap.estimate.value),
                   csv_number(r.gap.estimate.low),
                   csv_number(r.gap.estimate.high),
                   csv_number(r.gap.noise),
                   csv_number(r.gap.p_value),
                   csv_number(r.period.value),
                   csv_number(r.period.p_value),
                   std::string(record::name_of(r.verdict.kind)),
                   csv_number(run.window),
                   csv_number(run.stride),
                   folded ? csv_number(folded->worst.group) : "",
                   folded ? csv_number(folded->worst.estimate.value) : "",
                   folded ? csv_number(folded->gap.estimate.value) : "",
                   csv_number(run.cache.bytes_per_token),
                   run.cache.bytes_per_token ? fmt::format("{}", run.cache.tokens) : "",
                   csv_number(run.parameters),
                   csv_number(run.training.steps),
                   csv_number(run.training.tokens),
                   csv_number(run.training.seconds),
                   csv_number(run.training.loss),
                   csv_text(run.folder)});
  }
  return csv;
}

std::string pairs_csv(const RunComparison& c) {
  std::string csv = "run,reference,rule,items,prompts,modulus";
  for (const char* what : {"mean", "worst", "gap"}) {
    csv += fmt::format(",{0},{0}_low,{0}_high,{0}_p,{0}_p_holm", what);
  }
  csv += ",tokens,only_run,only_reference,items_for_run,items_for_reference,p_items,p_items_holm\n";
  for (const PairedRuns& pair : c.pairs) {
    std::vector<std::string> row = {csv_text(c.runs[pair.run].name),
                                    csv_text(c.runs[pair.reference].name),
                                    pair.rule,
                                    fmt::format("{}", pair.items),
                                    fmt::format("{}", pair.prompts),
                                    fmt::format("{}", pair.modulus)};
    for (const TestedDifference* d : {&pair.mean, &pair.worst, &pair.gap}) {
      for (const auto& value :
           {d->estimate.value, d->estimate.low, d->estimate.high, d->p, d->p_holm}) {
        row.push_back(csv_number(value));
      }
    }
    row.push_back(csv_number(pair.tokens));
    for (const std::int64_t count :
         {pair.only_run, pair.only_reference, pair.items_for_run, pair.items_for_reference}) {
      row.push_back(fmt::format("{}", count));
    }
    row.push_back(csv_number(pair.p_items));
    row.push_back(csv_number(pair.p_items_holm));
    csv += row_of(row);
  }
  return csv;
}

}  // namespace kvphase::report
