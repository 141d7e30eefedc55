#include "audit/analysis.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <future>

#include "audit/contrasts.h"
#include "audit/findable.h"
#include "audit/notes.h"
#include "audit/scores.h"
#include "audit/verdict.h"
#include "audit/wording.h"
#include "base/error.h"
#include "base/random.h"
#include "stats/bootstrap.h"
#include "stats/gap.h"
#include "stats/interval.h"
#include "stats/large_table.h"
#include "stats/period.h"

namespace kvphase::audit {
namespace {

using record::Dataset;
using record::Group;
using record::Result;
using record::ScoreRows;
using stats::ScoreTable;

record::Estimate convert(const stats::Estimate& e) {
  return {.value = e.value, .low = e.low, .high = e.high, .method = e.method, .reason = e.reason};
}

record::Gap convert(const stats::Estimate& raw, const stats::GapNoise& noise) {
  record::Gap gap{.estimate = convert(raw),
                  .noise = noise.noise,
                  .noise_high = noise.noise_high,
                  .p_value = noise.p_value,
                  .noise_method = noise.method};
  if (!noise.reason.empty()) gap.noise_method += " (" + noise.reason + ")";
  return gap;
}

// A period test as the record has it, and how many permutations stand behind its p-values.
struct Tested {
  record::Period period;
  std::int64_t permutations = 0;
  std::int64_t columns = 0;  // stats::PeriodResult::columns
  double clustering = 1;     // of the period that a verdict of "no period" talks about
  bool like_drift = false;   // VerdictInput
  std::optional<double> p_own_phases;
};

// The dip that a verdict of "no period" talks about: one phase in four, the commonest stride.
constexpr std::int64_t kFindableStride = 4;

// Of that stride's phases, or, where it was no candidate, of the most clustered ones.
double clustering_of(const stats::PeriodResult& p) {
  double most = 1;
  for (const stats::PeriodCandidate& c : p.candidates) {
    if (c.period == kFindableStride) return c.clustering;
    most = std::max(most, c.clustering);
  }
  return most;
}

std::string no_second_null(const stats::PeriodResult& p) {
  if (!p.p_value) return "no test";
  return p.data_kind == "counts"
             ? "fewer than 12 residues have too few orders, and do not differ beyond the period"
             : "fewer than 5 items vary";
}

record::Period convert(const stats::PeriodResult& p) {
  record::Period period{.value = p.period,
                        .p_value = p.p_value,
                        .p_second = p.p_second,
                        .second_null = p.second_null,
                        .p_misfit = p.p_misfit,
                        .p_fit = p.p_fit,
                        .level = p.level,
                        .method = p.method,
                        .reason = p.reason};
  if (!p.p_second) period.p_second_reason = no_second_null(p);
  if (!p.p_misfit) {
    period.p_misfit_reason = !p.period ? "no period is named that positions could differ beyond"
                                       : "too few positions, or items do not share them";
  }
  for (const stats::PeriodCandidate& c : p.candidates) {
    period.candidates.push_back({.period = c.period,
                                 .statistic = c.statistic,
                                 .p_raw = c.p_raw,
                                 .p_adjusted = c.p_adjusted});
  }
  for (const stats::NestedTest& t : p.nested) {
    period.nested.push_back({.from = t.from, .to = t.to, .p = t.p});
  }
  return period;
}

// Groups of a curve and its extremes: residues (mod R) or phases (mod S).
struct Curve {
  std::vector<Group> groups;
  record::Estimate mean;
  record::Extreme worst;
  record::Extreme best;
  record::Gap gap;
};

class RowsAnalysis {
 public:
  RowsAnalysis(const Dataset& data, const AnalysisOptions& options)
      : rows_(*data.rows),
        options_(options),
        column_(main_column(rows_)),
        divisor_of_(data.residues_of.value_or(0)) {
    table_ = score_table(rows_, column_);
    paired_ = rows_.items_known && is_paired(table_);
    if (!paired_) pooled_ = stats::pool_items(table_);
  }

  bool paired() const { return paired_; }
  Column column() const { return column_; }
  std::int64_t scored() const { return static_cast<std::int64_t>(table_.cells()); }
  bool all_equal() const {
    return std::ranges::adjacent_find(table_.score, std::ranges::not_equal_to()) ==
           table_.score.end();
  }

  // No item has two different scores: items may differ, positions never do.
  bool equal_inside() const {
    return paired_ && !all_equal() && stats::informative_items(table_).empty();
  }

  std::optional<double> variance() const { return noise_variance(table_, paired_); }

  Curve curve(std::int64_t modulus) const;
  Tested period() const { return test(table_, paired_ ? table_ : pooled_); }
  std::vector<record::ScoreSummary> scores(std::int64_t modulus) const;

 private:
  // What nulls are drawn from: items when paired, else all observations as one.
  const ScoreTable& exchangeable() const { return paired_ ? table_ : pooled_; }
  Tested test(const ScoreTable& table, const ScoreTable& exchangeable) const;
  void add_intervals(const stats::GroupBootstrap& boot, std::int64_t modulus,
                     std::vector<Group>& groups) const;

  const ScoreRows& rows_;
  const AnalysisOptions& options_;
  Column column_;
  std::int64_t divisor_of_;
  ScoreTable table_;
  ScoreTable pooled_;
  bool paired_ = false;
};

Tested RowsAnalysis::test(const ScoreTable& table, const ScoreTable& exchangeable) const {
  const stats::PeriodResult found =
      stats::find_period(exchangeable, {.divisor_of = divisor_of_,
                                        .permutations = options_.permutations,
                                        .level = options_.level,
                                        .seed = options_.seed});
  record::Period period = convert(found);
  if (&table != &exchangeable) {
    period.method = "unpaired, all prompts exchangeable: " + period.method;
    if (!period.p_second && period.p_value) period.p_second_reason = "prompts without items";
    if (period.value && !period.p_second) {
      period.reason = "prompts without items: no second null, so slow drift is not excluded";
      if (period.p_misfit && *period.p_misfit <= kMisfitLevel * period.level) {
        period.reason += "; positions also differ beyond this period";
      }
    }
  }
  // Nothing varies: no data could speak less for a period (Cochran's Q without a discordant item).
  if (!period.p_value && found.items == 0 && table.cells() > 0) period.p_value = 1;
  Tested tested{.period = std::move(period),
                .permutations = found.permutations,
                .columns = found.columns,
                .clustering = clustering_of(found)};
  const bool second_rejects = found.p_second.value_or(1) <= found.level;
  const bool first_rejects = found.p_value.value_or(1) <= found.level;
  tested.like_drift = found.second_decides && first_rejects && !second_rejects;
  if (found.p_second && !found.second_decides && second_rejects && !first_rejects) {
    tested.p_own_phases = found.p_second;
  }
  return tested;
}

// Wilson's interval where every item appears once per group; else the bootstrap over items, which
// bounds a group that is all right or all wrong exactly. A single item has no bootstrap: Wilson's
// with one observation, where its answers are alike.
void RowsAnalysis::add_intervals(const stats::GroupBootstrap& boot, std::int64_t modulus,
                                 std::vector<Group>& groups) const {
  const bool share = column_ == Column::kReply;
  const bool clustered = repeats_in_groups(table_, modulus);
  const std::vector<std::int64_t> items = stats::items_per_group(table_, modulus);
  for (std::size_t g = 0; g < groups.size(); ++g) {
    Group& group = groups[g];
    const stats::Estimate& mean = boot.groups[g].mean;
    group.accuracy = mean.value;
    group.worst_share = boot.groups[g].worst_share;
    stats::Estimate interval = mean;
    const std::int64_t correct = group.correct.value_or(0);
    if (share && group.n > 0 && !clustered) {
      interval = stats::wilson(correct, group.n, options_.coverage);
    } else if (share && group.n > 0 && !mean.low && (correct == 0 || correct == group.n)) {
      interval = stats::wilson(correct == 0 ? 0 : items[g], items[g], options_.coverage);
    }
    if (group.n > 0) {
      group.low = interval.low;
      group.high = interval.high;
    }
    group.reason = why_empty(group, interval.reason);
  }
}

Curve RowsAnalysis::curve(std::int64_t modulus) const {
  Curve curve;
  std::vector<double> logprob_sum(static_cast<std::size_t>(modulus), 0);
  std::vector<std::int64_t> logprob_n(static_cast<std::size_t>(modulus), 0);
  for (std::int64_t g = 0; g < modulus; ++g) {
    curve.groups.push_back({.index = g});
    if (rows_.has_right_wrong) curve.groups.back().correct = 0;
  }
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    const auto g = static_cast<std::size_t>(rows_.position[i] % modulus);
    Group& group = curve.groups[g];
    ++group.planned;
    if (rows_.has_right_wrong && rows_.reply[i] != record::Reply::kMissing) ++group.n;
    if (rows_.has_right_wrong && rows_.reply[i] == record::Reply::kRight) ++*group.correct;
    if (!rows_.logprob.empty() && !std::isnan(rows_.logprob[i])) {
      logprob_sum[g] += static_cast<double>(rows_.logprob[i]);
      ++logprob_n[g];
    }
  }
  if (!rows_.has_right_wrong) {
    for (const std::int64_t position : table_.position) {
      ++curve.groups[static_cast<std::size_t>(position % modulus)].n;
    }
  }
  for (std::size_t g = 0; g < curve.groups.size(); ++g) {
    if (logprob_n[g] > 0) {
      curve.groups[g].mean_logprob = logprob_sum[g] / static_cast<double>(logprob_n[g]);
    }
  }
  const stats::GroupBootstrap boot =
      stats::bootstrap_items(table_, {.modulus = modulus,
                                      .replicates = options_.replicates,
                                      .level = options_.coverage,
                                      .seed = options_.seed,
                                      .right_wrong = column_ == Column::kReply});
  add_intervals(boot, modulus, curve.groups);
  curve.mean = convert(boot.mean);
  curve.worst = {convert(boot.worst), boot.worst_group};
  curve.best = {convert(boot.best), boot.best_group};
  curve.gap =
      convert(boot.gap, stats::gap_noise_items(exchangeable(), {.modulus = modulus,
                                                                .replicates = options_.permutations,
                                                                .seed = options_.seed}));
  const stats::Estimate crossed = stats::cross_fitted_gap(table_, modulus, 200, options_.seed);
  curve.gap.cross_fitted = crossed.value;
  if (!crossed.value) {
    curve.gap.cross_fitted_reason =
        crossed.reason.empty() ? "some half of the items misses a group" : crossed.reason;
  }
  return curve;
}

std::vector<record::ScoreSummary> RowsAnalysis::scores(std::int64_t modulus) const {
  std::vector<record::ScoreSummary> list;
  for (const Column column : {Column::kLogprob, Column::kMargin, Column::kScore}) {
    if (column == column_ || !has_column(rows_, column)) continue;
    const ScoreTable table = score_table(rows_, column);
    record::ScoreSummary summary{.name = std::string(name_of(column)),
                                 .n = static_cast<std::int64_t>(table.cells())};
    const stats::GroupTotals totals = stats::group_totals(table, modulus);
    double sum = 0;
    for (std::size_t g = 0; g < totals.n.size(); ++g) {
      summary.residue_means.push_back(stats::group_mean(totals, g));
      sum += totals.sum[g];
    }
    if (summary.n > 0) summary.mean = sum / static_cast<double>(summary.n);
    if (std::ranges::any_of(summary.residue_means, [](const auto& m) { return !m; })) {
      summary.reason = "no prompt with this score at some residues";
    }
    const bool paired = rows_.items_known && is_paired(table);
    summary.period = (paired ? test(table, table) : test(table, stats::pool_items(table))).period;
    list.push_back(std::move(summary));
  }
  return list;
}

Curve counts_curve(const stats::ResidueCounts& counts, const AnalysisOptions& options) {
  Curve curve;
  const stats::GroupBootstrap boot = stats::bootstrap_counts(
      counts, {.replicates = options.replicates, .level = options.coverage, .seed = options.seed});
  for (std::size_t g = 0; g < counts.n.size(); ++g) {
    Group group{.index = static_cast<std::int64_t>(g),
                .planned = counts.n[g],
                .n = counts.n[g],
                .correct = counts.correct[g],
                .accuracy = boot.groups[g].mean.value,
                .worst_share = boot.groups[g].worst_share};
    if (group.n > 0) {
      const stats::Estimate interval = stats::wilson(counts.correct[g], group.n, options.coverage);
      group.low = interval.low;
      group.high = interval.high;
    }
    group.reason = why_empty(group, "");
    curve.groups.push_back(group);
  }
  curve.mean = convert(boot.mean);
  curve.worst = {convert(boot.worst), boot.worst_group};
  curve.best = {convert(boot.best), boot.best_group};
  curve.gap = convert(boot.gap, stats::gap_noise_counts(counts, {.replicates = options.permutations,
                                                                 .seed = options.seed}));
  curve.gap.cross_fitted_reason = "counts have no items to split";
  return curve;
}

// What to fold by. A period that the data show and the known stride does not contain comes first:
// the sentence, its phases and its figures must be of one stride.
struct Strides {
  std::optional<Stride> main;
  std::optional<Stride> known;  // given or the model's
  bool disagree = false;        // then main is the period found
};

Strides choose_strides(const Dataset& data, const AnalysisOptions& options,
                       const record::Period& period) {
  Strides s;
  if (options.stride) {
    s.known = Stride{*options.stride, "given"};
  } else if (data.stride) {
    s.known = Stride{*data.stride, "model"};
  }
  s.main = s.known;
  s.disagree = s.known && period.value && s.known->value % *period.value != 0;
  if (period.value && (!s.known || s.disagree)) s.main = Stride{*period.value, "detected"};
  return s;
}

// Positions are known modulo this only; empty: whole positions.
std::optional<std::int64_t> known_modulo(const Dataset& data) {
  return data.counts ? std::optional(data.modulus) : data.residues_of;
}

bool can_fold(const Dataset& data, std::int64_t stride) {
  const auto modulo = known_modulo(data);
  return !modulo || *modulo % stride == 0;
}

void mark_boundary(std::vector<Group>& groups, std::int64_t stride) {
  for (Group& group : groups) group.boundary = group.index % stride == stride - 1;
}

record::Folded fold(const Stride& stride, Curve curve) {
  return {.stride = stride.value,
          .source = stride.source,
          .phases = std::move(curve.groups),
          .worst = std::move(curve.worst),
          .best = std::move(curve.best),
          .gap = std::move(curve.gap)};
}

void take_curve(Result& result, Curve curve) {
  result.residues = std::move(curve.groups);
  result.mean = std::move(curve.mean);
  result.worst = std::move(curve.worst);
  result.best = std::move(curve.best);
  result.gap = std::move(curve.gap);
}

// Replies that are all alike could show a period only at four positions or more: two cycles of 2.
constexpr std::int64_t kFewestPositions = 4;

Coverage coverage_of(const ScoreRows& rows, const Result& r) {
  Coverage coverage;
  for (const Group& g : r.residues) coverage.seen.push_back(g.n > 0);
  if (rows.position.empty()) return coverage;
  const auto [low, high] = std::ranges::minmax(rows.position);
  if (high - low + 1 >= r.design.modulus) return coverage;
  coverage.residues = false;
  coverage.first = low;
  coverage.seen.clear();
  for (std::int64_t p = low; p <= high; ++p) {
    coverage.seen.push_back(r.residues[static_cast<std::size_t>(p % r.design.modulus)].n > 0);
  }
  return coverage;
}

bool at_least_positions(const ScoreRows& rows, std::int64_t wanted) {
  std::vector<std::int32_t> seen;
  for (const std::int32_t p : rows.position) {
    if (std::ranges::find(seen, p) != seen.end()) continue;
    seen.push_back(p);
    if (std::ssize(seen) >= wanted) return true;
  }
  return false;
}

constexpr double kNeverFound = 1;  // as a share

// columns: of which the period must stand out, to be named; 0: only to be seen by the search.
std::optional<double> findable(const Result& r, const std::optional<double>& variance,
                               std::int64_t columns, bool all_equal) {
  const bool share = r.score == "accuracy";
  FindableInput input{.observations = r.design.scored,
                      .variance = variance.value_or(0),
                      .share = share ? r.mean.value : std::nullopt,
                      .stride = kFindableStride,
                      .candidates = std::max<std::int64_t>(1, std::ssize(r.period.candidates)),
                      .columns = columns,
                      .level = r.period.level};
  for (const auto& c : r.period.candidates) input.searched.push_back(c.period);
  if (all_equal) {
    const std::int64_t n =
        r.design.items > 0 ? std::min(r.design.items, r.design.scored) : r.design.scored;
    input.candidates = std::max<std::int64_t>(1, r.design.modulus / 2 - 1);
    return findable_dip_of_equal(n, input).value_or(1);
  }
  if (!variance || r.period.candidates.empty()) return std::nullopt;
  const auto dip = findable_dip(input);
  // Not even a phase that is always wrong would be found.
  return !dip && share ? std::optional(kNeverFound) : dip;
}

// What these data can say of the given or the model's stride.
struct KnownStride {
  std::optional<std::int64_t> value;
  std::string unseen, unseen_step;  // of VerdictInput
  bool unsearched = false;
  std::optional<double> findable;
};

KnownStride known_stride(const Result& r, const Dataset& data, const Strides& strides,
                         const std::optional<double>& variance) {
  if (!strides.known) return {};
  const std::int64_t s = strides.known->value;
  KnownStride known{.value = s};
  if (!can_fold(data, s)) {
    known.unseen = fmt::format(
        "{} modulo {} cannot show the {} stride {}: its phases are averaged away",
        data.counts ? "counts" : "residues", *known_modulo(data), strides.known->whose(), s);
    known.unseen_step = fmt::format(
        "Give whole target positions, or {} modulo a multiple of {} ({} for one cycle more).",
        data.counts ? "counts" : "residues", s, 2 * s);
    return known;
  }
  known.unsearched = !r.period.candidates.empty() && r.folded && r.folded->stride == s &&
                     std::ranges::find(r.period.candidates, s, &record::PeriodCandidate::period) ==
                         r.period.candidates.end();
  if (known.unsearched && variance) {
    known.findable = findable_dip({.observations = r.design.scored,
                                   .variance = *variance,
                                   .share = r.score == "accuracy" ? r.mean.value : std::nullopt,
                                   .stride = s,
                                   .candidates = 1,
                                   .level = r.period.level});
  }
  return known;
}

void decide_requirements(Result& r, const Dataset& data, const AnalysisOptions& options,
                         RequirementInput input) {
  if (options.requirements.empty()) return;
  input.group = r.folded && data.rows ? "phase" : "residue";
  if (data.counts) {
    input.gate = GateCounts{.counts = {.correct = data.counts->correct, .n = data.counts->n}};
  } else if (data.rows->has_right_wrong) {
    input.gate = gate_counts(*data.rows, r.folded ? r.folded->stride : data.modulus, options.seed);
  }
  for (const Requirement& requirement : options.requirements) {
    r.requirements.push_back(decide_requirement(requirement, r, input));
  }
}

std::string make_title(const Dataset& data) {
  std::string title = data.name;
  if (!data.task.empty()) title += (title.empty() ? "" : " on ") + data.task;
  if (!data.padding.empty()) title += fmt::format(" ({} padding)", data.padding);
  if (!data.mitigation.empty()) title += fmt::format(", mitigation {}", data.mitigation);
  return title;
}

constexpr float kLargestScore = 1e30F;  // their squares are added up

void check(const Dataset& data, const AnalysisOptions& options) {
  if (data.modulus < 2 || data.counts.has_value() == data.rows.has_value()) {
    throw base::usage_error(
        "analyze", "expected counts or rows over a modulus of 2 or more, got {}", data.modulus);
  }
  if (data.rows) {
    // Importers name the line; data from elsewhere stop here.
    for (const auto* column : {&data.rows->score, &data.rows->logprob, &data.rows->margin}) {
      const auto big = std::ranges::find_if(
          *column, [](float x) { return std::abs(x) > kLargestScore; });  // NaN: no score
      if (big != column->end()) {
        throw base::usage_error("analyze",
                                "expected scores of at most {:g} in size, got {} in row {}",
                                kLargestScore, *big, big - column->begin() + 1);
      }
    }
  }
  if (options.stride && *options.stride < 2) {
    throw base::usage_error("analyze", "expected a stride of 2 or more, got {}", *options.stride);
  }
  // Fewer permutations could not reach the level, fewer replicates not the ends of an interval.
  const auto fewest = static_cast<std::int64_t>(std::ceil(1 / options.level - 1e-9)) - 1;
  constexpr std::int64_t kFewestReplicates = 20;
  if (options.replicates < kFewestReplicates || options.permutations < fewest) {
    throw base::usage_error("analyze",
                            "expected at least {} replicates and {} permutations, got {} and {}",
                            kFewestReplicates, fewest, options.replicates, options.permutations);
  }
}

}  // namespace

Result analyse(const Dataset& data, const AnalysisOptions& options) {
  check(data, options);
  Result r;
  r.context = options.context;
  r.context.seed = options.seed;
  r.confidence = options.coverage;
  r.title = options.title.empty() ? make_title(data) : options.title;
  r.positions = data.positions;
  r.design = {.task = data.task,
              .padding = data.padding,
              .modulus = data.modulus,
              .mitigation = data.mitigation,
              .options = options.task_options};
  r.notes = data.notes;
  const std::optional<std::int64_t> window = options.window ? options.window : data.window;
  bool all_equal = false;
  bool equal_inside = false;
  std::int64_t permutations = 0;  // of the period test
  std::int64_t columns = 0;
  Tested tested;
  bool enough_positions = true;
  Coverage coverage;
  std::optional<double> variance;
  Strides strides;
  if (data.rows) {
    const RowsAnalysis rows(data, options);
    r.data_kind = "item-level";
    r.score = name_of(rows.column());
    r.design.items = data.rows->items;
    r.design.observations = static_cast<std::int64_t>(data.rows->size());
    r.design.scored = rows.scored();
    r.design.missing = r.design.observations - r.design.scored;
    equal_inside = rows.equal_inside();
    all_equal = rows.all_equal() || equal_inside;
    variance = rows.variance();
    // The side scores share nothing with the main one; both draw from seeds of their own.
    std::future<std::vector<record::ScoreSummary>> scores =
        std::async(std::launch::async, [&] { return rows.scores(data.modulus); });
    take_curve(r, rows.curve(data.modulus));
    tested = rows.period();
    r.period = tested.period;
    permutations = tested.permutations;
    columns = tested.columns;
    enough_positions = at_least_positions(*data.rows, kFewestPositions);
    coverage = coverage_of(*data.rows, r);
    strides = choose_strides(data, options, r.period);
    const auto folded = [&](const Stride& stride) {
      return can_fold(data, stride.value) ? std::optional(fold(stride, rows.curve(stride.value)))
                                          : std::nullopt;
    };
    if (strides.main && r.design.scored > 0) r.folded = folded(*strides.main);
    if (strides.disagree) r.other_stride = folded(*strides.known);
    r.scores = scores.get();
    note_rows(r, data, rows.paired());
  } else {
    const stats::ResidueCounts counts{.correct = data.counts->correct, .n = data.counts->n};
    stats::check_counts(counts, "analyze");
    r.data_kind = "counts";
    r.design.observations = stats::total_n(counts);
    r.design.scored = r.design.observations;
    const std::int64_t correct = stats::total_correct(counts);
    all_equal = correct == 0 || correct == r.design.scored;
    if (r.design.scored > 0) {
      const double share = static_cast<double>(correct) / static_cast<double>(r.design.scored);
      variance = share * (1 - share);
    }
    take_curve(r, counts_curve(counts, options));
    const stats::PeriodResult found = stats::find_period(
        counts,
        {.permutations = options.permutations, .level = options.level, .seed = options.seed});
    r.period = convert(found);
    permutations = found.exact ? 0 : found.permutations;
    columns = found.columns;
    if (!r.period.p_value && all_equal && r.design.scored > 0) r.period.p_value = 1;
    enough_positions = std::ranges::count_if(counts.n, [](auto n) { return n > 0; }) >=
                       static_cast<std::ptrdiff_t>(kFewestPositions);
    for (const auto n : counts.n) coverage.seen.push_back(n > 0);
    strides = choose_strides(data, options, r.period);
    const auto folded = [&](const Stride& stride) {
      return can_fold(data, stride.value)
                 ? std::optional(fold(
                       stride, counts_curve(stats::fold_counts(counts, stride.value), options)))
                 : std::nullopt;
    };
    if (strides.main) r.folded = folded(*strides.main);
    if (strides.disagree) r.other_stride = folded(*strides.known);
    note_counts(r);
  }
  for (std::optional<record::Folded>* folded : {&r.folded, &r.other_stride}) {
    if (!*folded || !window || *window != (*folded)->stride) continue;
    mark_boundary((*folded)->phases, (*folded)->stride);
    if (data.modulus % (*folded)->stride == 0) mark_boundary(r.residues, (*folded)->stride);
  }
  r.contrasts = compare_groups(r, data, options.permutations, options.seed);
  note_stride(r, strides.known);
  note_groups(r);
  Uneven uneven = note_missing(r, options.seed);
  Uneven left_out;
  if (data.rows && r.design.scored > 0) left_out = note_left_out(r, data, options.seed);
  if (uneven.note.empty()) uneven = left_out;
  note_resolution(r, permutations, options.permutations);
  // Phases scatter as if there were that many times fewer answers.
  std::optional<double> scatter = variance;
  if (scatter) *scatter *= tested.clustering;
  const std::optional<double> dip = findable(r, scatter, 0, all_equal);
  const bool in_shares = r.score == "accuracy" || all_equal;
  std::optional<double> nameable;
  std::string unnameable_from;
  if (columns > 0 && !all_equal && !equal_inside) {
    nameable = findable(r, scatter, columns, false);
    if (!nameable || (in_shares && *nameable >= kNeverFound)) {
      unnameable_from = data.counts ? fmt::format("residues modulo {}", data.modulus)
                                    : fmt::format("{} positions", columns);
    }
  }
  const KnownStride known = known_stride(r, data, strides, variance);
  r.verdict = decide(
      r, {.min_accuracy = options.min_accuracy,
          .findable = dip,
          .nameable = nameable,
          .unnameable_from = unnameable_from,
          .wanted = in_shares ? kFindableShare : kFindableSd * std::sqrt(variance.value_or(0)),
          .known_stride = known.value,
          .known_source = strides.known ? strides.known->source : "",
          .unseen_stride = known.unseen,
          .unseen_stride_step = known.unseen_step,
          .unsearched_stride = known.unsearched,
          .findable_at_stride = known.findable,
          .like_drift = tested.like_drift,
          .p_own_phases = tested.p_own_phases,
          .uneven = uneven.sentence,
          .uneven_step = uneven.note,
          .all_equal = all_equal,
          .equal_inside = equal_inside,
          .coverage = coverage,
          .enough_positions = enough_positions});
  decide_requirements(r, data, options,
                      {.dip = dip,
                       .known_stride = known.value,
                       .variance = variance,
                       .unseen_stride = known.unseen,
                       .left_out = !left_out.note.empty(),
                       .all_equal = all_equal,
                       .alpha = options.level,
                       .seed = options.seed});
  return r;
}

}  // namespace kvphase::audit
