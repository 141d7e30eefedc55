#include "audit/requirement.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "audit/findable.h"
#include "audit/notes.h"
#include "audit/verdict.h"
#include "audit/wording.h"
#include "base/error.h"
#include "base/nearest.h"
#include "base/number_text.h"
#include "stats/gate.h"
#include "stats/interval.h"
#include "stats/missing.h"

namespace kvphase::audit {
namespace {

using record::Result;

struct Decision {
  stats::GateVerdict verdict = stats::GateVerdict::kInconclusive;
  std::string sentence;
};

Decision pass(std::string sentence) { return {stats::GateVerdict::kPass, std::move(sentence)}; }
Decision fail(std::string sentence) { return {stats::GateVerdict::kFail, std::move(sentence)}; }
Decision unknown(std::string sentence) {
  return {stats::GateVerdict::kInconclusive, std::move(sentence)};
}

bool is_share(const Result& r) { return r.score == "accuracy"; }

std::string percent(double x) { return fmt::format("{:.1f}%", 100 * x); }

std::string size_of(const Result& r, double x) {
  return is_share(r) ? fmt::format("{:.1f} points", 100 * x) : base::score_text(x);
}

Decision decide_worst(double wanted, const Result& r, const RequirementInput& input) {
  if (!input.gate) {
    return unknown(fmt::format(
        "A share of right answers is required, but the data hold only the continuous score '{}'.",
        r.score));
  }
  const stats::GateResult gate = stats::fixed_gate(
      input.gate->counts, {.requirement = wanted, .alpha = input.alpha}, input.gate->missing);
  const std::string basis =
      r.data_kind == "counts"
          ? fmt::format("exact bounds, prompts of one {} taken as independent", input.group)
          : fmt::format("exact bounds, one prompt per item and {}", input.group);
  if (!gate.decisive) return unknown(fmt::format("No {} has a prompt.", input.group));
  const stats::GatePhase& g = gate.phases.at(static_cast<std::size_t>(*gate.decisive));
  const std::string seen =
      fmt::format("{} {} has {} right of {}{}", input.group, g.phase, g.correct, g.n,
                  g.missing > 0 ? fmt::format(", {} without a reply", g.missing) : "");
  switch (gate.verdict) {
    case stats::GateVerdict::kPass:
      return pass(
          fmt::format("Every {} is at least {}: {}, the lowest lower bound being {} ({}; missing "
                      "counts wrong).",
                      input.group, percent(wanted), seen, percent(g.low.value_or(0)), basis));
    case stats::GateVerdict::kFail:
      return fail(
          fmt::format("At least one {} is below {}: {}, upper bound {} ({}; missing counts right).",
                      input.group, percent(wanted), seen, percent(g.high.value_or(1)), basis));
    case stats::GateVerdict::kInconclusive:
      break;
  }
  const auto silent =
      std::ranges::find_if(gate.phases, [](const auto& p) { return p.n == p.missing; });
  if (silent != gate.phases.end()) {
    return unknown(
        silent->n == 0
            ? fmt::format("Not decided: {} {} has no prompt ({}).", input.group, silent->phase,
                          basis)
            : fmt::format("Not decided: {} {} has no reply to any of its {} prompts ({}); only "
                          "replies there would decide, not more items.",
                          input.group, silent->phase, silent->n, basis));
  }
  return unknown(fmt::format("Not decided: {}, which leaves {} to {} open ({}); {} would decide.",
                             seen, percent(g.low.value_or(0)), percent(g.high.value_or(1)), basis,
                             g.missing > 0 ? "the missing replies, or more items," : "more items"));
}

// By how much the missing replies could raise and lower the gap. Empty: nobody can say.
struct Slack {
  double up = 0;
  double down = 0;
};

std::optional<Slack> missing_slack(const Result& r, const std::vector<record::Group>& groups,
                                   double gap) {
  if (r.design.missing == 0) return Slack{};
  if (!is_share(r)) return std::nullopt;
  const stats::Bounds bounds = bound_missing(groups, 1).gap;
  if (!bounds.low || !bounds.high) return std::nullopt;
  return Slack{std::max(0.0, *bounds.high - gap), std::max(0.0, gap - *bounds.low)};
}

// Items behind the bootstrap; for counts, the prompts of the smallest group.
std::int64_t resampled(const Result& r, const std::vector<record::Group>& groups) {
  if (r.design.items > 0) return r.design.items;
  std::int64_t least = groups.empty() ? 0 : groups.front().n;
  for (const record::Group& group : groups) least = std::min(least, group.n);
  return least;
}

Decision decide_gap(double wanted, const Result& r, const RequirementInput& input) {
  const record::Gap& gap = r.folded ? r.folded->gap : r.gap;
  const std::vector<record::Group>& groups = r.folded ? r.folded->phases : r.residues;
  const std::string kind = r.folded ? fmt::format("phases of {}", r.folded->stride)
                                    : fmt::format("residues mod {}", r.design.modulus);
  const record::Estimate& e = gap.estimate;
  if (!is_share(r)) {
    return unknown(
        fmt::format("The gap is required in points of accuracy, but the data hold only "
                    "the continuous score '{}'.",
                    r.score));
  }
  if (!e.value || !e.low || !e.high) {
    return unknown(
        fmt::format("The gap has no interval{}{}.", e.reason.empty() ? "" : ": ", e.reason));
  }
  const std::optional<Slack> slack = missing_slack(r, groups, *e.value);
  if (!slack) return unknown("Missing replies could make the gap anything.");
  const double low = *e.low - slack->down;
  const double high = *e.high + slack->up;
  const std::string seen = fmt::format(
      "the gap over {} is {}, {:g}% interval {:.1f} to {}{}", kind, size_of(r, *e.value),
      100 * r.confidence, 100 * std::max(0.0, low), size_of(r, std::min(1.0, high)),
      r.design.missing > 0 ? " with all that the missing replies could change" : "");
  if (r.verdict.kind == record::VerdictKind::kNotLearned) {
    return unknown(
        fmt::format("The task is not learned, so that a small gap means nothing: {}.", seen));
  }
  const bool beyond_noise = gap.p_value && *gap.p_value <= input.alpha;
  if (low > wanted && beyond_noise) {
    return fail(fmt::format("More than {}: {}, and noise alone gives as much with {}.",
                            size_of(r, wanted), seen, p_text(gap.p_value)));
  }
  const bool empty = std::ranges::any_of(groups, [](const auto& g) { return g.n == 0; });
  if (empty) return unknown(fmt::format("Some {} have no scored prompt: {}.", kind, seen));
  if (high <= wanted && resampled(r, groups) < kFewestForGap) {
    return unknown(
        fmt::format("The bootstrap is not to be trusted below {} items: {}.", kFewestForGap, seen));
  }
  if (high <= wanted) return pass(fmt::format("At most {}: {}.", size_of(r, wanted), seen));
  return unknown(fmt::format("Not decided: {}{}; more items would decide.", seen,
                             low > wanted ? ", but noise alone could give as much" : ""));
}

bool missing_by_residue(const Result& r, const RequirementInput& input) {
  if (r.design.missing == 0) return false;
  const auto p = bound_missing(r.residues, 2000, input.seed).p_depends_on_group;
  return p && *p <= input.alpha;
}

Decision decide_no_period(const Result& r, const RequirementInput& input) {
  const std::string p = r.period.p_value ? p_text(r.period.p_value) : "no test";
  if (r.period.value) {
    return fail(fmt::format("A period of {} was found ({}).", *r.period.value, p));
  }
  if (r.verdict.kind != record::VerdictKind::kNoPeriod) {
    return unknown(
        fmt::format("No period was named, but that says nothing: {}", r.verdict.sentence));
  }
  // Residues that no prompt was planned for are the verdict's matter: it is "no period" only where
  // every phase of every period that could show was seen.
  if (std::ranges::any_of(r.residues, [](const auto& g) { return g.n == 0 && g.planned > 0; })) {
    return unknown(
        fmt::format("No period was found ({}), but some residues have no reply to any prompt.", p));
  }
  if (missing_by_residue(r, input)) {
    return unknown(fmt::format(
        "No period was found ({}), but replies are missing at some residues more than at others.",
        p));
  }
  const std::optional<double>& dip = input.dip;
  const bool in_shares = is_share(r) || input.all_equal;
  const double largest =
      in_shares ? kFindableShare : kFindableSd * std::sqrt(input.variance.value_or(0));
  const std::string asked =
      is_share(r) || !input.all_equal ? size_of(r, largest) : percent(largest) + " of its prompts";
  const std::string found =
      dip ? dip_text(r, *dip, input.all_equal) + " would have been found in four of five runs"
          : std::string("it is unknown how weak a phase would have been found");
  if (dip && *dip <= largest) {
    return pass(fmt::format("No period was found ({}), and {} (asked for: {}).{}", p, found, asked,
                            score_hint(r)));
  }
  return unknown(
      fmt::format("No period was found ({}), but {}, and {} is asked for; more items "
                  "would decide.",
                  p, dip ? "only " + found : found, asked));
}

// The phases that a requirement was judged on may fold weak residues together with strong ones: a
// stride that is not the data's, or a pattern longer than the period found. Then the residues say
// so.
std::optional<std::string> contradiction(const Requirement& requirement, const Result& r,
                                         const RequirementInput& input) {
  if (!input.all_equal && !input.unseen_stride.empty()) return input.unseen_stride;
  if (input.left_out) return "rows are left out at some residues more than at others";
  if (!is_share(r) || !r.folded) return std::nullopt;
  if (positions_differ(r)) {
    return "positions differ and no period explains how, so that phases may hide a weak residue";
  }
  // A gap over phases averages residues that differ beyond the period.
  if (requirement.kind == RequirementKind::kGap && r.period.p_misfit &&
      *r.period.p_misfit <= kMisfitLevel * r.period.level &&
      r.gap.estimate.value.value_or(0) > requirement.value) {
    return fmt::format(
        "residues also differ beyond the period ({}), and the gap over residues is {}",
        p_text(r.period.p_misfit), size_of(r, *r.gap.estimate.value));
  }
  if (r.period.value && input.known_stride && *input.known_stride % *r.period.value != 0) {
    return fmt::format("the stride is said to be {}, but the data repeat with {}",
                       *input.known_stride, *r.period.value);
  }
  if (requirement.kind == RequirementKind::kWorst) {
    for (const record::Group& g : r.residues) {
      const double alpha = input.alpha / static_cast<double>(r.residues.size());
      const auto high = stats::clopper_pearson_upper(g.correct.value_or(0), g.n, alpha).high;
      if (g.n > 0 && high && *high < requirement.value) {
        return fmt::format("residue {} is at {}, upper bound {}", g.index,
                           percent(g.accuracy.value_or(0)), percent(*high));
      }
    }
  } else if (r.gap.estimate.low && *r.gap.estimate.low > requirement.value &&
             r.gap.p_value.value_or(1) <= input.alpha) {
    return fmt::format("the gap over residues mod {} is {}", r.design.modulus,
                       size_of(r, r.gap.estimate.value.value_or(0)));
  }
  return std::nullopt;
}

constexpr std::array<std::string_view, 3> kForms = {"worst>=", "gap<=", "no-period"};

base::Error bad_form(std::string_view text) {
  const std::size_t number = text.find_first_of("0123456789.");
  const std::vector<std::string> forms(kForms.begin(), kForms.end());
  const std::string nearest = base::nearest_name(text.substr(0, number), forms);
  const std::string example = nearest == "no-period" ? nearest
                              : nearest == "gap<="   ? "gap<=0.05"
                                                     : "worst>=0.95";
  return base::usage_error("require",
                           "expected worst>=X, gap<=X or no-period, got '{}'; did you mean '{}'?",
                           text, example);
}

// Each phase or residue by itself; the same bounds as decide_worst().
std::vector<record::GateGroup> gate_groups(double wanted, const RequirementInput& input) {
  std::vector<record::GateGroup> groups;
  const stats::GateResult gate = stats::fixed_gate(
      input.gate->counts, {.requirement = wanted, .alpha = input.alpha}, input.gate->missing);
  for (const stats::GatePhase& g : gate.phases) {
    const bool fails = g.n > 0 && g.high && *g.high < wanted;
    const bool passes = g.n > 0 && g.low && *g.low >= wanted;
    groups.push_back({.index = g.phase,
                      .n = g.n,
                      .correct = g.correct,
                      .missing = g.missing,
                      .low = g.low,
                      .high = g.high,
                      .outcome = fails    ? "fail"
                                 : passes ? "pass"
                                          : "inconclusive"});
  }
  return groups;
}

}  // namespace

Requirement parse_requirement(std::string_view text) {
  Requirement r;
  for (const char c : text) {
    if (c != ' ') r.text.push_back(c);
  }
  const auto form =
      std::ranges::find_if(kForms, [&](std::string_view f) { return r.text.starts_with(f); });
  if (form == kForms.end()) throw bad_form(text);
  r.kind = static_cast<RequirementKind>(form - kForms.begin());
  const std::string_view rest = std::string_view(r.text).substr(form->size());
  if (r.kind == RequirementKind::kNoPeriod) {
    if (!rest.empty()) throw bad_form(text);
    return r;
  }
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), r.value);
  const bool number = error == std::errc() && end == rest.data() + rest.size();
  const bool worst = r.kind == RequirementKind::kWorst;
  const bool inside = worst ? r.value > 0 && r.value < 1 : r.value >= 0 && r.value <= 1;
  if (!number || !inside) {
    const bool as_percent = rest.ends_with('%') || (number && r.value > 1 && r.value <= 100);
    throw base::usage_error("require", "expected {} with a fraction {}, got '{}'{}", *form,
                            worst ? "between 0 and 1" : "from 0 to 1", text,
                            as_percent ? "; a share, not a percentage: 95% is 0.95" : "");
  }
  return r;
}

GateCounts gate_counts(const record::ScoreRows& rows, std::int64_t groups, std::uint64_t seed) {
  // The same prompts are drawn from both tables: one takes missing replies as wrong, one as right.
  stats::ScoreTable low;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (low.ids.empty() || low.ids.back() != rows.item[i]) {
      if (!low.ids.empty()) low.first.push_back(low.position.size());
      low.ids.push_back(rows.item[i]);
    }
    low.position.push_back(rows.position[i]);
    low.score.push_back(rows.reply[i] == record::Reply::kRight ? 1.0 : 0.0);
  }
  if (!low.ids.empty()) low.first.push_back(low.position.size());
  stats::ScoreTable high = low;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows.reply[i] == record::Reply::kMissing) high.score[i] = 1;
  }
  GateCounts result{.counts = stats::one_per_item(low, groups, seed)};
  const stats::ResidueCounts most = stats::one_per_item(high, groups, seed);
  for (std::size_t g = 0; g < most.n.size(); ++g) {
    result.missing.push_back(most.correct[g] - result.counts.correct[g]);
    result.counts.n[g] -= result.missing.back();
  }
  return result;
}

record::Requirement decide_requirement(const Requirement& requirement, const Result& result,
                                       const RequirementInput& input) {
  Decision decision =
      requirement.kind == RequirementKind::kWorst ? decide_worst(requirement.value, result, input)
      : requirement.kind == RequirementKind::kGap ? decide_gap(requirement.value, result, input)
                                                  : decide_no_period(result, input);
  if (decision.verdict == stats::GateVerdict::kPass &&
      requirement.kind != RequirementKind::kNoPeriod) {
    if (const auto against = contradiction(requirement, result, input)) {
      decision = unknown(fmt::format("Not decided: what was seen would meet it, but {}. {}",
                                     *against, decision.sentence));
    }
  }
  record::Requirement decided{.text = requirement.text,
                              .outcome = std::string(stats::name_of(decision.verdict)),
                              .sentence = decision.sentence};
  if (requirement.kind == RequirementKind::kWorst && input.gate) {
    decided.group = input.group;
    decided.groups = gate_groups(requirement.value, input);
  }
  return decided;
}

}  // namespace kvphase::audit
