#include "audit/claims.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <tuple>

namespace kvphase::audit {
namespace {

using record::Claim;
using record::ClaimOutcome;
using record::ClaimPart;
using record::Estimate;
using record::Result;
using record::VerdictKind;

constexpr double kLevel = 0.05;
constexpr double kLearned = 0.10;  // mean below which a curve's shape says nothing
constexpr double kSure = 0.95;  // share of bootstrap replicates that settles which phase is worst

const std::string& name_of(const ClaimRun& run) { return run.name; }

// Trainings of several lengths are told apart by their steps.
std::vector<ClaimRun> named(std::vector<ClaimRun> runs) {
  std::set<std::int64_t> lengths;
  for (const ClaimRun& run : runs) lengths.insert(run.steps);
  for (ClaimRun& run : runs) {
    if (!run.name.empty()) continue;
    run.name = fmt::format("{}, seed {}, {}", run.design, run.seed, run.padding);
    if (lengths.size() > 1) run.name += fmt::format(", {} steps", run.steps);
  }
  return runs;
}

ClaimOutcome holds_if(bool holds) { return holds ? ClaimOutcome::kHolds : ClaimOutcome::kFails; }

std::string p_text(double p) {
  return p < 0.0001 ? std::string("p < 0.0001") : fmt::format("p = {:.4f}", p);
}

std::string points(const Estimate& x) {
  if (!x.value) return "unknown";
  const std::string value = fmt::format("{:.1f}", 100 * *x.value);
  if (!x.low || !x.high) return value;
  return fmt::format("{} [{:.1f} to {:.1f}]", value, 100 * *x.low, 100 * *x.high);
}

std::optional<std::int64_t> named_period(const Result& result) {
  return result.verdict.kind == VerdictKind::kPeriodic ? result.period.value : std::nullopt;
}

std::string period_text(const Result& result) {
  if (const auto period = named_period(result)) {
    return fmt::format("period {}{}", *period,
                       result.period.p_value ? ", " + p_text(*result.period.p_value) : "");
  }
  return fmt::format("no period named ({})", record::name_of(result.verdict.kind));
}

// The gap that the claims speak of: over phases where a chunked model's curve is folded.
const record::Gap& gap_of(const Result& result) {
  return result.folded ? result.folded->gap : result.gap;
}

bool beyond_noise(const record::Gap& gap) {
  return gap.estimate.low && gap.noise_high && *gap.estimate.low > *gap.noise_high;
}

bool learned(const ClaimRun& run) { return run.result.mean.value.value_or(0) >= kLearned; }

// Runs that claims about chunked models are tested on.
bool chunked_aligned(const ClaimRun& run) { return run.stride && !run.staggered && learned(run); }
bool without_overlap(const ClaimRun& run) {
  return chunked_aligned(run) && run.window == run.stride;
}

// One part per run that `bears`, judged by `judge`.
Claim over_runs(Claim claim, const std::vector<ClaimRun>& runs,
                const std::function<bool(const ClaimRun&)>& bears,
                const std::function<ClaimPart(const ClaimRun&)>& judge) {
  for (const ClaimRun& run : runs) {
    if (!bears(run)) continue;
    ClaimPart part = judge(run);
    part.name = name_of(run);
    claim.parts.push_back(std::move(part));
  }
  return claim;
}

Claim models_have_learned(const std::vector<ClaimRun>& runs) {
  Claim claim = over_runs(
      {.name = "learned",
       .text = "the model can do the task, so that its curve means something",
       .test = fmt::format("at least {:.0f}% right over all; runs below it take no part in what "
                           "follows",
                           100 * kLearned)},
      runs, [](const ClaimRun&) { return true; },
      [](const ClaimRun& run) {
        return ClaimPart{
            .finding = fmt::format("{:.1f}% right", 100 * run.result.mean.value.value_or(0)),
            .outcome = holds_if(learned(run))};
      });
  conclude(claim);
  return claim;
}

ClaimPart names_its_stride(const ClaimRun& run) {
  return {.finding = period_text(run.result),
          .outcome = holds_if(named_period(run.result) == run.stride)};
}

Claim period_is_the_stride(const std::vector<ClaimRun>& runs) {
  Claim claim = over_runs({.name = "period",
                           .text = "accuracy repeats with the stride S, whether windows overlap or "
                                   "not",
                           .test = "the period test names S itself, on aligned grids"},
                          runs, chunked_aligned, names_its_stride);
  std::set<std::int64_t> strides;
  for (const ClaimRun& run : runs) {
    if (chunked_aligned(run)) strides.insert(*run.stride);
  }
  if (!strides.empty()) claim.sentence = fmt::format("; strides {}", fmt::join(strides, ", "));
  conclude(claim);
  return claim;
}

// Design by design, whatever has learned or not: what a reader of one row can rely on.
Claim every_design_names_its_stride(const std::vector<ClaimRun>& runs) {
  constexpr std::size_t kCombinations = 9;
  constexpr std::size_t kNeeded = 8;
  Claim claim{.name = "every design",
              .text =
                  "for every chunked design on aligned grids the period test names the stride "
                  "in nearly all seeds and paddings",
              .test = fmt::format("S is named in at least {} of {} runs of a design trained for "
                                  "equally long, unlearned ones included (open: other numbers of "
                                  "runs)",
                                  kNeeded, kCombinations)};
  struct Tally {
    std::size_t runs = 0, named = 0, unlearned = 0;
  };
  std::map<std::pair<std::string, std::int64_t>, Tally> designs;
  for (const ClaimRun& run : runs) {
    if (!run.stride || run.staggered) continue;
    Tally& tally = designs[{run.design, run.steps}];
    ++tally.runs;
    if (!learned(run)) ++tally.unlearned;
    if (learned(run) && named_period(run.result) == run.stride) ++tally.named;
  }
  for (const auto& [key, tally] : designs) {
    ClaimPart part{
        .name = fmt::format("{}, {} steps", key.first, key.second),
        .finding = fmt::format(
            "{} of {} name S{}", tally.named, tally.runs,
            tally.unlearned == 0 ? "" : fmt::format("; {} not learned", tally.unlearned))};
    if (tally.runs == kCombinations) part.outcome = holds_if(tally.named >= kNeeded);
    claim.parts.push_back(std::move(part));
  }
  conclude(claim);
  return claim;
}

Claim controls_are_flat(const std::vector<ClaimRun>& runs) {
  const auto controls =
      std::ranges::count_if(runs, [](const ClaimRun& run) { return !run.stride; });
  const double level = controls > 0 ? kLevel / static_cast<double>(controls) : kLevel;
  Claim claim = over_runs(
      {.name = "controls",
       .text = "full attention has no period, and its gap is within noise",
       .test = fmt::format("no period is named and the gap's p (shifted items) is above {:.4f} "
                           "(0.05 over all controls); a control that has not learned decides "
                           "nothing",
                           level)},
      runs, [](const ClaimRun& run) { return !run.stride; },
      [&](const ClaimRun& run) {
        const Result& result = run.result;
        ClaimPart part{
            .finding = fmt::format("{}; mean {:.1f}%, gap {} points{}", period_text(result),
                                   100 * result.mean.value.value_or(0), points(result.gap.estimate),
                                   result.gap.p_value ? ", " + p_text(*result.gap.p_value) : "")};
        const bool noisy_gap = !result.gap.p_value || *result.gap.p_value > level;
        if (!learned(run)) {
          part.outcome = ClaimOutcome::kOpen;
        } else if (named_period(result) || !noisy_gap) {
          part.outcome = ClaimOutcome::kFails;
        } else if (result.verdict.kind == VerdictKind::kNoPeriod) {
          part.outcome = ClaimOutcome::kHolds;
        }
        return part;
      });
  conclude(claim);
  return claim;
}

// P(at least k of independent events), each with its own chance.
double at_least(std::size_t k, const std::vector<double>& chances) {
  std::vector<double> exactly = {1};
  for (const double chance : chances) {
    exactly.push_back(0);
    for (std::size_t i = exactly.size(); i-- > 0;) {
      exactly[i] = exactly[i] * (1 - chance) + (i > 0 ? exactly[i - 1] * chance : 0);
    }
  }
  double sum = 0;
  for (std::size_t i = k; i < exactly.size(); ++i) sum += exactly[i];
  return std::min(1.0, sum);
}

Claim boundary_is_weakest(const std::vector<ClaimRun>& runs) {
  const auto bears = [](const ClaimRun& run) {
    return without_overlap(run) && run.result.folded && run.result.folded->stride == *run.stride &&
           run.result.folded->worst.group;
  };
  Claim claim = over_runs(
      {.name = "boundary",
       .text = "with W = S the boundary phase S-1, whose value falls into the next entry, is the "
               "weakest",
       .test = "phase S-1 is the worst in 95% of bootstrap replicates over items (fails: in at "
               "most 5%)"},
      runs, bears, [](const ClaimRun& run) {
        const record::Folded& folded = *run.result.folded;
        const auto boundary = static_cast<std::size_t>(*run.stride - 1);
        const double share = folded.phases[boundary].worst_share.value_or(0);
        ClaimPart part{.finding = fmt::format("worst phase {} at {}%; phase {} worst in {:.0f}% of "
                                              "replicates",
                                              *folded.worst.group, points(folded.worst.estimate),
                                              boundary, 100 * share)};
        if (share >= kSure) part.outcome = ClaimOutcome::kHolds;
        if (share <= 1 - kSure) part.outcome = ClaimOutcome::kFails;
        return part;
      });
  // A model counts once: its paddings are not independent.
  std::set<std::tuple<std::string, std::uint64_t>> seen;
  std::vector<double> chances;
  std::size_t weakest = 0;
  for (const ClaimRun& run : runs) {
    if (!bears(run) || !seen.insert({run.design, run.seed}).second) continue;
    chances.push_back(1 / static_cast<double>(*run.stride));
    if (*run.result.folded->worst.group == *run.stride - 1) ++weakest;
  }
  if (!chances.empty()) {
    claim.sentence = fmt::format(
        "; it is the observed worst phase in {} of {} models, where chance (1/S each) gives {}",
        weakest, chances.size(), p_text(at_least(weakest, chances)));
  }
  conclude(claim);
  return claim;
}

// That the effect is there at all: the stride is named and the gap stands out of noise.
Claim effect_persists(const std::vector<ClaimRun>& runs, Claim claim,
                      const std::function<bool(const std::string&)>& design) {
  claim.test =
      "the period test names S, and the gap's interval lies above what noise gives (95th "
      "percentile)";
  claim = over_runs(
      std::move(claim), runs,
      [&](const ClaimRun& run) { return chunked_aligned(run) && design(run.design); },
      [](const ClaimRun& run) {
        const record::Gap& gap = gap_of(run.result);
        return ClaimPart{
            .finding = fmt::format("{}; gap {} points, noise {:.1f}", period_text(run.result),
                                   points(gap.estimate), 100 * gap.noise.value_or(0)),
            .outcome = holds_if(named_period(run.result) == run.stride && beyond_noise(gap))};
      });
  conclude(claim);
  return claim;
}

// The phases before the boundary.
stats::PhaseMatrix interior(const stats::PhaseMatrix& matrix) {
  stats::PhaseMatrix inner{.phases = matrix.phases - 1, .cell = {}, .dropped = matrix.dropped};
  for (std::size_t i = 0; i < matrix.items(); ++i) {
    const auto row = matrix.row(i);
    inner.cell.insert(inner.cell.end(), row.begin(), row.end() - 1);
  }
  return inner;
}

std::vector<double> phase_means(const stats::PhaseMatrix& matrix) {
  std::vector<double> means(matrix.phases, 0);
  for (std::size_t i = 0; i < matrix.items(); ++i) {
    for (std::size_t p = 0; p < matrix.phases; ++p) means[p] += matrix.row(i)[p];
  }
  for (double& mean : means) mean /= static_cast<double>(std::max<std::size_t>(1, matrix.items()));
  return means;
}

// Sets each part's outcome from its p-value, all corrected together by Holm: a difference that is
// not shown may be there all the same.
void judge_by_holm(std::vector<ClaimPart>& parts, const std::vector<double>& p) {
  const std::vector<double> adjusted = stats::holm(p);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    parts[i].finding += fmt::format("; {} (Holm)", p_text(adjusted[i]));
    parts[i].outcome = adjusted[i] <= kLevel ? ClaimOutcome::kHolds : ClaimOutcome::kOpen;
  }
}

Claim spread_inside_the_window(const std::vector<ClaimRun>& runs) {
  Claim claim{.name = "within window",
              .text =
                  "not only the boundary: phases 0 to S-2, whose key and value share an entry, "
                  "differ among themselves",
              .test =
                  "Cochran's Q over these phases on the same items, p by shifted items, Holm over "
                  "all runs (open: not shown)"};
  std::vector<double> p;
  for (const ClaimRun& run : runs) {
    if (!without_overlap(run) || !run.phases || run.phases->phases < 3) continue;
    const stats::PhaseMatrix inner = interior(*run.phases);
    const auto test = stats::cochran_q(inner);
    if (!test.p_permutation) continue;
    const std::vector<double> means = phase_means(inner);
    const auto [low, high] = std::ranges::minmax(means);
    claim.parts.push_back({.name = name_of(run),
                           .finding = fmt::format("{:.1f} to {:.1f}% over phases 0 to {}",
                                                  100 * low, 100 * high, *run.stride - 2)});
    p.push_back(*test.p_permutation);
  }
  judge_by_holm(claim.parts, p);
  conclude(claim);
  return claim;
}

Claim mean_hides_the_worst(const std::vector<ClaimRun>& runs, const std::vector<ClaimPair>& pairs) {
  Claim claim{.name = "mean",
              .text =
                  "a chunked model's mean can be close to its control's while its worst phase "
                  "is far below",
              .test =
                  "against full attention with as many KV heads on the same prompts: the mean's "
                  "difference lies within 5 points, the worst's below -5 (both whole "
                  "intervals); open when an interval crosses"};
  constexpr double kClose = 0.05;
  for (const ClaimPair& pair : pairs) {
    const ClaimRun& run = runs[pair.run];
    const ClaimRun& reference = runs[pair.reference];
    if (!chunked_aligned(run) || reference.stride || !learned(reference)) continue;
    if (!pair.mean.low || !pair.worst.high) continue;
    const bool close = *pair.mean.low > -kClose && *pair.mean.high < kClose;
    const bool apart = *pair.mean.high < -kClose || *pair.mean.low > kClose;
    const bool below = *pair.worst.high < -kClose;
    const bool not_below = *pair.worst.low > -kClose;
    claim.parts.push_back(
        {.name = name_of(run),
         .finding = fmt::format(
             "mean {} points, worst {} points against {}{}", points(pair.mean), points(pair.worst),
             reference.design,
             reference.steps == run.steps ? "" : fmt::format(" of {} steps", reference.steps)),
         .outcome = close && below       ? ClaimOutcome::kHolds
                    : apart || not_below ? ClaimOutcome::kFails
                                         : ClaimOutcome::kOpen});
  }
  claim.sentence = "; the claim is that it can happen: one is enough";
  conclude(claim);
  if (claim.outcome == ClaimOutcome::kMixed) claim.outcome = ClaimOutcome::kHolds;
  return claim;
}

Claim seeds_move_weak_phases(const std::vector<ClaimRun>& runs) {
  Claim claim{.name = "seeds",
              .text = "which phases are weak differs between seeds of one design",
              .test =
                  "phases 0 to S-2 of two seeds on the same items: Cochran's Q of their "
                  "difference, p by shifted items, Holm over all pairs; holds when it is "
                  "significant and another phase is the weakest, fails when it is and the same "
                  "one is (open: no difference shown)"};
  std::vector<double> p;
  std::vector<bool> moved;
  for (std::size_t a = 0; a < runs.size(); ++a) {
    for (std::size_t b = a + 1; b < runs.size(); ++b) {
      const ClaimRun& first = runs[a];
      const ClaimRun& second = runs[b];
      if (first.design != second.design || first.padding != second.padding ||
          first.steps != second.steps || first.seed == second.seed || !chunked_aligned(first) ||
          !chunked_aligned(second) || !first.phases || !second.phases || first.phases->phases < 4 ||
          first.phases->cell.size() != second.phases->cell.size()) {
        continue;
      }
      const stats::PhaseMatrix one = interior(*first.phases);
      stats::PhaseMatrix difference = one;
      const stats::PhaseMatrix two = interior(*second.phases);
      for (std::size_t i = 0; i < one.cell.size(); ++i) difference.cell[i] -= two.cell[i];
      const auto test = stats::cochran_q(difference);
      if (!test.p_permutation) continue;
      const auto weakest = [](const stats::PhaseMatrix& matrix) {
        const std::vector<double> means = phase_means(matrix);
        return std::ranges::min_element(means) - means.begin();
      };
      claim.parts.push_back(
          {.name = fmt::format("{}, seeds {} and {}, {}", first.design, first.seed, second.seed,
                               first.padding),
           .finding = fmt::format("weakest phases {} and {}", weakest(one), weakest(two))});
      p.push_back(*test.p_permutation);
      moved.push_back(weakest(one) != weakest(two));
    }
  }
  judge_by_holm(claim.parts, p);
  for (std::size_t i = 0; i < claim.parts.size(); ++i) {
    if (claim.parts[i].outcome == ClaimOutcome::kHolds && !moved[i]) {
      claim.parts[i].outcome = ClaimOutcome::kFails;
    }
  }
  conclude(claim);
  return claim;
}

// Two runs of one model, or of one design and seed: the gap changes, the period stays.
ClaimPart changed_gap(const ClaimRun& before, const ClaimRun& after, bool must_narrow) {
  const Estimate& a = gap_of(before.result).estimate;
  const Estimate& b = gap_of(after.result).estimate;
  ClaimPart part{.finding = fmt::format("gap {} points, then {}; {}, then {}", points(a), points(b),
                                        period_text(before.result), period_text(after.result))};
  const bool same_period =
      named_period(before.result) && named_period(before.result) == named_period(after.result);
  const bool narrower = a.low && b.high && *b.high < *a.low;
  const bool wider = a.high && b.low && *b.low > *a.high;
  if (!same_period || (must_narrow && wider)) {
    part.outcome = ClaimOutcome::kFails;
  } else if (narrower || (wider && !must_narrow)) {
    part.outcome = ClaimOutcome::kHolds;
  }
  return part;
}

// One part per pair of runs of one design and seed that `is_pair`.
Claim over_changes(Claim claim, const std::vector<ClaimRun>& runs, bool must_narrow,
                   const std::function<bool(const ClaimRun&, const ClaimRun&)>& is_pair,
                   const std::function<std::string(const ClaimRun&, const ClaimRun&)>& name) {
  for (const ClaimRun& before : runs) {
    if (!chunked_aligned(before)) continue;
    for (const ClaimRun& after : runs) {
      if (after.design != before.design || after.seed != before.seed || !learned(after) ||
          !is_pair(before, after)) {
        continue;
      }
      ClaimPart part = changed_gap(before, after, must_narrow);
      part.name = name(before, after);
      claim.parts.push_back(std::move(part));
    }
  }
  conclude(claim);
  return claim;
}

Claim padding_keeps_the_period(const std::vector<ClaimRun>& runs, Claim claim,
                               const std::string& padding) {
  claim.test = fmt::format(
      "prefix, then {} padding of one model: the same period, and gaps whose intervals do not "
      "touch "
      "(open when they do)",
      padding);
  return over_changes(
      std::move(claim), runs, false,
      [&padding](const ClaimRun& before, const ClaimRun& after) {
        return before.padding == "prefix" && after.padding == padding &&
               after.steps == before.steps;
      },
      [](const ClaimRun& before, const ClaimRun&) {
        return fmt::format("{}, seed {}", before.design, before.seed);
      });
}

Claim longer_training_narrows(const std::vector<ClaimRun>& runs) {
  return over_changes(
      {.name = "longer training",
       .text = "longer training narrows the gap and keeps the period",
       .test = "one design and seed trained for more steps: the same period and a gap whose "
               "interval lies below the shorter one's (open when they touch)"},
      runs, true,
      [](const ClaimRun& before, const ClaimRun& after) {
        return after.padding == before.padding && after.steps > before.steps;
      },
      [](const ClaimRun& before, const ClaimRun& after) {
        return fmt::format("{}, seed {}, {}: {} and {} steps", before.design, before.seed,
                           before.padding, before.steps, after.steps);
      });
}

Claim staggering_lifts_the_worst(const std::vector<ClaimRun>& runs,
                                 const std::vector<ClaimPair>& pairs) {
  Claim claim{.name = "staggered grids",
              .text =
                  "ours: grids shifted from KV head to KV head lift the worst phase and narrow "
                  "the gap at equal cache bytes",
              .test =
                  "against the aligned twin on the same prompts: the worst's difference lies "
                  "above 0 and the gap's below 0 (whole intervals)"};
  for (const ClaimPair& pair : pairs) {
    const ClaimRun& run = runs[pair.run];
    if (!run.staggered || !learned(run) || !chunked_aligned(runs[pair.reference])) continue;
    if (!pair.worst.low || !pair.gap.high) continue;
    const bool worse = *pair.worst.high <= 0 || *pair.gap.low >= 0;
    claim.parts.push_back(
        {.name = name_of(run),
         .finding = fmt::format("mean {}, worst {}, gap {} points", points(pair.mean),
                                points(pair.worst), points(pair.gap)),
         .outcome = *pair.worst.low > 0 && *pair.gap.high < 0 ? ClaimOutcome::kHolds
                    : worse                                   ? ClaimOutcome::kFails
                                                              : ClaimOutcome::kOpen});
  }
  conclude(claim);
  return claim;
}

}  // namespace

std::vector<Claim> test_claims(const std::vector<ClaimRun>& given,
                               const std::vector<ClaimPair>& pairs) {
  const std::vector<ClaimRun> runs = named(given);
  const auto contains = [](const char* part) {
    return [part](const std::string& design) { return design.find(part) != std::string::npos; };
  };
  return {models_have_learned(runs),
          period_is_the_stride(runs),
          every_design_names_its_stride(runs),
          controls_are_flat(runs),
          boundary_is_weakest(runs),
          spread_inside_the_window(runs),
          effect_persists(runs, {.name = "no RoPE", .text = "the effect is there without RoPE"},
                          contains("no-rope")),
          effect_persists(runs,
                          {.name = "uniform averaging",
                           .text = "the effect is there when entries are plain means of tokens"},
                          contains("uniform")),
          mean_hides_the_worst(runs, pairs),
          seeds_move_weak_phases(runs),
          padding_keeps_the_period(
              runs,
              {.name = "padding",
               .text = "padding between the records changes the gap but not the period"},
              "in-sequence"),
          padding_keeps_the_period(
              runs,
              {.name = "padding around the target",
               .text = "ours: padding around the target alone changes the gap but not the period"},
              "around-target"),
          longer_training_narrows(runs),
          staggering_lifts_the_worst(runs, pairs)};
}

}  // namespace kvphase::audit
