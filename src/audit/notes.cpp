#include "audit/notes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "audit/wording.h"

namespace kvphase::audit {

using record::Dataset;
using record::Group;
using record::Result;

void note_stride(Result& r, const std::optional<Stride>& stride) {
  if (!stride) return;
  const std::int64_t s = stride->value;
  for (const record::PeriodCandidate& c : r.period.candidates) {
    if (c.period == s) {
      r.notes.push_back(
          fmt::format("At the {} stride {} alone, without the price of searching, {}.",
                      stride->whose(), s, p_text(c.p_raw)));
    }
  }
  if (r.period.value && *r.period.value != s) {
    r.notes.push_back(
        s % *r.period.value == 0
            ? fmt::format("The period found, {}, divides the stride {}: phases that differ by {} "
                          "behave alike here.",
                          *r.period.value, s, *r.period.value)
            : fmt::format("The period found, {}, is not explained by the stride {}: check the "
                          "stride, and whether positions count every token of the prompt.",
                          *r.period.value, s));
  }
}

void note_groups(Result& r) {
  std::vector<std::int64_t> empty;
  for (const Group& group : r.residues) {
    if (group.n == 0) empty.push_back(group.index);
  }
  if (!empty.empty()) {
    r.notes.push_back(fmt::format(
        "{} of {} residues have no scored prompt ({}{}): worst, best and gap are over the others.",
        empty.size(), r.residues.size(),
        fmt::join(empty.begin(), empty.begin() + std::min<std::ptrdiff_t>(8, std::ssize(empty)),
                  ", "),
        empty.size() > 8 ? ", ..." : ""));
  }
}

stats::MissingResult bound_missing(const std::vector<Group>& groups, std::int64_t draws,
                                   std::uint64_t seed) {
  stats::ResidueCounts counts;
  std::vector<std::int64_t> missing;
  for (const Group& group : groups) {
    counts.n.push_back(group.n);
    counts.correct.push_back(group.correct.value_or(0));
    missing.push_back(group.planned - group.n);
  }
  return stats::bound_missing(counts, missing, draws, seed);
}

Uneven note_missing(Result& r, std::uint64_t seed) {
  if (r.design.missing == 0 || r.score != "accuracy") return {};
  const stats::MissingResult bounds = bound_missing(r.residues, 10000, seed);
  const auto percent = [](const stats::Bounds& b) {
    return fmt::format("{:.1f}% or {:.1f}%", 100 * b.low.value_or(0), 100 * b.high.value_or(1));
  };
  r.notes.push_back(fmt::format(
      "{} of {} replies are missing and not counted as wrong. If all of them were wrong, or all "
      "right, the mean would be {} and the worst residue {}.",
      r.design.missing, r.design.observations, percent(bounds.mean), percent(bounds.worst)));
  if (!bounds.p_depends_on_group || *bounds.p_depends_on_group > r.period.level) return {};
  r.notes.push_back(
      fmt::format("Replies are missing at some residues more than at others ({}): find out "
                  "why before reading the curve.",
                  p_text(bounds.p_depends_on_group)));
  return {.note = r.notes.back(),
          .sentence = fmt::format(
              "Replies are missing at some residues more than at others, which alone may make, or "
              "hide, such a curve: were all of them wrong, the worst residue would be at {:.1f}%.",
              100 * bounds.worst.low.value_or(0))};
}

Uneven note_left_out(Result& r, const Dataset& data, std::uint64_t seed) {
  const record::ScoreRows& rows = *data.rows;
  const auto same_item = [&](std::size_t i) { return rows.item[i] == rows.item[i - 1]; };
  std::int64_t step = 0;
  for (std::size_t i = 1; i < rows.size(); ++i) {
    if (same_item(i)) step = std::gcd(step, std::int64_t{rows.position[i]} - rows.position[i - 1]);
  }
  if (step == 0) return {};
  std::vector<std::int64_t> absent(r.residues.size(), 0);
  std::size_t total = 0;
  const auto add = [&](std::int64_t from,
                       std::int64_t to) {  // positions from, from + step, .. < to
    for (std::int64_t p = from; p < to && total <= rows.size(); p += step, ++total) {
      ++absent[static_cast<std::size_t>(p % r.design.modulus)];
    }
  };
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const bool first = i == 0 || !same_item(i);
    if (!first) add(std::int64_t{rows.position[i - 1]} + step, rows.position[i]);
    // Where only residues are known, an item's run is all of them.
    if (!data.residues_of) continue;
    if (first) add(rows.position[i] % step, rows.position[i]);
    if (i + 1 == rows.size() || !same_item(i + 1)) {
      add(std::int64_t{rows.position[i]} + step, *data.residues_of);
    }
  }
  if (total == 0 || total > rows.size()) return {};
  stats::ResidueCounts counts;
  for (const Group& group : r.residues) {
    counts.n.push_back(group.planned);
    counts.correct.push_back(0);
  }
  const auto p = stats::bound_missing(counts, absent, 10000, seed).p_depends_on_group;
  // Nobody said that they were planned: only what is certain counts.
  constexpr double kCertain = 0.2;  // of the level
  if (!p || *p > kCertain * r.period.level) return {};
  r.notes.push_back(fmt::format(
      "{} positions inside the items' runs have no row, at some residues more than at others ({}). "
      "If prompts were sent there, give them rows with an empty result: a reply that failed is not "
      "to be left out.",
      total, p_text(p)));
  return {.note = r.notes.back(),
          .sentence =
              "Rows are left out at some residues more than at others, which alone may make, or "
              "hide, such a curve."};
}

void note_counts(Result& r) {
  r.notes.push_back(
      "Counts only: prompts are taken as independent. If the same items were asked at every "
      "residue "
      "(paired), tests and the gap's interval are conservative and the mean's interval is too "
      "narrow.");
  r.notes.push_back(fmt::format(
      "Only periods that divide the modulus {} can be seen in counts; a gap has no cross-fitted "
      "value without items.",
      r.design.modulus));
}

void note_rows(Result& r, const Dataset& data, bool paired) {
  if (!paired) {
    r.notes.push_back(
        "No item was asked at several positions, so every prompt counts as its own item: items of "
        "different difficulty make the test less sensitive, not wrong.");
  }
  if (data.repeats.compared > 0) {
    r.notes.push_back(fmt::format(
        "A/A: {} of {} repeated prompts changed between right and wrong without any change of the "
        "prompt.",
        data.repeats.changed, data.repeats.compared));
  }
  if (data.positions.checked && !data.positions.ok && data.positions.note.empty()) {
    r.notes.push_back(fmt::format(
        "The mean target position differs by {:.0f} tokens between residues: part of a gap may be "
        "depth, not phase.",
        data.positions.mean_high - data.positions.mean_low));
  }
}

void note_resolution(Result& r, std::int64_t permutations, std::int64_t wanted) {
  if (permutations == 0) return;  // exact
  const double smallest = 1.0 / static_cast<double>(permutations + 1);
  const bool at_floor = std::ranges::any_of(r.period.candidates, [&](const auto& candidate) {
    return r.period.value == candidate.period && candidate.p_raw <= 1.5 * smallest;
  });
  if (at_floor) {
    r.notes.push_back(fmt::format(
        "The p-value is about the smallest that {} permutations and {} candidate periods can show; "
        "{}.",
        permutations, r.period.candidates.size(),
        permutations < wanted ? "a table of this size gets no more"
                              : "more permutations would make it smaller"));
  }
}

}  // namespace kvphase::audit
