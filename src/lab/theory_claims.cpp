#include "lab/theory_claims.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>

namespace kvphase::lab {
namespace {

constexpr double kLevel = 0.01;  // of all chi-squared tests of a claim together (Bonferroni)

std::string outcome_of(bool holds) { return holds ? "holds" : "fails"; }

TheoryClaim rules_claim(const TheoryStudy& study) {
  std::int64_t random = 0, optimised = 0, below = 0, one_hot = 0;
  double lowest = std::numeric_limits<double>::infinity();
  for (const RuleSearch& search : study.rules) {
    random += search.random;
    optimised += search.optimised;
    below += search.below;
    one_hot += search.optimised_one_hot;
    lowest = std::min({lowest, search.lowest_random, search.lowest_optimised});
  }
  TheoryClaim claim = {.name = "Theorem 1",
                       .text =
                           "no coefficient rule has lower loss than the best one-hot "
                           "assignment, pK = e_r and pV = e_(r+1)"};
  if (study.rules.empty()) {
    claim.outcome = "open";
    claim.evidence = "no setting of the grid has a vocabulary of at least L S";
    return claim;
  }
  claim.outcome = outcome_of(below == 0);
  claim.evidence = fmt::format(
      "{} of {} random rules and {} local minima ({} one-hot) lower; lowest {:+.1e} nats", below,
      random, optimised, one_hot, lowest);
  return claim;
}

TheoryClaim static_claim(const TheoryStudy& study) {
  const double tolerance = study.options.flow.tolerance;
  std::int64_t heads = study.main.heads, selected = study.main.selected, runs = study.main.runs;
  double worst = study.main.worst_offsets;
  for (const CoverageStudy& other : study.others) {
    heads += other.heads;
    selected += other.selected;
    runs += other.runs;
    worst = std::max(worst, other.worst_offsets);
  }
  return {.name = "Theorem 2, static",
          .text = fmt::format("from small starts every head ends at one position (static effective "
                              "offsets below {:g}), its value one after its key",
                              tolerance),
          .outcome = outcome_of(selected == heads),
          .evidence = fmt::format("{} of {} heads in {} flows by time {:g}; offsets up to {:.4f}",
                                  selected, heads, runs, study.options.flow.time, worst)};
}

TheoryClaim gated_claim(const GatedStudy& study, const char* name, const char* how) {
  return {.name = name,
          .text = "the same with gates that may look at the content",
          .outcome = outcome_of(study.selected == study.heads),
          .evidence =
              fmt::format("{} of {} heads in {} {}; offsets up to {:.4f} static, {:.4f} per window",
                          study.selected, study.heads, study.runs, how, study.worst_static,
                          study.worst_per_window)};
}

TheoryClaim fit_claim(std::string name, std::string text, const std::vector<const Fit*>& fits) {
  TheoryClaim claim = {.name = std::move(name), .text = std::move(text), .outcome = "open"};
  double lowest = 1;
  std::string tested;
  int count = 0;
  for (const Fit* fit : fits) {
    tested += tested.empty() ? "" : ", ";
    if (!fit->p) {
      tested += "not tested (" + fit->reason + ")";
      continue;
    }
    ++count;
    lowest = std::min(lowest, *fit->p);
    tested += fmt::format("{:.3f}", *fit->p);
  }
  claim.evidence = "chi-squared p " + tested;
  if (count > 0) claim.outcome = outcome_of(lowest * count >= kLevel);
  return claim;
}

TheoryClaim phase_claim(const TheoryStudy& study) {
  std::vector<const CoverageStudy*> studies = {&study.main};
  for (const CoverageStudy& other : study.others) studies.push_back(&other);
  std::optional<double> covered;  // lowest accuracy of a covered position
  double uncovered = 0, probability = 0, chance = 1;
  for (const CoverageStudy* s : studies) {
    if (s->covered_accuracy) covered = std::min(covered.value_or(1), *s->covered_accuracy);
    uncovered = std::max(uncovered, s->uncovered_accuracy.value_or(0));
    probability = std::max(probability, s->uncovered_probability.value_or(0));
    chance = std::min(chance, 1 / static_cast<double>(s->setting.vocabulary));
  }
  TheoryClaim claim = {
      .name = "Uncovered phases",
      .text =
          "positions that a head picked are retrieved, all others are at chance: top-1 accuracy at "
          "most 1/N, and the right token's probability at most 5% above 1/N"};
  if (!covered) {
    claim.outcome = "open";
    claim.evidence = "no head selected a position";
    return claim;
  }
  claim.outcome = outcome_of(*covered >= 1 && uncovered <= chance && probability <= 1.05);
  claim.evidence = fmt::format(
      "accuracy at least {:g} where covered, at most {:g} elsewhere (probability {:.4f} / N)",
      *covered, uncovered, probability);
  return claim;
}

}  // namespace

std::vector<TheoryClaim> judge(const TheoryStudy& study) {
  std::vector<const Fit*> positions = {&study.main.positions_fit};
  std::vector<const Fit*> distinct = {&study.main.distinct_fit};
  for (const CoverageStudy& other : study.others) {
    positions.push_back(&other.positions_fit);
    distinct.push_back(&other.distinct_fit);
  }
  positions.push_back(&study.gated.positions_fit);
  distinct.push_back(&study.gated.distinct_fit);
  return {rules_claim(study),
          static_claim(study),
          gated_claim(study.gated, "Theorem 2, log-linear", "flows"),
          gated_claim(study.sgd, "Theorem 2, log-linear, SGD", "runs"),
          fit_claim("Positions", "all retrievable positions are equally likely", positions),
          fit_claim("Coverage", "the number of covered positions follows balls in bins", distinct),
          phase_claim(study)};
}

std::string sentence_of(const std::vector<TheoryClaim>& claims) {
  std::string fails, open;
  for (const TheoryClaim& claim : claims) {
    std::string& list = claim.outcome == "fails" ? fails : open;
    if (claim.outcome == "holds") continue;
    list += (list.empty() ? "" : "; ") + claim.name;
  }
  std::string text = fails.empty() && open.empty()
                         ? fmt::format("All {} claims hold in this setting", claims.size())
                         : std::string();
  if (!fails.empty()) text = "Does not hold in this setting: " + fails;
  if (!open.empty()) text += (text.empty() ? "Open: " : ". Open: ") + open;
  return text + ".";
}

}  // namespace kvphase::lab
