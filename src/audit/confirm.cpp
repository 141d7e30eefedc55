#include "audit/confirm.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "audit/overlap.h"
#include "audit/scores.h"
#include "audit/wording.h"
#include "base/error.h"
#include "base/number_text.h"
#include "stats/paired.h"

namespace kvphase::audit {
namespace {

using record::Confirmation;
using record::Dataset;
using record::Result;

bool same_scores(const std::vector<float>& a, const std::vector<float>& b) {
  return std::ranges::equal(a, b, [](float x, float y) {
    return x == y || (std::isnan(x) && std::isnan(y));  // NaN: missing
  });
}

bool same_data(const Dataset& a, const Dataset& b) {
  if (a.counts && b.counts)
    return a.counts->n == b.counts->n && a.counts->correct == b.counts->correct;
  return a.rows && b.rows && a.rows->position == b.rows->position &&
         a.rows->reply == b.rows->reply && a.rows->items == b.rows->items &&
         same_scores(a.rows->score, b.rows->score) &&
         same_scores(a.rows->logprob, b.rows->logprob) &&
         same_scores(a.rows->margin, b.rows->margin);
}

// Chance of so many repeated answers in fresh data: below the first they are refused, below the
// second the sentence warns.
constexpr double kCertainOverlap = 1e-5;
constexpr double kLikelyOverlap = 0.01;

std::string overlap_text(const Overlap& o, const Dataset& fresh) {
  return fmt::format(
      "{} of {} {} that repeat the answers of one in the first data exactly, where "
      "chance would make about {:.1g}",
      o.alike, o.of, fresh.counts ? "residues" : "items", o.expected);
}

void check(const Result& explored, const Dataset& first, const Dataset& fresh,
           std::int64_t stride) {
  if (same_data(first, fresh)) {
    throw base::usage_error("confirm",
                            "expected fresh data, got the first data set again; a choice cannot be "
                            "confirmed by the data it was made on");
  }
  if (const auto overlap = find_overlap(first, fresh); overlap && overlap->p < kCertainOverlap) {
    throw base::usage_error("confirm",
                            "expected fresh data, got {}; a choice cannot be confirmed by the data "
                            "it was made on",
                            overlap_text(*overlap, fresh));
  }
  const bool residues = fresh.counts || !fresh.positions.checked;
  if (residues && fresh.modulus % stride != 0) {
    throw base::usage_error("confirm", "expected residues by a multiple of {}, got residues mod {}",
                            stride, fresh.modulus);
  }
  const std::string_view score = fresh.counts ? "accuracy" : name_of(main_column(*fresh.rows));
  if (score != explored.score) {
    throw base::usage_error("confirm", "expected the first data set's score '{}', got '{}'",
                            explored.score, score);
  }
}

stats::Estimate measure(const Dataset& fresh, Confirmation& c, double coverage, bool& paired) {
  const auto best = static_cast<std::size_t>(c.best);
  const auto worst = static_cast<std::size_t>(c.worst);
  if (fresh.counts) {
    const stats::ResidueCounts counts =
        stats::fold_counts({.correct = fresh.counts->correct, .n = fresh.counts->n}, c.stride);
    const auto share = [&](std::size_t g) {
      return counts.n[g] == 0 ? std::nullopt
                              : std::optional(static_cast<double>(counts.correct[g]) /
                                              static_cast<double>(counts.n[g]));
    };
    c.best_value = share(best);
    c.worst_value = share(worst);
    return stats::newcombe_difference(counts.correct[best], counts.n[best], counts.correct[worst],
                                      counts.n[worst], coverage);
  }
  const stats::ScoreTable table = score_table(*fresh.rows, main_column(*fresh.rows));
  const stats::GroupTotals totals = stats::group_totals(table, c.stride);
  c.best_value = stats::group_mean(totals, best);
  c.worst_value = stats::group_mean(totals, worst);
  if (fresh.rows->items_known && is_paired(table)) {
    paired = true;
    stats::Estimate e = stats::phase_difference(table, c.stride, c.best, c.worst, coverage);
    if (e.value) return e;
    paired = false;
  }
  return stats::unpaired_difference(table, c.stride, c.best, c.worst, coverage);
}

}  // namespace

Confirmation confirm(const Result& explored, const Dataset& first, const Dataset& fresh,
                     double coverage) {
  const record::Extreme& worst = explored.folded ? explored.folded->worst : explored.worst;
  const record::Extreme& best = explored.folded ? explored.folded->best : explored.best;
  if (!worst.group || !best.group || *worst.group == *best.group) {
    throw base::usage_error(
        "confirm",
        "expected a worst and a best group in the first data set, got none that "
        "differ; there is no gap to confirm");
  }
  Confirmation c{.data = fresh.name,
                 .stride = explored.folded ? explored.folded->stride : explored.design.modulus,
                 .worst = *worst.group,
                 .best = *best.group};
  check(explored, first, fresh, c.stride);
  bool paired = false;
  const stats::Estimate e = measure(fresh, c, coverage, paired);
  c.gap = {.value = e.value, .low = e.low, .high = e.high, .method = e.method, .reason = e.reason};
  c.n = e.n;
  const bool share = explored.score == "accuracy";
  const auto size = [&](double x) {
    return share ? fmt::format("{:.1f}", 100 * x) : base::score_text(x);
  };
  const std::string unit = share ? " points" : "";
  const std::string pair =
      fmt::format("{} {} over {} {} (of {})", explored.folded ? "phase" : "residue", c.best,
                  explored.folded ? "phase" : "residue", c.worst, c.stride);
  c.outcome = e.low && *e.low > 0     ? "confirmed"
              : e.high && *e.high < 0 ? "reversed"
                                      : "not confirmed";
  const char* start = c.outcome == "confirmed"  ? "Confirmed"
                      : c.outcome == "reversed" ? "Reversed"
                                                : "Not confirmed";
  if (!e.value || !e.low || !e.high) {
    c.sentence = fmt::format("{}: {} cannot be measured on the fresh data: {}.", start, pair,
                             e.reason.empty() ? "no interval" : e.reason);
    return c;
  }
  const record::Gap& gap = explored.folded ? explored.folded->gap : explored.gap;
  c.sentence = fmt::format(
      "{} on fresh data: {} is {}{} [{} to {}], {} {}; the first data, on which the two were "
      "chosen, "
      "showed {}.",
      start, pair, size(*e.value), unit, size(*e.low), size(*e.high), e.n,
      paired ? (e.n == 1 ? "item" : "items") : (e.n == 1 ? "prompt" : "prompts"),
      gap.estimate.value ? size(*gap.estimate.value) : "no gap");
  if (const auto overlap = find_overlap(first, fresh); overlap && overlap->p < kLikelyOverlap) {
    c.sentence += fmt::format(" But the fresh data may not be fresh: they hold {}.",
                              overlap_text(*overlap, fresh));
  }
  return c;
}

}  // namespace kvphase::audit
