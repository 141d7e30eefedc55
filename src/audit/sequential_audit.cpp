#include "audit/sequential_audit.h"

#include <fmt/format.h>

#include <algorithm>

#include "audit/prompt_run.h"
#include "audit/wording.h"
#include "base/error.h"
#include "base/random.h"
#include "base/stop.h"

namespace kvphase::audit {
namespace {

using record::Group;
using record::Result;

constexpr const char* kNoInterval =
    "no interval for a fixed sample size: the audit stopped when the answers said so";

// The planned residue of an item's prompt whose absolute phase is `phase`.
std::int64_t residue_of(std::int64_t item, std::int64_t phase, std::int64_t modulus,
                        const SequentialAuditOptions& options) {
  const std::int64_t S = options.stride;
  phase = ((phase - options.position_offset) % S + S) % S;
  base::Random random(
      base::derive_seed(options.seed, "audit.sequential", {static_cast<std::uint64_t>(item)}));
  const auto turns = static_cast<std::uint64_t>(modulus / S);
  return phase + S * static_cast<std::int64_t>(random.uniform_index(turns));
}

stats::SequentialOptions search_options(const task::Task& task,
                                        const SequentialAuditOptions& options) {
  stats::SequentialOptions search{.phases = options.stride,
                                  .max_items = task.items(),
                                  .block = options.block_items,
                                  .alpha = options.alpha};
  if (options.requirement) search.requirement = options.requirement->value;
  return search;
}

std::vector<Group> group_by(const std::vector<record::Observation>& observations,
                            std::int64_t modulus) {
  std::vector<Group> groups;
  std::vector<double> logprob(static_cast<std::size_t>(modulus), 0);
  std::vector<std::int64_t> n(static_cast<std::size_t>(modulus), 0);
  for (std::int64_t g = 0; g < modulus; ++g) groups.push_back({.index = g, .correct = 0});
  for (const record::Observation& o : observations) {
    const auto g = static_cast<std::size_t>(o.residue % modulus);
    ++groups[g].planned;
    groups[g].n += o.correct.has_value() ? 1 : 0;
    *groups[g].correct += o.correct.value_or(false) ? 1 : 0;
    if (o.logprob) {
      logprob[g] += *o.logprob;
      ++n[g];
    }
  }
  for (std::size_t g = 0; g < groups.size(); ++g) {
    if (groups[g].n > 0) {
      groups[g].accuracy =
          static_cast<double>(*groups[g].correct) / static_cast<double>(groups[g].n);
    }
    if (n[g] > 0) groups[g].mean_logprob = logprob[g] / static_cast<double>(n[g]);
    groups[g].reason = why_empty(groups[g], kNoInterval);
  }
  return groups;
}

record::Estimate share(std::optional<double> value, const std::string& method) {
  return {.value = value,
          .low = {},
          .high = {},
          .method = method,
          .reason = value ? kNoInterval : "no scored prompt"};
}

record::Extreme extreme(const std::vector<Group>& groups, bool worst) {
  const Group* best = nullptr;
  for (const Group& group : groups) {
    if (!group.accuracy) continue;
    if (!best || (worst ? *group.accuracy < *best->accuracy : *group.accuracy > *best->accuracy)) {
      best = &group;
    }
  }
  if (!best) return {share(std::nullopt, ""), std::nullopt};
  return {share(best->accuracy, "share over the items asked at it"), best->index};
}

record::Gap gap_of(const record::Extreme& worst, const record::Extreme& best) {
  std::optional<double> value;
  if (worst.estimate.value && best.estimate.value) {
    value = *best.estimate.value - *worst.estimate.value;
  }
  return {.estimate = share(value, "best minus worst, each over the items asked at it"),
          .cross_fitted_reason = "not computed: the audit stopped early",
          .noise_method = "not computed: the phases were asked by different numbers of items"};
}

std::string percent(std::optional<double> x) {
  return x ? fmt::format("{:.1f}%", 100 * *x) : "undefined";
}

std::string e_text(double e) {
  return e < 1000 ? fmt::format("{:.3g}", e) : fmt::format("{:.1e}", e);
}

std::string effort(const record::Sequential& s) {
  return fmt::format("{} of {} items and {} of {} prompts were run ({:.0f}% saved)", s.items,
                     s.max_items, s.prompts, s.planned, 100 * s.saving);
}

record::Verdict decide(const Result& r, std::int64_t stride, std::optional<std::int64_t> worst,
                       const std::optional<double>& min_accuracy) {
  const record::Sequential& s = *r.sequential;
  if (r.design.scored == 0) {
    return {record::VerdictKind::kInconclusive, "Inconclusive: no prompt has a usable reply.",
            "Find out why replies are missing."};
  }
  if (r.mean.value && (*r.mean.value == 0 || *r.mean.value < min_accuracy.value_or(0))) {
    return {record::VerdictKind::kNotLearned,
            fmt::format("The model has not learned the task: accuracy {}; {}.",
                        percent(r.mean.value), effort(s)),
            "Train longer or make the task easier, then audit again."};
  }
  const std::string phases =
      worst ? fmt::format("phase {} is the worst at {}", *worst,
                          percent(r.folded->phases[static_cast<std::size_t>(*worst)].accuracy))
            : fmt::format("the worst is one of phases {}", fmt::join(s.candidates, ", "));
  if (s.known_after) {
    return {record::VerdictKind::kPeriodic,
            fmt::format("Phases of stride {} differ (known after {} items; e-value {} at the end, "
                        "{:g} needed): {}; accuracy {} over phases; {}.",
                        stride, *s.known_after, e_text(s.e_value), s.e_needed, phases,
                        percent(r.mean.value), effort(s)),
            "Judge this model by its worst phase. An audit without --sequential measures the gap "
            "and searches for the period."};
  }
  return {record::VerdictKind::kInconclusive,
          fmt::format("Inconclusive: phases of stride {} are not shown to differ (e-value {}, {:g} "
                      "needed); accuracy {} over phases; {}.",
                      stride, e_text(s.e_value), s.e_needed, percent(r.mean.value), effort(s)),
          "An audit without --sequential says how weak a phase would have been found."};
}

record::Requirement decide_gate(const Requirement& requirement, const stats::GateResult& gate,
                                std::int64_t items, double alpha) {
  std::string why = gate.reason;
  if (gate.decisive) {
    const stats::GatePhase& g = gate.phases.at(static_cast<std::size_t>(*gate.decisive));
    why = fmt::format("phase {} has {} right of {}, e-values {} for and {} against", g.phase,
                      g.correct, g.n, e_text(g.e_pass.value_or(1)), e_text(g.e_fail.value_or(1)));
  }
  const char* start = gate.verdict == stats::GateVerdict::kPass   ? "Every phase is high enough"
                      : gate.verdict == stats::GateVerdict::kFail ? "At least one phase is too low"
                                                                  : "Not decided";
  record::Requirement decided{
      .text = requirement.text,
      .outcome = std::string(stats::name_of(gate.verdict)),
      .sentence = fmt::format("{} after {} items: {} ({}; a missing reply counts wrong).", start,
                              items, why, gate.method),
      .group = "phase"};
  const auto phases = static_cast<double>(gate.phases.size());
  for (const stats::GatePhase& g : gate.phases) {
    const bool fails = g.e_fail.value_or(1) >= phases / alpha;
    const bool passes = g.e_pass.value_or(1) >= 1 / alpha;
    decided.groups.push_back({.index = g.phase,
                              .n = g.n,
                              .correct = g.correct,
                              .missing = g.missing,
                              .outcome = fails    ? "fail"
                                         : passes ? "pass"
                                                  : "inconclusive"});
  }
  return decided;
}

}  // namespace

SequentialAudit run_sequential_audit(lm::LanguageModel& model, const task::Task& task,
                                     const SequentialAuditOptions& options,
                                     const std::function<void(const RunProgress&)>& on_progress) {
  const std::int64_t R = task.modulus();
  if (options.stride < 2 || R % options.stride != 0 || options.block_items < 1) {
    throw base::usage_error("audit",
                            "expected a stride of 2 or more that divides the modulus {} and blocks "
                            "of 1 item or more, got {} and {}",
                            R, options.stride, options.block_items);
  }
  if (std::ssize(task.residues()) != R) {
    throw base::usage_error("audit",
                            "expected a task that asks every residue of the modulus {} for a "
                            "sequential audit, got one that asks {}; ask for every residue",
                            R, task.residues().size());
  }
  base::Json design = {{"stride", options.stride},
                       {"block_items", options.block_items},
                       {"alpha", options.alpha},
                       {"requirement", options.requirement ? options.requirement->text : ""},
                       {"seed", options.seed}};
  PromptRun run(model, task,
                {.folder = options.folder,
                 .resume = options.resume,
                 .design = std::move(design),
                 .position_offset = options.position_offset,
                 .sync_each = options.sync_each,
                 .server = options.server,
                 .ask_again = {}});
  SequentialAudit audit;
  audit.search = stats::run_sequential(
      [&](std::int64_t item, std::int64_t phase) {
        return run.correct(item, residue_of(item, phase, R, options));
      },
      search_options(task, options),
      [&](const stats::SequentialBlock& block) {
        if (base::stop_requested()) return false;
        std::vector<PromptKey> keys;
        for (std::int64_t item = block.first; item < block.end; ++item) {
          for (const std::int64_t phase : block.phases) {
            keys.push_back({item, residue_of(item, phase, R, options)});
          }
        }
        run.ask(keys, on_progress, task.items() * options.stride);
        return !run.stopped();
      });
  audit.run = run.result(audit.search.stop != stats::StopReason::kInterrupted);
  return audit;
}

Result sequential_result(const SequentialAudit& audit, const task::Task& task,
                         const SequentialAuditOptions& options, const SequentialReport& report) {
  const stats::SequentialResult& search = audit.search;
  Result r;
  r.title = report.title;
  r.context = report.context;
  r.context.seed = options.seed;
  r.positions = audit.run.plan.positions;
  r.data_kind = "item-level";
  r.design = {.task = task.name(),
              .padding = task.padding(),
              .modulus = task.modulus(),
              .items = search.items,
              .observations = std::ssize(audit.run.observations),
              .options = task.options()};
  for (const record::Observation& o : audit.run.observations) {
    r.design.scored += o.correct.has_value() ? 1 : 0;
  }
  r.design.missing = r.design.observations - r.design.scored;
  r.sequential = record::Sequential{.rule = search.method,
                                    .e_value = search.e_dependence,
                                    .e_needed = 1 / options.alpha,
                                    .known_after = search.dependence_after,
                                    .items = search.items,
                                    .max_items = task.items(),
                                    .prompts = search.prompts,
                                    .planned = search.planned,
                                    .saving = search.saving,
                                    .candidates = search.candidates};
  r.residues = group_by(audit.run.observations, task.modulus());
  record::Folded folded{.stride = options.stride,
                        .source = report.stride_source,
                        .phases = group_by(audit.run.observations, options.stride)};
  folded.worst = extreme(folded.phases, true);
  folded.best = extreme(folded.phases, false);
  folded.gap = gap_of(folded.worst, folded.best);
  r.worst = extreme(r.residues, true);
  r.best = extreme(r.residues, false);
  r.gap = gap_of(r.worst, r.best);
  r.folded = std::move(folded);
  if (report.mark_boundary) {
    for (std::vector<Group>* groups : {&r.residues, &r.folded->phases}) {
      for (Group& g : *groups) g.boundary = g.index % options.stride == options.stride - 1;
    }
  }
  r.mean = share(search.mean, "mean of the phases' shares, equal weights");
  r.period.level = options.alpha;
  r.period.method = "none: sequential audit";
  r.period.p_second_reason = r.period.p_misfit_reason = "no test: the audit stopped early";
  r.period.reason = fmt::format(
      "no search and no p-value: a p-value for a fixed sample size does not hold in an audit that "
      "stopped when the answers said so; the e-value says whether phases of stride {} differ",
      options.stride);
  r.notes = {
      "Phases that left the search early were asked by fewer items: their shares are less certain, "
      "and the gap is an estimate without an interval.",
      "Every item was asked once per phase still in question, so a residue has a part of the items "
      "only."};
  r.verdict = decide(r, options.stride, search.worst, report.min_accuracy);
  if (options.requirement && search.gate) {
    r.requirements.push_back(
        decide_gate(*options.requirement, *search.gate, search.items, options.alpha));
  }
  return r;
}

}  // namespace kvphase::audit
