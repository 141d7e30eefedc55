#include "audit/some_residues.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "audit/findable.h"
#include "audit/scores.h"
#include "audit/wording.h"
#include "base/error.h"
#include "base/number_text.h"

namespace kvphase::audit {
namespace {

using record::Result;
using record::VerdictKind;

// The data with each asked residue's rank in place of the position: groups without gaps.
record::Dataset ranked(const record::Dataset& data, std::span<const std::int64_t> residues) {
  if (!data.rows || residues.size() < 2) {
    throw base::usage_error("analyze",
                            "expected prompt-level scores at 2 or more residues, got {} residues{}",
                            residues.size(), data.rows ? "" : " of counts");
  }
  record::Dataset dense = data;
  for (std::int32_t& position : dense.rows->position) {
    const std::int64_t residue = position % data.modulus;
    const auto found = std::ranges::lower_bound(residues, residue);
    if (found == residues.end() || *found != residue) {
      throw base::usage_error("analyze", "expected positions at residues {}, got one at {}",
                              fmt::join(residues, ", "), residue);
    }
    position = static_cast<std::int32_t>(found - residues.begin());
  }
  if (record::prepare_rows(*dense.rows)) {
    throw base::usage_error("analyze", "expected one reply per item and residue, got two");
  }
  dense.modulus = std::ssize(residues);
  dense.stride.reset();
  dense.window.reset();
  return dense;
}

void rename(record::Extreme& extreme, std::span<const std::int64_t> residues) {
  if (extreme.group) extreme.group = residues[static_cast<std::size_t>(*extreme.group)];
}

std::string percent(std::optional<double> x) {
  return x ? fmt::format("{:.1f}%", 100 * *x) : "undefined";
}

std::string difference(const Result& r, std::optional<double> x) {
  if (!x) return "undefined";
  return r.score == "accuracy" ? fmt::format("{:.1f} points", 100 * *x) : base::score_text(*x);
}

record::Verdict decide_some(const Result& r, std::int64_t modulus, const AnalysisOptions& options,
                            std::optional<double> dip, bool all_equal) {
  const bool share = r.score == "accuracy";
  const auto value = [&](std::optional<double> x) {
    return share ? percent(x) : x ? base::score_text(*x) : "undefined";
  };
  const std::string asked = fmt::format("{} of {} residues", r.residues.size(), modulus);
  if (r.design.scored == 0) {
    return {VerdictKind::kInconclusive, "Inconclusive: no prompt has a usable reply.",
            "Find out why replies are missing."};
  }
  if (share && r.mean.value &&
      (*r.mean.value == 0 || *r.mean.value < options.min_accuracy.value_or(0))) {
    return {VerdictKind::kNotLearned,
            fmt::format("The model has not learned the task: accuracy {}, so nothing can be said "
                        "about residues.",
                        percent(r.mean.value)),
            "Make the task easier, then audit again."};
  }
  const std::string curve =
      r.worst.group && r.best.group
          ? fmt::format("worst of these {} at {}, best {} at {}, gap {} (noise alone: {})",
                        *r.worst.group, value(r.worst.estimate.value), *r.best.group,
                        value(r.best.estimate.value), difference(r, r.gap.estimate.value),
                        difference(r, r.gap.noise))
          : "";
  const double p = r.gap.p_value.value_or(1);
  if (p <= options.level && !all_equal) {
    return {VerdictKind::kPeriodic,
            fmt::format("Residues differ ({}, {} asked): {}; {} overall.", p_text(p), asked, curve,
                        value(r.mean.value)),
            "Judge this model by its worst residue; residues that were not asked may be worse. Ask "
            "for every residue to see the whole curve."};
  }
  if (!dip || ((share || all_equal) && *dip > kFindableShare)) {
    return {VerdictKind::kInconclusive,
            fmt::format("Inconclusive: no difference found ({}, {} asked), but {} replies would "
                        "find only {}.",
                        all_equal ? "all replies are alike" : p_text(p), asked, r.design.scored,
                        dip ? "a residue weaker by " + difference(r, dip)
                            : std::string("a residue that is always wrong, if that")),
            "Run more items."};
  }
  return {VerdictKind::kNoPeriod,
          all_equal
              ? fmt::format("No difference: all {} replies are alike ({} asked).", r.design.scored,
                            asked)
              : fmt::format("No difference found among the residues ({}, {} asked): {}; {} "
                            "overall. One residue weaker by {} would have been found in four of "
                            "five runs.",
                            p_text(p), asked, curve, value(r.mean.value), difference(r, dip)),
          "Residues that were not asked are not judged; ask for every residue to see them."};
}

}  // namespace

Result analyse_some(const record::Dataset& data, std::span<const std::int64_t> residues,
                    const AnalysisOptions& options) {
  const record::Dataset dense = ranked(data, residues);
  AnalysisOptions inner = options;
  inner.requirements.clear();
  inner.stride.reset();
  inner.window.reset();
  Result r = analyse(dense, inner);
  r.folded.reset();
  const std::string reason = fmt::format(
      "no search: {} of {} residues were asked, among which no period can be told from another",
      residues.size(), data.modulus);
  const auto no_search = [&](record::Period& period) {
    period = {.p_second_reason = "no search",
              .p_misfit_reason = "no search",
              .level = options.level,
              .method = "none: some residues only",
              .reason = reason};
  };
  no_search(r.period);
  for (record::ScoreSummary& score : r.scores) no_search(score.period);

  const Column column = main_column(*dense.rows);
  const stats::ScoreTable table = score_table(*dense.rows, column);
  const std::optional<double> variance =
      noise_variance(table, dense.rows->items_known && is_paired(table));
  const bool all_equal =
      std::ranges::adjacent_find(table.score, std::ranges::not_equal_to()) == table.score.end();
  const FindableInput findable{.observations = r.design.scored,
                               .variance = variance.value_or(0),
                               .share = r.score == "accuracy" ? r.mean.value : std::nullopt,
                               .stride = std::ssize(residues),
                               .candidates = 1,
                               .level = options.level};
  std::optional<double> dip;
  if (all_equal) {
    dip = findable_dip_of_equal(
        r.design.items > 0 ? std::min(r.design.items, r.design.scored) : r.design.scored, findable);
  } else if (variance) {
    dip = findable_dip(findable);
  }
  RequirementInput input{.group = "residue",
                         .dip = dip,
                         .variance = variance,
                         .all_equal = all_equal,
                         .alpha = options.level,
                         .seed = options.seed};
  if (dense.rows->has_right_wrong) {
    input.gate = gate_counts(*dense.rows, dense.modulus, options.seed);
  }
  const auto rank_list = [&] {
    std::vector<std::string> parts;
    for (std::size_t i = 0; i < residues.size(); ++i) {
      parts.push_back(fmt::format("{} = {}", i, residues[i]));
    }
    return fmt::format("{}", fmt::join(parts, ", "));
  };
  for (const Requirement& requirement : options.requirements) {
    if (requirement.kind == RequirementKind::kNoPeriod) {
      r.requirements.push_back({.text = requirement.text,
                                .outcome = "inconclusive",
                                .sentence = "Not decided: " + reason + "."});
      continue;
    }
    record::Requirement decided = decide_requirement(requirement, r, input);
    decided.sentence += fmt::format(
        " (Of the residues that were asked, numbered in their order: {}.)", rank_list());
    r.requirements.push_back(std::move(decided));
  }

  for (record::Group& group : r.residues) {
    group.index = residues[static_cast<std::size_t>(group.index)];
  }
  rename(r.worst, residues);
  rename(r.best, residues);
  r.design.modulus = data.modulus;
  r.positions = data.positions;
  // What analyse() notes of strides and periods is about ranks, not residues.
  std::erase_if(r.notes, [](const std::string& note) {
    return note.find("stride") != std::string::npos || note.find("period") != std::string::npos ||
           note.find("p-value") != std::string::npos;
  });
  r.notes.push_back(fmt::format(
      "Residues asked: {} of 0..{}. Differences among them and the worst of them are judged, the "
      "others are not, and no period is searched.",
      fmt::join(residues, ", "), data.modulus - 1));
  r.verdict = decide_some(r, data.modulus, options, dip, all_equal);
  return r;
}

}  // namespace kvphase::audit
