#include "audit/verdict.h"

#include <fmt/format.h>

#include <string>

namespace kvphase::audit {
namespace {

using record::Result;
using record::Verdict;
using record::VerdictKind;

// A dip that this little data would still miss is not worth calling "none".
constexpr double kTooCoarse = 0.5;

bool is_share(const Result& r) { return r.score == "accuracy"; }

std::string value(const Result& r, std::optional<double> x) {
  if (!x) return "undefined";
  return is_share(r) ? fmt::format("{:.1f}%", 100 * *x) : fmt::format("{:.3f}", *x);
}

std::string difference(const Result& r, std::optional<double> x) {
  if (!x) return "undefined";
  return is_share(r) ? fmt::format("{:.1f} points", 100 * *x) : fmt::format("{:.3f}", *x);
}

std::string p_value(std::optional<double> p) {
  if (!p) return "p unknown";
  return *p < 0.0001 ? "p < 0.0001" : fmt::format("p = {:.2g}", *p);
}

std::string score_word(const Result& r) { return is_share(r) ? "accuracy" : "mean " + r.score; }

// "worst phase 3 at 31.3%, best phase 1 at 69.7%, gap 38.5 points (noise alone 4.5 points)"
std::string curve(const Result& r, const record::Extreme& worst, const record::Extreme& best,
                  const record::Gap& gap, std::string_view group) {
  if (!worst.group || !best.group) return "";
  return fmt::format("worst {} {} at {}, best {} {} at {}, gap {} (noise alone: {})", group,
                     *worst.group, value(r, worst.estimate.value), group, *best.group,
                     value(r, best.estimate.value), difference(r, gap.estimate.value),
                     difference(r, gap.noise));
}

std::string curve(const Result& r) {
  if (r.folded) return curve(r, r.folded->worst, r.folded->best, r.folded->gap, "phase");
  return curve(r, r.worst, r.best, r.gap, "residue");
}

// Continuous scores that show a period which right/wrong does not. Several scores are looked at
// beside it, so each must show it at its share of the level (Bonferroni).
std::string score_hint(const Result& r) {
  const double level = r.period.level / (1 + static_cast<double>(r.scores.size()));
  for (const record::ScoreSummary& score : r.scores) {
    if (score.period.value && !r.period.value && score.period.p_value.value_or(1) <= level) {
      return fmt::format(" The {} does follow a period of {} ({}).", score.name,
                         *score.period.value, p_value(score.period.p_value));
    }
  }
  return "";
}

Verdict periodic(const Result& r) {
  Verdict v{.kind = VerdictKind::kPeriodic};
  v.sentence =
      fmt::format("Period {} ({}): {}; {} {} overall.", *r.period.value, p_value(r.period.p_value),
                  curve(r), score_word(r), value(r, r.mean.value));
  v.next_step = fmt::format(
      "Judge this model by its worst phase, not by its mean: repeat key facts near the end or at "
      "several positions, and confirm the two extreme phases on fresh items before quoting the "
      "gap.");
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
  if (input.all_equal) {
    v.sentence = fmt::format(
        "No period: all {} {}, so no phase is weaker than another.{}", r.design.scored,
        r.score == "accuracy" ? "replies are right" : "scores are equal", score_hint(r));
  } else {
    v.sentence =
        fmt::format("No period found ({}): {}; {} {} overall.{}{}", p_value(r.period.p_value),
                    curve(r), score_word(r), value(r, r.mean.value),
                    input.findable ? fmt::format(" One phase in four weaker by {} would have been "
                                                 "found in four of five runs.",
                                                 difference(r, input.findable))
                                   : "",
                    score_hint(r));
  }
  v.next_step = input.findable && *input.findable > 0.1
                    ? "Run more items if smaller dips matter (kvphase plan says how many)."
                    : "Nothing to do for this task and length; other tasks and lengths need their "
                      "own audit.";
  if (r.gap.p_value && *r.gap.p_value <= r.period.level && !input.all_equal) {
    v.next_step =
        "The residues do differ more than noise explains: look at the curve for a position effect "
        "or a period that these positions cannot show.";
  }
  return v;
}

Verdict inconclusive(const Result& r, const std::string& why) {
  Verdict v{.kind = VerdictKind::kInconclusive};
  v.sentence = fmt::format("Inconclusive: {}.", why);
  v.next_step = r.design.modulus < 4
                    ? "Test more target positions: at least twice as many as the longest period "
                      "that could matter."
                    : "Run more items; kvphase plan says how many.";
  return v;
}

}  // namespace

Verdict decide(const Result& r, const VerdictInput& input) {
  if (r.design.scored == 0) return inconclusive(r, "no prompt has a usable reply");
  if (r.period.value) return periodic(r);
  const bool share = is_share(r);
  if (share && r.mean.value &&
      (*r.mean.value == 0 || *r.mean.value < input.min_accuracy.value_or(0))) {
    return not_learned(r, input);
  }
  if (!r.period.p_value) return inconclusive(r, r.period.reason);
  if (*r.period.p_value <= r.period.level) {
    return inconclusive(r, fmt::format("something repeats ({}), but {}", p_value(r.period.p_value),
                                       r.period.reason));
  }
  if (share && input.findable && *input.findable > kTooCoarse && !input.all_equal) {
    return inconclusive(
        r, fmt::format("no period found ({}), but {} replies would find only a phase weaker by {}",
                       p_value(r.period.p_value), r.design.scored, difference(r, input.findable)));
  }
  return no_period(r, input);
}

}  // namespace kvphase::audit
