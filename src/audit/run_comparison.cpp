#include "audit/run_comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "stats/paired.h"
#include "stats/run_difference.h"

namespace kvphase::audit {
namespace {

using record::ComparedRun;
using record::PairedRuns;
using record::RunComparison;
using record::TestedDifference;

auto key_of(const PromptReply& r) {
  return std::tuple(r.item, r.target_position, r.query_position);
}

TestedDifference convert(const stats::DifferenceTest& test) {
  const stats::Estimate& e = test.estimate;
  return {.estimate = {.value = e.value,
                       .low = e.low,
                       .high = e.high,
                       .method = e.method,
                       .reason = e.reason},
          .p = test.p};
}

bool is_periodic(const ComparedRun& run) {
  return run.result.verdict.kind == record::VerdictKind::kPeriodic && run.result.period.value;
}

std::string percent(double share) { return fmt::format("{:.1f}%", 100 * share); }

}  // namespace

std::vector<PromptReply> prompt_replies(std::span<const record::Observation> observations,
                                        std::int64_t position_offset) {
  std::vector<PromptReply> replies;
  for (const record::Observation& o : observations) {
    if (o.repeat > 0 || !o.correct) continue;
    replies.push_back({.item = o.item,
                       .target_position = o.target_position - position_offset,
                       .query_position = o.query_position - position_offset,
                       .residue = o.residue,
                       .correct = *o.correct});
  }
  std::ranges::sort(replies, {}, key_of);
  return replies;
}

std::vector<PromptReply> by_residue(std::vector<PromptReply> replies) {
  for (PromptReply& reply : replies) {
    reply.target_position = reply.residue;
    reply.query_position = 0;
  }
  std::ranges::sort(replies, {}, key_of);
  return replies;
}

PairedRuns compare_replies(std::span<const PromptReply> run, std::span<const PromptReply> reference,
                           std::int64_t modulus, double level) {
  PairedRuns result{.modulus = modulus};
  std::vector<stats::PromptPair> pairs;
  for (std::size_t a = 0, b = 0; a < run.size() && b < reference.size();) {
    const auto key_a = key_of(run[a]);
    const auto key_b = key_of(reference[b]);
    if (key_a == key_b) {
      const bool right_a = run[a].correct;
      const bool right_b = reference[b].correct;
      result.only_run += right_a && !right_b ? 1 : 0;
      result.only_reference += right_b && !right_a ? 1 : 0;
      pairs.push_back({.item = run[a].item,
                       .group_a = run[a].residue % modulus,
                       .group_b = reference[b].residue % modulus,
                       .a = right_a ? 1.0 : 0.0,
                       .b = right_b ? 1.0 : 0.0});
      ++a;
      ++b;
    } else if (key_a < key_b) {
      ++a;
    } else {
      ++b;
    }
  }
  const stats::RunDifference found = stats::run_difference(pairs, modulus, 1 - level);
  result.items = found.items;
  result.prompts = found.prompts;
  result.mean = convert(found.mean);
  result.worst = convert(found.worst);
  result.gap = convert(found.gap);
  result.items_for_run = found.items_for_a;
  result.items_for_reference = found.items_for_b;
  result.p_items = found.p_items;
  return result;
}

void correct_for_all(RunComparison& comparison) {
  std::vector<double> p;
  std::vector<std::optional<double>*> corrected;
  const auto add = [&](const std::optional<double>& value, std::optional<double>& to) {
    if (!value) return;
    p.push_back(*value);
    corrected.push_back(&to);
  };
  for (PairedRuns& pair : comparison.pairs) {
    for (TestedDifference* d : {&pair.mean, &pair.worst, &pair.gap}) add(d->p, d->p_holm);
    add(pair.p_items, pair.p_items_holm);
  }
  const std::vector<double> holm = stats::holm(p);
  for (std::size_t i = 0; i < holm.size(); ++i) *corrected[i] = holm[i];
  comparison.tests = std::ssize(p);
}

std::string summary_sentence(const RunComparison& comparison) {
  std::int64_t chunked = 0, named = 0, controls = 0, control_periods = 0, unknown = 0, found = 0;
  std::int64_t staggered = 0, staggered_periods = 0;
  const ComparedRun* lowest = nullptr;
  for (const ComparedRun& run : comparison.runs) {
    if (run.published || !run.result.design.mitigation.empty()) continue;
    const bool periodic = is_periodic(run);
    if (run.control) {
      ++controls;
      control_periods += periodic ? 1 : 0;
    } else if (run.design.ends_with(record::kStaggeredSuffix)) {
      ++staggered;  // no phase is the boundary of every head: no period is promised
      staggered_periods += periodic ? 1 : 0;
    } else if (run.stride) {
      ++chunked;
      named += periodic && run.result.period.value == run.stride ? 1 : 0;
    } else {
      ++unknown;
      found += periodic ? 1 : 0;
    }
    const auto& worst = run.result.worst.estimate.value;
    if (run.result.score != "accuracy" || !worst) continue;
    if (lowest == nullptr || *worst < *lowest->result.worst.estimate.value) lowest = &run;
  }
  std::vector<std::string> parts;
  if (chunked > 0) {
    parts.push_back(fmt::format(
        "the stride is the period found in {} of {} audits of chunked models", named, chunked));
  }
  if (staggered > 0) {
    parts.push_back(fmt::format("a period is found in {} of {} audits on staggered grids",
                                staggered_periods, staggered));
  }
  if (controls > 0) {
    parts.push_back(fmt::format("a period is found in {} of {} audits of full-attention models",
                                control_periods, controls));
  }
  if (unknown > 0) {
    parts.push_back(fmt::format("a period is found in {} of {} audits{}", found, unknown,
                                chunked + controls > 0 ? " of other models" : ""));
  }
  if (lowest != nullptr) {
    parts.push_back(fmt::format("the lowest worst residue is {} of {}",
                                percent(*lowest->result.worst.estimate.value), lowest->name));
  }
  std::vector<std::string> raised;
  std::size_t mitigated = 0;
  for (const PairedRuns& pair : comparison.pairs) {
    if (comparison.runs[pair.run].result.design.mitigation.empty()) continue;
    ++mitigated;
    const TestedDifference& worst = pair.worst;
    if (worst.p_holm && *worst.p_holm <= comparison.level && *worst.estimate.value > 0) {
      raised.push_back(comparison.runs[pair.run].name);
    }
  }
  if (mitigated > 0) {
    parts.push_back(fmt::format("the worst residue rises with {} of {} mitigations{}{}",
                                raised.size(), mitigated, raised.empty() ? "" : ": ",
                                fmt::join(raised, ", ")));
  }
  if (parts.empty()) {
    const auto audits = std::ranges::count(comparison.runs, false, &ComparedRun::published);
    if (audits == 0) return "Nothing to compare.";
    return fmt::format(
        "{} audit{} of mended prompts, none beside the same model's plain prompts: no difference "
        "is tested.",
        audits, audits == 1 ? "" : "s");
  }
  std::string sentence = fmt::format("{}.", fmt::join(parts, "; "));
  sentence.front() = static_cast<char>(std::toupper(sentence.front()));
  return sentence;
}

}  // namespace kvphase::audit
