// The analysis of readout.h: plain numbers in, findings out.
#include <fmt/format.h>

#include <optional>

#include "base/random.h"
#include "lab/readout.h"
#include "lab/shared.h"
#include "stats/item_bootstrap.h"

namespace kvphase::lab {
namespace {

using base::Json;
using record::Figure;
using record::Findings;
using stats::Estimate;

// Counted per item and phase.
enum Count : std::size_t {
  kPrompts,
  kWrong,
  kNotFound,
  kNotWritten,
  kNotReadOut,
  kRight,
  kStaysWithEntry,
  kStaysWithToken,
  kLucky,
  kSteered,
  kCounts
};

// Below this share of right answers that survive being handed the entry, "not written" is said to
// be an upper bound.
constexpr double kSurvives = 0.9;

// Shares worked out of the counts, with what they are shares of.
struct Share {
  const char* name;
  Count part, whole;
};
constexpr std::array<Share, 7> kShares = {
    {{"not found", kNotFound, kWrong},
     {"not written", kNotWritten, kWrong},
     {"not read out", kNotReadOut, kWrong},
     {"stays right, entry handed", kStaysWithEntry, kRight},
     {"stays right, token handed", kStaysWithToken, kRight},
     {"right by luck, other entry", kLucky, kWrong},
     {"other record's answer, its token", kSteered, kPrompts}}};

std::array<bool, kCounts> counted(const ReadoutAnswers& a, std::size_t at) {
  const auto right = [&](Handed handed) {
    return a.right[static_cast<std::size_t>(handed)][at] != 0;
  };
  std::array<bool, kCounts> is{};
  const bool clean = right(Handed::kNothing);
  const bool entry = right(Handed::kEntry) || right(Handed::kAnyEntry);
  const bool token = right(Handed::kToken);
  is[kPrompts] = true;
  is[kRight] = clean;
  is[kWrong] = !clean;
  is[kNotFound] = !clean && entry;
  is[kNotWritten] = !clean && !entry && token;
  is[kNotReadOut] = !clean && !entry && !token;
  is[kStaysWithEntry] = clean && entry;
  is[kStaysWithToken] = clean && token;
  is[kLucky] = !clean && (right(Handed::kOtherEntry) || right(Handed::kAnyOtherEntry));
  is[kSteered] = right(Handed::kOtherToken);
  return is;
}

struct Analysis {
  std::vector<std::array<double, kCounts>> counts;           // [S + 1], the last of all phases
  std::vector<std::array<Estimate, kShares.size()>> shares;  // [S + 1]
  // "stays right, entry handed" by phase, weighed by the phase's wrong answers.
  Estimate survives_where_wrong;

  bool upper_bound() const {
    return !survives_where_wrong.value || *survives_where_wrong.value < kSurvives;
  }
};

std::optional<double> survival_where_wrong(std::span<const double> sums, std::size_t S) {
  double wrong = 0, survive = 0;
  for (std::size_t group = 0; group < S; ++group) {
    const std::span<const double> n = sums.subspan(group * kCounts, kCounts);
    if (n[kWrong] == 0) continue;
    if (n[kRight] == 0) return std::nullopt;
    wrong += n[kWrong];
    survive += n[kWrong] * n[kStaysWithEntry] / n[kRight];
  }
  return wrong > 0 ? std::optional(survive / wrong) : std::nullopt;
}

Analysis analyse(const ReadoutAnswers& a, const ReadoutOptions& options) {
  const auto R = static_cast<std::size_t>(a.modulus);
  const auto S = static_cast<std::size_t>(options.stride);
  const std::size_t columns = (S + 1) * kCounts;
  std::vector<double> rows(static_cast<std::size_t>(a.items) * columns);
  Analysis analysis;
  analysis.counts.resize(S + 1);
  for (std::size_t at = 0; at < a.right[0].size(); ++at) {
    const std::array<bool, kCounts> is = counted(a, at);
    for (const std::size_t group : {at % R % S, S}) {
      for (std::size_t c = 0; c < kCounts; ++c) {
        rows[at / R * columns + group * kCounts + c] += is[c] ? 1 : 0;
        analysis.counts[group][c] += is[c] ? 1 : 0;
      }
    }
  }
  const auto statistic = [&](std::span<const double> sums,
                             std::span<std::optional<double>> values) {
    for (std::size_t group = 0; group <= S; ++group) {
      for (std::size_t k = 0; k < kShares.size(); ++k) {
        const double whole = sums[group * kCounts + kShares[k].whole];
        if (whole > 0) {
          values[group * kShares.size() + k] = sums[group * kCounts + kShares[k].part] / whole;
        }
      }
    }
    values.back() = survival_where_wrong(sums, S);
  };
  std::vector<Estimate> found =
      stats::bootstrap_statistic(rows, columns, (S + 1) * kShares.size() + 1, statistic,
                                 {.replicates = options.replicates,
                                  .seed = base::derive_seed(options.seed, "readout.bootstrap")});
  analysis.survives_where_wrong = found.back();
  found.pop_back();
  analysis.shares.resize(S + 1);
  for (std::size_t i = 0; i < found.size(); ++i) {
    analysis.shares[i / kShares.size()][i % kShares.size()] = found[i];
  }
  return analysis;
}

std::string cell(const Estimate& e) { return estimate_cell(e, "{:.1f}", 100); }  // percent

std::string phase_name(std::size_t group, std::size_t S) {
  return group == S ? "all" : fmt::format("{}", group);
}

// Means of attention shares over the prompts of each phase; empty where there are none.
struct MeanShares {
  std::vector<std::optional<double>> answer, other, exact, sink;  // [S]
};
MeanShares mean_shares(const ReadoutAnswers& a, const Shares& shares, std::size_t S,
                       bool wrong_only) {
  const auto R = static_cast<std::size_t>(a.modulus);
  MeanShares mean;
  for (const auto& [values, means] : {std::pair(&shares.answer_entries, &mean.answer),
                                      {&shares.other_entries, &mean.other},
                                      {&shares.exact, &mean.exact},
                                      {&shares.sink, &mean.sink}}) {
    std::vector<double> sum(S), n(S);
    for (std::size_t at = 0; at < values->size(); ++at) {
      if (wrong_only && a.right[0][at] != 0) continue;
      sum[at % R % S] += (*values)[at];
      n[at % R % S] += 1;
    }
    means->resize(S);
    for (std::size_t phase = 0; phase < S; ++phase) {
      if (n[phase] > 0) (*means)[phase] = sum[phase] / n[phase];
    }
  }
  return mean;
}

Figure attention_map(const ReadoutAnswers& a, std::int64_t stride) {
  std::vector<MapRow> rows;
  const auto add = [&](const std::string& name, const std::vector<std::optional<double>>& values) {
    rows.push_back({.name = name});
    for (const auto& v : values) rows.back().cells.push_back(percent(v));
  };
  for (const Shares& shares : a.shares) {
    for (const bool wrong_only : {false, true}) {
      const MeanShares mean = mean_shares(a, shares, static_cast<std::size_t>(stride), wrong_only);
      const std::string who = fmt::format("layer {}{}", shares.layer, wrong_only ? ", wrong" : "");
      add(who + ": holds the answer", mean.answer);
      add(who + ": other entries", mean.other);
      add(who + ": exact tokens", mean.exact);
      if (!wrong_only) add(who + ": sink", mean.sink);
    }
  }
  return map_figure(
      {.id = "attention",
       .title = "Where the query's attention goes",
       .caption = "Shares of the softmax at the query position, mean over query heads. "
                  "\"Wrong\" rows: only prompts answered wrong.",
       .x_title = "phase",
       .y_title = "share of attention, %",
       .low = 0,
       .high = 100},
      stride, std::move(rows));
}

Figure cause_figure(const Analysis& analysis, std::int64_t stride) {
  std::vector<MapRow> rows;
  for (std::size_t k = 0; k < 3; ++k) {
    rows.push_back({.name = kShares[k].name});
    for (std::int64_t phase = 0; phase < stride; ++phase) {
      rows.back().cells.push_back(
          percent(analysis.shares[static_cast<std::size_t>(phase)][k].value));
    }
  }
  return map_figure(
      {.id = "causes",
       .title = "Wrong answers by cause",
       .caption = "Of the wrong answers of each phase, percent. Found by intervention: what "
                  "must be handed to the reading heads to make the answer right.",
       .x_title = "phase",
       .y_title = "of wrong answers, %",
       .low = 0,
       .high = 100},
      stride, std::move(rows));
}

Json data_of(const ReadoutAnswers& a, const ReadoutOptions& options, const Analysis& analysis) {
  const auto S = static_cast<std::size_t>(options.stride);
  Json phases = Json::array();
  for (std::size_t group = 0; group <= S; ++group) {
    const auto& n = analysis.counts[group];
    Json row = {{"phase", group == S ? Json("all") : Json(group)},
                {"prompts", n[kPrompts]},
                {"wrong", n[kWrong]},
                {"not_found", n[kNotFound]},
                {"not_written", n[kNotWritten]},
                {"not_read_out", n[kNotReadOut]}};
    if (group < S) row["reader"] = a.readers[a.reader_of_phase[group]].name;
    for (std::size_t k = 0; k < kShares.size(); ++k) {
      Json share = {{"name", kShares[k].name}};
      share.update(to_json(analysis.shares[group][k]));
      row["shares"].push_back(std::move(share));
    }
    phases.push_back(std::move(row));
  }
  Json readers = Json::array();
  for (std::size_t r = 0; r < a.readers.size(); ++r) {
    readers.push_back({{"name", a.readers[r].name}, {"answers_a_handed_token", a.calibrated[r]}});
  }
  return {{"stride", options.stride},
          {"readers", readers},
          {"phases", phases},
          {"stays_right_where_wrong", to_json(analysis.survives_where_wrong)},
          {"not_written_is_an_upper_bound",
           analysis.counts.back()[kWrong] > 0 ? Json(analysis.upper_bound()) : Json(nullptr)}};
}

std::string sentence_of(const std::string& model, const Analysis& analysis) {
  const auto& n = analysis.counts.back();
  if (n[kWrong] == 0) return fmt::format("{}: no answer is wrong.", model);
  const auto percent = [&](Count c) { return 100 * n[c] / n[kWrong]; };
  const Estimate& survives = analysis.survives_where_wrong;
  const bool bound = n[kNotWritten] > 0 && analysis.upper_bound();
  return fmt::format(
      "{}: of {:.0f} wrong answers of {:.0f}, {}{:.1f}% were not found (the entry held the "
      "answer), "
      "{}{:.1f}% not written (the exact token would have done) and {:.1f}% not read out; {}.",
      model, n[kWrong], n[kPrompts], bound ? "at least " : "", percent(kNotFound),
      bound ? "at most " : "", percent(kNotWritten), percent(kNotReadOut),
      survives.value
          ? fmt::format("of right answers, {:.1f}% survive being handed the entry at the phases of "
                        "the wrong ones",
                        100 * *survives.value)
          : "how many right answers survive being handed the entry there is unknown: none is right "
            "at a phase");
}

}  // namespace

Findings readout_findings(const ReadoutAnswers& a, const ReadoutOptions& options,
                          const record::RunContext& context) {
  const Analysis analysis = analyse(a, options);
  const auto S = static_cast<std::size_t>(options.stride);
  Findings findings{.kind = "readout",
                    .title = fmt::format("{}: where attention goes, and why answers are wrong",
                                         context.model_name),
                    .sentence = sentence_of(context.model_name, analysis),
                    .context = context};
  findings.options = {{"task", task::LookupTask(options.lookup).options()},
                      {"stride", options.stride},
                      {"calibration_prompts", options.calibration},
                      {"seed", options.seed},
                      {"replicates", options.replicates}};
  findings.data = data_of(a, options, analysis);
  findings.answers = answers_csv(
      a.modulus,
      {"clean", "entry", "token", "other entry", "other token's answer", "any entry",
       "any other entry"},
      {&a.right[0], &a.right[1], &a.right[2], &a.right[3], &a.right[4], &a.right[5], &a.right[6]});
  record::FindingsTable causes{
      .title = "Wrong answers by cause",
      .header = {"phase", "reading heads", "wrong", "of", "not found, %", "not written, %",
                 "not read out, %"},
      .note = "Of the phase's wrong answers; brackets: 95% bootstrap intervals over items."};
  const Estimate& survives = analysis.survives_where_wrong;
  if (survives.value) {
    causes.note += fmt::format(
        " Of right answers at these phases, weighed by the wrong ones, {}% survive being handed "
        "the "
        "entry{}.",
        cell(survives),
        analysis.upper_bound() ? ": not written is an upper bound, not found a lower one" : "");
  }
  record::FindingsTable checks{
      .title = "What a flip is worth",
      .header = {"phase", "stays right, entry handed, %", "stays right, token handed, %",
                 "wrong made right by another entry, %", "answers another record's token, %"},
      .note =
          "The first two should be near 100, the third near 0 (it is how often a cause would be "
          "found by luck), the last near 100 where the reading heads decide the answer."};
  for (std::size_t group = 0; group <= S; ++group) {
    const auto& n = analysis.counts[group];
    const auto& shares = analysis.shares[group];
    causes.rows.push_back({phase_name(group, S),
                           group < S ? a.readers[a.reader_of_phase[group]].name : "",
                           fmt::format("{:.0f}", n[kWrong]), fmt::format("{:.0f}", n[kPrompts]),
                           cell(shares[0]), cell(shares[1]), cell(shares[2])});
    checks.rows.push_back(
        {phase_name(group, S), cell(shares[3]), cell(shares[4]), cell(shares[5]), cell(shares[6])});
  }
  findings.tables = {std::move(causes), std::move(checks)};
  // A model that is always right has no causes to draw.
  if (analysis.counts.back()[kWrong] > 0) {
    findings.figures.push_back(cause_figure(analysis, options.stride));
  }
  findings.figures.push_back(attention_map(a, options.stride));
  findings.notes = {
      "Not found: handing the reading heads the value of the entry that holds the answer, as it "
      "was written, makes the answer right, or handing one KV head or layer its own. Not written: "
      "it takes the value that this entry would have if its gate had kept the answer's token "
      "alone. "
      "Not read out: neither does.",
      "Where right answers do not survive being handed the entry, a wrong answer that it does not "
      "mend may have had it written, too: then not written is an upper bound (below 90%, the "
      "sentence says so).",
      "The reading heads of a phase were chosen on other prompts: the KV head, or all heads of the "
      "layer, that most often answer another record's value when handed its exact token.",
      "A cause found by intervention says what would have been enough, not what the model would "
      "have done: a head that is handed one value reads nothing else.",
      "In full attention an entry is a token, so nothing can be \"not written\"."};
  return findings;
}

}  // namespace kvphase::lab
