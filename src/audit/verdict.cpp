#include "audit/verdict.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <vector>

#include "audit/findable.h"
#include "audit/wording.h"
#include "base/number_text.h"

namespace kvphase::audit {
namespace {

using record::Result;
using record::Verdict;
using record::VerdictKind;

// Below it a certain difference is a small one: points of accuracy.
constexpr double kSmallGap = 0.05;

bool is_share(const Result& r) { return r.score == "accuracy"; }

std::string value(const Result& r, std::optional<double> x) {
  if (!x) return "undefined";
  return is_share(r) ? fmt::format("{:.1f}%", 100 * *x) : base::score_text(*x);
}

std::string difference(const Result& r, std::optional<double> x) {
  if (!x) return "undefined";
  return is_share(r) ? fmt::format("{:.1f} points", 100 * *x) : base::score_text(*x);
}

std::string score_word(const Result& r) { return is_share(r) ? "accuracy" : "mean " + r.score; }

// "worst phase 3 at 31.3%, best phase 1 at 69.7%, gap 38.5 points (noise alone: 4.5 points)".
// of: " of 12" where the phases' stride is not the number that the sentence has just named.
std::string curve(const Result& r, const record::Extreme& worst, const record::Extreme& best,
                  const record::Gap& gap, std::string_view group, const std::string& of) {
  if (!worst.group || !best.group) return "no group has a prompt";
  if (gap.estimate.value == 0.0) {
    return fmt::format("every {}{} at {}, gap {} (noise alone: {})", group, of,
                       value(r, worst.estimate.value), difference(r, gap.estimate.value),
                       difference(r, gap.noise));
  }
  if (!gap.estimate.value) {
    return fmt::format("only {} {}{} has scored prompts, at {}", group, *worst.group, of,
                       value(r, worst.estimate.value));
  }
  return fmt::format("worst {} {}{} at {}, best {} {}{} at {}, gap {} (noise alone: {})", group,
                     *worst.group, of, value(r, worst.estimate.value), group, *best.group, of,
                     value(r, best.estimate.value), difference(r, gap.estimate.value),
                     difference(r, gap.noise));
}

std::string curve(const record::Folded& f, const Result& r) {
  return curve(r, f.worst, f.best, f.gap, "phase",
               f.stride == r.period.value ? "" : fmt::format(" of {}", f.stride));
}

std::string curve(const Result& r) {
  return r.folded ? curve(*r.folded, r) : curve(r, r.worst, r.best, r.gap, "residue", "");
}

const record::Gap& main_gap(const Result& r) { return r.folded ? r.folded->gap : r.gap; }

// "Residue 5 has", "Residues 2 and 6 have", "Positions 1, 5, 9, 13 and 4 more have"
std::string names(const std::vector<std::int64_t>& list, std::string_view one) {
  if (list.size() == 1) return fmt::format("{} {} has", one, list.front());
  const std::size_t shown = list.size() > 5 ? 4 : list.size() - 1;
  std::string text =
      fmt::format("{}s {}", one,
                  fmt::join(list.begin(), list.begin() + static_cast<std::ptrdiff_t>(shown), ", "));
  return text + (list.size() > 5 ? fmt::format(" and {} more have", list.size() - shown)
                                 : fmt::format(" and {} have", list.back()));
}

std::vector<std::int64_t> empty_phases(const Result& r) {
  std::vector<std::int64_t> list;
  if (!r.folded) return list;
  for (const record::Group& g : r.folded->phases) {
    if (g.n == 0) list.push_back(g.index);
  }
  return list;
}

// " Phase 2 has no scored prompt: ..." Missing altogether is part of the verdict.
std::string unseen(const Result& r, const Coverage& coverage) {
  if (const auto phases = empty_phases(r); !phases.empty()) {
    return fmt::format(" {} no scored prompt: nothing is known there, and it may be the worst.",
                       names(phases, "Phase"));
  }
  std::vector<std::int64_t> holes;
  for (std::size_t k = 0; k < coverage.seen.size(); ++k) {
    if (!coverage.seen[k]) holes.push_back(coverage.first + static_cast<std::int64_t>(k));
  }
  if (holes.empty()) return "";
  return fmt::format(" {} no scored prompt: nothing is known there.",
                     names(holes, coverage.residues ? "Residue" : "Position"));
}

// Strides up to it matter even where missing residues leave no candidate.
constexpr std::int64_t kAlwaysLooked = 12;

// A whole phase of some period that these data should have shown, without a single prompt: no
// period can then be ruled out. Smallest period first.
std::optional<std::string> unseen_phase(const Result& r, const Coverage& coverage) {
  if (!empty_phases(r).empty()) return "a whole phase was not seen";  // unseen() names it
  const auto length = std::ssize(coverage.seen);
  std::int64_t largest = length / 2;
  if (coverage.residues && !r.period.candidates.empty()) {
    largest = std::max(r.period.candidates.back().period, std::min(largest, kAlwaysLooked));
  }
  for (std::int64_t s = 2; s <= largest; ++s) {
    if (coverage.residues && length % s != 0) continue;
    for (std::int64_t phase = 0; phase < std::min<std::int64_t>(s, length); ++phase) {
      bool any = false;
      for (std::int64_t k = phase; k < length; k += s)
        any = any || coverage.seen[static_cast<std::size_t>(k)];
      if (!any) {
        return fmt::format("phase {} of {} has no scored prompt", (coverage.first + phase) % s, s);
      }
    }
  }
  return std::nullopt;
}

// "all 120 replies are right"
std::string all_alike(const Result& r, const VerdictInput& input) {
  const bool share = is_share(r);
  if (input.equal_inside) {
    return fmt::format("{} {} differ between items only, never inside one", r.design.scored,
                       share ? "replies" : "scores");
  }
  if (r.design.scored == 1) return share ? "the only reply is right" : "there is only one score";
  return fmt::format("all {} {}", r.design.scored,
                     share ? "replies are right" : "scores are equal");
}

std::string whose_stride(const VerdictInput& input) {
  return fmt::format("the {} stride {}", input.known_source == "given" ? "given" : "model's",
                     *input.known_stride);
}

// What the known stride, which is another one than the period, looks like.
std::string other_stride(const Result& r, const VerdictInput& input) {
  if (!input.known_stride || *input.known_stride % *r.period.value == 0) return "";
  if (!r.other_stride) return fmt::format(" That is not {}.", whose_stride(input));
  return fmt::format(" That is not {}, by which it is: {}.", whose_stride(input),
                     curve(*r.other_stride, r));
}

std::string periodic_step(const Result& r, const VerdictInput& input) {
  if (input.known_stride && *input.known_stride % *r.period.value != 0) {
    return fmt::format(
        "Find out why the data repeat with {} and not with {}: is the stride right, and do "
        "positions count every token of the prompt (BOS, chat template)? Until then trust the "
        "period, which was tested, not phases of {}.",
        *r.period.value, *input.known_stride, *input.known_stride);
  }
  const std::optional<double> gap = main_gap(r).estimate.value;
  if (gap && is_share(r) && *gap < kSmallGap) {
    const record::Extreme& worst = r.folded ? r.folded->worst : r.worst;
    return fmt::format(
        "The effect is real but small. If {} at the worst phase is good enough for your use, "
        "nothing needs to change; say so with --require 'worst>=X'.",
        value(r, worst.estimate.value));
  }
  if (!r.design.mitigation.empty()) {
    return fmt::format(
        "With these prompts ({}) too, judge this model by its worst phase, not by its mean: "
        "kvphase compare PLAIN THIS says what they gain over plain ones, docs/mitigations.md what "
        "others did.",
        r.design.mitigation);
  }
  return "Judge this model by its worst phase, not by its mean: repeat key facts near the end or "
         "at several positions, and confirm the two extreme phases on fresh items before quoting "
         "the gap (kvphase analyze --confirm).";
}

Verdict periodic(const Result& r, const VerdictInput& input) {
  Verdict v{.kind = VerdictKind::kPeriodic};
  const bool inside = input.known_stride && *input.known_stride != *r.period.value &&
                      *input.known_stride % *r.period.value == 0;
  v.sentence = fmt::format(
      "Period {} ({}){}: {}; {} {} overall.", *r.period.value, p_text(r.period.p_value),
      inside ? fmt::format(", within the {} stride {}",
                           input.known_source == "given" ? "given" : "model's", *input.known_stride)
             : "",
      curve(r), score_word(r), value(r, r.mean.value));
  v.sentence += other_stride(r, input);
  if (r.period.p_misfit && *r.period.p_misfit <= kMisfitLevel * r.period.level) {
    v.sentence += fmt::format(
        " Positions also differ beyond this period ({}), so a phase averages over unequal ones.",
        p_text(r.period.p_misfit));
  }
  if (r.data_kind == "item-level" && !r.period.p_second) {
    v.sentence += fmt::format(
        " Slow drift along the positions is not excluded: {}, so that there is no second null.",
        r.period.p_second_reason);
  }
  v.sentence += unseen(r, input.coverage);
  v.next_step = periodic_step(r, input);
  return v;
}

Verdict not_learned(const Result& r, const VerdictInput& input) {
  Verdict v{.kind = VerdictKind::kNotLearned};
  const bool all_wrong = r.mean.value && *r.mean.value == 0;
  v.sentence = all_wrong ? fmt::format(
                               "The model answers none of {} prompts right, so nothing can be "
                               "said about phases.",
                               r.design.scored)
                         : fmt::format(
                               "The model has not learned the task: {} {} is below the {} asked "
                               "for, so a flat curve would mean nothing.",
                               score_word(r), value(r, r.mean.value), value(r, input.min_accuracy));
  v.next_step = "Train longer or make the task easier, then audit again.";
  return v;
}

Verdict no_period(const Result& r, const VerdictInput& input) {
  Verdict v{.kind = VerdictKind::kNoPeriod};
  std::string found = dip_text(r, *input.findable, input.all_equal);
  found[0] = 'O';
  std::string how;
  if (!input.unnameable_from.empty()) {
    how = fmt::format(" (as a difference; its period could not be named from {})",
                      input.unnameable_from);
  } else if (input.nameable && *input.nameable > 1.05 * *input.findable) {
    how = fmt::format(" (as a difference; as a period, one weaker by {})",
                      difference(r, input.nameable));
  }
  found = fmt::format(" {} would have been found in four of five runs{}.", found, how);
  if (input.all_equal) {
    v.sentence = fmt::format("No period: {}, so no phase is weaker than another.{}",
                             all_alike(r, input), found);
  } else {
    v.sentence = fmt::format("No period found ({}): {}; {} {} overall.{}", p_text(r.period.p_value),
                             curve(r), score_word(r), value(r, r.mean.value), found);
  }
  if (input.p_own_phases) {
    v.sentence += fmt::format(
        " Answers of the same item do go together ({}, permuted inside items), but not at phases "
        "that items share.",
        p_text(input.p_own_phases));
  }
  const std::string hint = score_hint(r);
  v.sentence += hint + unseen(r, input.coverage);
  v.next_step = *input.findable > kFindableShare / 2
                    ? "Run more items if smaller dips matter (kvphase plan says how many)."
                    : "Nothing to do for this task and length; other tasks and lengths need their "
                      "own audit.";
  if (r.gap.p_value && *r.gap.p_value <= r.period.level && !input.all_equal) {
    v.next_step =
        "The residues do differ more than noise explains: look at the curve for a position effect "
        "or a period that these positions cannot show.";
  }
  if (!hint.empty()) {
    v.next_step =
        "The answers do not show it here, but the scores do: ask more of the model (longer "
        "prompts, "
        "more records) and audit again before you rely on it.";
  }
  return v;
}

constexpr const char* kMorePositions =
    "Test more target positions: at least twice as many as the longest period that could matter.";
constexpr const char* kMoreItems = "Run more items; kvphase plan says how many.";

Verdict inconclusive(const Result& r, const Coverage& coverage, const std::string& why,
                     const std::string& next) {
  return {.kind = VerdictKind::kInconclusive,
          .sentence = fmt::format("Inconclusive: {}.{}", why, unseen(r, coverage)),
          .next_step = next};
}

// Residues differ beyond the noise of equal ones by the gap itself, at the level of a misfit.
bool certainly_differs(const Result& r) {
  return r.gap.p_value && *r.gap.p_value <= kMisfitLevel * r.period.level;
}

// What would tell a period from positions that merely differ: more cycles of it.
std::string what_would_decide(const Result& r) {
  constexpr std::int64_t kManyResidues = 24;
  if (r.data_kind == "counts" && r.design.modulus < kManyResidues) {
    return fmt::format(
        "Whether a period is behind it, counts modulo {} or more could decide, or the answers item "
        "by item at consecutive positions that start anywhere.",
        kManyResidues);
  }
  return "Whether a period is behind it, more target positions could decide: items that start at "
         "different positions, each at twice the longest period that could matter.";
}

// Positions differ for certain, but no period is named for it.
Verdict without_period(const Result& r, const VerdictInput& input) {
  // Without a significant search it is the gap that says so.
  const bool by_gap = r.period.p_value.value_or(0) > r.period.level;
  const bool drift = !by_gap && input.like_drift;
  const std::string step =
      !drift ? "Read the curve residue by residue: it, and not a phase, says what is weak. " +
                   what_would_decide(r)
             : "To tell them apart, run more items that start at different positions, "
               "with the prompts in random order.";
  const std::optional<double>& gap = r.gap.estimate.value;
  const bool small = is_share(r) && gap && *gap < kSmallGap;
  return inconclusive(
      r, input.coverage,
      fmt::format("{} differs between positions ({}), but {}: {}", score_word(r),
                  p_text(by_gap ? r.gap.p_value : r.period.p_value),
                  drift ? "slow drift along the positions, or phases of each item's own, would "
                          "look the same as a period"
                        : "no period explains how",
                  curve(r)),
      small ? fmt::format("Whatever it is, it is small ({}). ", difference(r, gap)) + step : step);
}

Verdict too_little(const Result& r, const VerdictInput& input) {
  if (input.all_equal) {
    return inconclusive(
        r, input.coverage,
        fmt::format("{}, but with so few even {} would often look the same{}", all_alike(r, input),
                    dip_text(r, input.findable.value_or(1), true), score_hint(r)),
        kMoreItems);
  }
  const std::string would =
      input.findable
          ? fmt::format("{} replies would find only a phase weaker by {}", r.design.scored,
                        difference(r, input.findable))
          : fmt::format("from {} replies nobody can say how weak a phase they would have shown",
                        r.design.scored);
  return inconclusive(
      r, input.coverage,
      fmt::format("no period found ({}), but {}{}", p_text(r.period.p_value), would, score_hint(r)),
      kMoreItems);
}

// A known stride that the search could not name was looked at by the gap of its phases alone.
std::optional<Verdict> unsearched(const Result& r, const VerdictInput& input) {
  if (!input.unsearched_stride || input.all_equal || !r.folded) return std::nullopt;
  const std::int64_t s = *input.known_stride;
  const std::string step = fmt::format(
      "Test at least {} consecutive target positions per item, two cycles of the stride.", 2 * s);
  const auto& p = r.folded->gap.p_value;
  if (p && *p <= r.period.level) {
    return inconclusive(
        r, input.coverage,
        fmt::format("{} differs between the phases of {} ({}), of which these positions hold no "
                    "two cycles, so that it cannot be named: {}",
                    score_word(r), whose_stride(input), p_text(p), curve(r)),
        step);
  }
  if (!input.findable_at_stride || *input.findable_at_stride > input.wanted) {
    return inconclusive(
        r, input.coverage,
        fmt::format("no period found ({}), but {} was not among the periods looked for, and {}",
                    p_text(r.period.p_value), whose_stride(input),
                    input.findable_at_stride
                        ? fmt::format("only one phase in {} weaker by {} would have been found", s,
                                      difference(r, input.findable_at_stride))
                        : "nobody can say how weak one of its phases would have been found"),
        step + " More items help, too.");
  }
  return std::nullopt;
}

}  // namespace

std::string dip_text(const Result& r, double dip, bool nothing_varies) {
  return is_share(r) || !nothing_varies
             ? "one phase in four weaker by " + difference(r, dip)
             : fmt::format("one phase in four with another score in {:.1f}% of its prompts",
                           100 * dip);
}

std::string score_hint(const Result& r) {
  const double level = r.period.level / (1 + static_cast<double>(r.scores.size()));
  for (const record::ScoreSummary& score : r.scores) {
    if (score.period.value && !r.period.value && score.period.p_value.value_or(1) <= level) {
      return fmt::format(" The {} does follow a period of {} ({}).", score.name,
                         *score.period.value, p_text(score.period.p_value));
    }
  }
  return "";
}

bool positions_differ(const Result& r) {
  if (r.period.value || !r.period.p_value) return false;
  return *r.period.p_value <= r.period.level || certainly_differs(r);
}

namespace {

Verdict decide_even(const Result& r, const VerdictInput& input) {
  if (r.design.scored == 0) {
    return inconclusive(r, {}, "no prompt has a usable reply", "Find out why replies are missing.");
  }
  if (r.period.value) return periodic(r, input);
  if (is_share(r) && r.mean.value &&
      (*r.mean.value == 0 || *r.mean.value < input.min_accuracy.value_or(0))) {
    return not_learned(r, input);
  }
  if (!r.period.p_value) return inconclusive(r, input.coverage, r.period.reason, kMorePositions);
  if (*r.period.p_value <= r.period.level) return without_period(r, input);
  if (input.all_equal && !input.enough_positions) {
    return inconclusive(r, input.coverage,
                        all_alike(r, input) +
                            ", but at fewer than four target positions, where no period could "
                            "repeat",
                        kMorePositions);
  }
  if (!input.unseen_stride.empty() && !input.all_equal) {
    return inconclusive(
        r, input.coverage,
        fmt::format("no period found ({}), but {}", p_text(r.period.p_value), input.unseen_stride),
        input.unseen_stride_step);
  }
  if (const auto phase = unseen_phase(r, input.coverage)) {
    return inconclusive(
        r, input.coverage,
        fmt::format("no period found ({}), but {}", p_text(r.period.p_value), *phase),
        "Run prompts whose target sits there.");
  }
  if (!input.findable || *input.findable > input.wanted) return too_little(r, input);
  if (!input.all_equal && certainly_differs(r)) return without_period(r, input);
  if (const auto verdict = unsearched(r, input)) return *verdict;
  return no_period(r, input);
}

}  // namespace

Verdict decide(const Result& r, const VerdictInput& input) {
  Verdict verdict = decide_even(r, input);
  if (input.uneven.empty()) return verdict;
  if (verdict.kind == VerdictKind::kNoPeriod) {
    verdict = inconclusive(
        r, {}, fmt::format("no period found ({}): {}", p_text(r.period.p_value), curve(r)), "");
  }
  verdict.sentence += " " + input.uneven;
  verdict.next_step = input.uneven_step;
  return verdict;
}

}  // namespace kvphase::audit
