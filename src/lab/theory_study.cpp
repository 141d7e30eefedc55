#include "lab/theory_study.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "lab/theory_broken.h"
#include "lab/theory_claims.h"

namespace kvphase::lab {
namespace {

constexpr std::int64_t kRuleVocabularies[] = {256, 4096};
constexpr std::pair<std::int64_t, std::int64_t> kOtherSizes[] = {{4, 2}, {6, 5}, {8, 3}, {8, 7}};

void say(const StudyOptions& options, const std::string& line) {
  if (options.progress) options.progress(line);
}

std::vector<RuleSearch> search_grid(const StudyOptions& options) {
  std::vector<RuleSearch> searches;
  for (const std::int64_t vocabulary : kRuleVocabularies) {
    for (std::int64_t stride = 3; stride <= options.largest_rule_stride; ++stride) {
      if (vocabulary < options.setting.chunks * stride) continue;
      for (std::int64_t heads = 1; heads < stride; ++heads) {
        TheorySetting s = options.setting;
        s.vocabulary = vocabulary;
        s.stride = stride;
        s.heads = heads;
        searches.push_back(search_rules(s, options.rules));
      }
      say(options, fmt::format("rules: N {}, S {}", vocabulary, stride));
    }
  }
  return searches;
}

std::vector<CoverageStudy> study_others(const StudyOptions& options) {
  std::vector<CoverageStudy> studies;
  for (const auto& [stride, heads] : kOtherSizes) {
    TheorySetting s = options.setting;
    s.stride = stride;
    s.heads = heads;
    if (s.vocabulary < s.chunks * stride || options.other_runs == 0) continue;
    studies.push_back(study_coverage(s, options.flow, options.other_runs, 0));
    say(options, fmt::format("flows: S {}, m {}", stride, heads));
  }
  return studies;
}

SampledCheck sampled_check(const TheorySetting& s, const Coefficients& gates,
                           const std::string& name, const Embeddings& embeddings,
                           std::uint64_t seed) {
  constexpr std::int64_t kPrompts = 12;
  SampledCheck check = {
      .embeddings = name, .prompts = kPrompts, .closed_loss = static_loss(s, gates)};
  const auto bins = static_cast<std::size_t>(s.stride - 1);
  check.accuracy.resize(bins);
  for (const PhaseOutcome& o : static_outcomes(s, gates)) {
    check.closed_accuracy.push_back(o.accuracy);
  }
  Coefficients all;
  for (std::int64_t l = 0; l < s.chunks; ++l) all.insert(all.end(), gates.begin(), gates.end());
  base::Random random(base::derive_seed(seed, "theory check", {}));
  for (std::int64_t i = 0; i < kPrompts; ++i) {
    const auto outcomes = network_outcomes(s, embeddings, draw_prompts(s, 1, random), all);
    for (std::size_t r = 0; r < bins; ++r) {
      check.loss += outcomes[r].loss / static_cast<double>(kPrompts * s.stride - kPrompts);
      check.accuracy[r] += outcomes[r].accuracy / static_cast<double>(kPrompts);
    }
  }
  return check;
}

// What the first flow's heads have become, as a network over explicit embeddings.
std::vector<SampledCheck> sampled_checks(const StudyOptions& options, const CoverageStudy& main) {
  TheorySetting s = options.setting;
  s.chunks = options.gated_chunks;
  s.vocabulary = options.gated_vocabulary;
  std::vector<std::int64_t> positions;
  for (const HeadState& head : main.kept.front().heads) {
    positions.push_back(std::min(head.key_position, s.stride - 2));
  }
  const Coefficients gates = one_hot(s, positions);
  const std::uint64_t seed = options.flow.seed;
  std::vector<SampledCheck> checks = {
      sampled_check(s, gates, "equiangular", equiangular(s.vocabulary, options.kappa), seed)};
  for (const std::int64_t width : {64, 256, 1024}) {
    base::Random random(base::derive_seed(seed, "theory embeddings", {}));
    checks.push_back(sampled_check(s, gates, fmt::format("random, width {}", width),
                                   nearly_equiangular(s.vocabulary, options.kappa, width, random),
                                   seed));
  }
  return checks;
}

}  // namespace

void check(const StudyOptions& o, std::string_view scope) {
  // Before the setting's own check, which allows 2.
  if (o.setting.stride < 3 || o.setting.stride > 64) {
    throw base::usage_error(scope,
                            "expected a stride of 3 to 64 (two positions to choose from), got {}",
                            o.setting.stride);
  }
  check(o.setting, scope);
  TheorySetting gated = o.setting;
  gated.chunks = o.gated_chunks;
  gated.vocabulary = o.gated_vocabulary;
  check(gated, scope);
  const auto need = [&](bool ok, const char* what, auto got) {
    if (!ok) throw base::usage_error(scope, "expected {}, got {}", what, got);
  };
  need(o.gated_vocabulary <= 4096, "at most 4096 tokens with log-linear gates", o.gated_vocabulary);
  need(o.flow.init > 0 && o.flow.init <= 100, "an init above 0 and at most 100", o.flow.init);
  need(o.flow.time >= 1 && o.flow.time <= 1e7, "a time of 1 to 1e7", o.flow.time);
  need(o.flow.tolerance > 1 && o.flow.tolerance <= 2, "a tolerance above 1 and at most 2",
       o.flow.tolerance);
  need(o.kappa > 0 && o.kappa <= 100, "kappa above 0 and at most 100", o.kappa);
  need(o.runs >= 1, "at least 1 run", o.runs);
  need(o.gated_runs >= 1, "at least 1 run with log-linear gates", o.gated_runs);
  need(o.sgd_runs >= 1, "at least 1 run of SGD", o.sgd_runs);
  need(o.rules.random >= 1, "at least 1 random rule", o.rules.random);
  need(o.rules.optimised >= 1, "at least 1 optimised rule", o.rules.optimised);
}

TheoryStudy run_study(const StudyOptions& options) {
  check(options, "theory");
  TheoryStudy study = {.options = options};
  study.rules = search_grid(options);
  study.main = study_coverage(options.setting, options.flow, options.runs, 3);
  say(options, fmt::format("flows: {} with static gates", options.runs));
  study.others = study_others(options);
  const GatedOptions gated = gated_options(options);
  study.gated = study_gated(gated, Descent::kFlow, options.gated_runs, 1);
  say(options, fmt::format("flows: {} with log-linear gates", options.gated_runs));
  study.sgd = study_gated(gated, Descent::kSgd, options.sgd_runs, 1);
  say(options, fmt::format("SGD: {} runs", options.sgd_runs));
  study.sampled = sampled_checks(options, study.main);
  if (options.broken) {
    study.sweeps = sweep_beta(options);
    say(options, "one-hot rules against others as beta grows");
    study.broken = break_assumptions(options);
  }
  study.claims = judge(study);
  return study;
}

}  // namespace kvphase::lab
