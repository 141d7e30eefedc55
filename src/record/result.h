// What an audit or an analysis found: the one record that reports read (result.json). Shares are
// fractions 0..1, log-probabilities nats, p-values 0..1. Undefined is empty with a reason, never 0
// and never NaN.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "record/context.h"
#include "record/contrasts.h"
#include "record/estimate.h"

namespace kvphase::record {

inline constexpr const char* kResultSchema = "kvphase.result/1";

// Best minus worst, with what noise alone would show.
struct Gap {
  Estimate estimate;                 // raw gap; biased upwards when phases are alike
  std::optional<double> noise;       // expected gap if all groups were equal
  std::optional<double> noise_high;  // its 95th percentile
  std::optional<double> p_value;     // P(noise gives a gap as large)
  std::optional<double>
      cross_fitted;  // best and worst chosen on one half of the items, measured on the other
  std::string cross_fitted_reason;  // why it is empty
  std::string noise_method;         // with the reason why noise and p_value are empty
};

struct Group {  // a residue (mod R) or a phase (mod S)
  std::int64_t index = 0;
  std::int64_t planned = 0;             // prompts planned
  std::int64_t n = 0;                   // prompts scored
  std::optional<std::int64_t> correct;  // of n; empty when the score is continuous
  std::optional<double> accuracy;       // correct / n; mean score when continuous; empty when n = 0
  std::optional<double> low;            // interval: Wilson for shares
  std::optional<double> high;
  std::optional<double> mean_logprob;  // nats, over observations that carry one
  std::optional<double>
      worst_share;        // share of bootstrap replicates in which this group is the worst
  bool boundary = false;  // phase S-1 when S = W (residues: the same by phase)
  std::string reason;     // why something above is empty, unless the score is continuous
};

// Worst or best group of a curve. `group` is empty when the value is.
struct Extreme {
  Estimate estimate;
  std::optional<std::int64_t> group;
};

struct PeriodCandidate {
  std::int64_t period = 0;
  double statistic = 0;   // F of epoch folding
  double p_raw = 1;       // its own permutation p-value
  double p_adjusted = 1;  // min-p over all candidates
};

// Is the smaller of two nested periods enough?
struct NestedPeriods {
  std::int64_t from = 0;  // the smaller period, taken as true under the null
  std::int64_t to = 0;    // a multiple of it
  double p = 1;           // of what it adds
};

struct Period {
  std::optional<std::int64_t> value;  // empty: none found
  std::optional<double>
      p_value;  // adjusted p of the chosen (or best) candidate; empty: not testable
  std::optional<double> p_second;  // under the second null, where it applies
  std::string second_null;         // what the second null keeps
  std::string p_second_reason;     // why p_second is empty
  std::optional<double> p_misfit;  // do positions differ beyond the period?
  std::string p_misfit_reason;     // why it, and p_fit, are empty
  std::optional<double> p_fit;     // do phases differ more than positions inside a phase?
  double level = 0.05;
  std::vector<PeriodCandidate> candidates;
  std::vector<NestedPeriods> nested;  // in the order they were compared
  std::string method;                 // "item-level ..." or "counts only ..."
  std::string reason;                 // why there is no test, or what it cannot know
};

// The curve folded to a stride.
struct Folded {
  std::int64_t stride = 0;
  std::string source;  // "model" | "detected" | "given"
  std::vector<Group> phases;
  Extreme worst;
  Extreme best;
  Gap gap;
};

// The gap between two groups chosen on one data set, measured on another.
struct Confirmation {
  std::string data;         // the fresh data set's name
  std::int64_t stride = 0;  // groups are position mod stride
  std::int64_t worst = 0;   // of the first data set
  std::int64_t best = 0;
  std::optional<double> worst_value;  // in the fresh data
  std::optional<double> best_value;
  Estimate gap;         // best - worst in the fresh data; may be negative
  std::int64_t n = 0;   // items with both groups, or prompts of both
  std::string outcome;  // "confirmed" | "not confirmed" | "reversed"
  std::string sentence;
};

// The same test on a continuous score beside the right/wrong one.
struct ScoreSummary {
  std::string name;  // "logprob" | "margin"
  std::int64_t n = 0;
  std::optional<double> mean;
  std::vector<std::optional<double>> residue_means;  // R of them
  std::string reason;                                // why a mean is empty
  Period period;
};

struct PositionCheck {
  bool checked = false;
  bool ok = false;
  bool query_position_fixed = false;
  bool length_fixed = false;
  double mean_low = 0;  // smallest and largest mean target position over residues, tokens
  double mean_high = 0;
  double variance_low = 0;  // the same for the variance, tokens^2
  double variance_high = 0;
  std::string note;
};

enum class VerdictKind {
  kPeriodic,      // a period was found
  kNoPeriod,      // tested, none found
  kNotLearned,    // the model cannot do the task, so flatness means nothing
  kInconclusive,  // too little or no data for a test
};

struct Verdict {
  VerdictKind kind = VerdictKind::kInconclusive;
  std::string sentence;   // one sentence with the numbers
  std::string next_step;  // what the reader should do now
};

// One phase or residue before a requirement on the worst.
struct GateGroup {
  std::int64_t index = 0;
  std::int64_t n = 0;          // planned: scored and missing
  std::int64_t correct = 0;    // of the scored
  std::int64_t missing = 0;    // counted wrong in `low`, right in `high`
  std::optional<double> low;   // bounds that the outcome rests on; empty in a sequential audit
  std::optional<double> high;  // (e-values decide there)
  std::string outcome;         // "pass" | "fail" | "inconclusive", of this group alone

  bool operator==(const GateGroup&) const = default;
};

// What the user demands of the model, and whether the data show it.
struct Requirement {
  std::string text;               // as the user wrote it: "worst>=0.95"
  std::string outcome;            // "pass" | "fail" | "inconclusive"
  std::string sentence;           // why, with the numbers and the rule
  std::string group;              // of worst>=X, what its groups are: "phase" | "residue"
  std::vector<GateGroup> groups;  // likewise
};

// How an audit that stops when it knows enough went. What it leaves has no fixed-sample p-value.
struct Sequential {
  std::string rule;                         // when phases leave and when it stops
  double e_value = 1;                       // evidence that phases differ, at the end
  double e_needed = 20;                     // 1 / alpha
  std::optional<std::int64_t> known_after;  // items when the e-value first reached it
  std::int64_t items = 0;                   // run, of max_items
  std::int64_t max_items = 0;
  std::int64_t prompts = 0;  // run, of planned: one per item and phase
  std::int64_t planned = 0;
  double saving = 0;                     // 1 - prompts / planned
  std::vector<std::int64_t> candidates;  // phases that may still be the worst
};

struct Design {
  std::string task;          // "lookup" | ...
  std::string padding;       // "prefix" | "in-sequence" | "around-target" | "" when unknown
  std::int64_t modulus = 0;  // R
  std::int64_t items = 0;
  std::int64_t observations = 0;  // planned
  std::int64_t scored = 0;
  std::int64_t missing = 0;
  std::string mitigation;  // what the prompts went through (task/mitigate.h); empty: plain
  // Prompt tokens sent for one answer, mean: all prompts that vote for it together. Empty: unknown.
  std::optional<double> tokens_per_answer;
  base::Json options;  // the task's own sizes
};

struct Result {
  std::string title;  // one line: model and task
  RunContext context;
  Design design;
  PositionCheck positions;
  Verdict verdict;
  std::string data_kind;  // "item-level" | "counts"
  std::string score =
      "accuracy";            // what `accuracy` fields hold: "accuracy" or a continuous score's name
  double confidence = 0.95;  // nominal coverage of every interval of this record
  Estimate mean;
  Extreme worst;  // over residues
  Extreme best;
  Gap gap;  // over residues
  Period period;
  std::vector<Group> residues;           // R of them
  std::optional<Sequential> sequential;  // empty: all planned prompts were run
  std::optional<Folded> folded;          // by the known or detected stride
  // The given or model's stride, where the period found does not divide it: then `folded` is by the
  // period.
  std::optional<Folded> other_stride;
  // The groups of `folded`, else the residues, against each other. Empty: an audit that stopped
  // early, or a record of an earlier version.
  std::optional<Contrasts> contrasts;
  std::optional<Confirmation> confirmation;  // on fresh data, when asked for
  std::vector<ScoreSummary> scores;          // continuous scores, where the data has them
  std::vector<Requirement> requirements;     // empty: none was asked for
  std::vector<std::string> notes;            // what the numbers do not say
};

std::string_view name_of(
    VerdictKind kind);  // "periodic" | "no_period" | "not_learned" | "inconclusive"

base::Json to_json(const Result& result);
// Throws a usage error naming scope when the schema differs or a field is missing.
Result result_from_json(const base::Json& json, std::string_view scope);

}  // namespace kvphase::record
