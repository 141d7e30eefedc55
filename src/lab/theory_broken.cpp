#include "lab/theory_broken.h"

#include <fmt/format.h>

#include <algorithm>

namespace kvphase::lab {
namespace {

std::string p_of(const Fit& fit) {
  if (!fit.p) return "not tested: " + fit.reason;
  return *fit.p < 1e-4 ? std::string("p < 0.0001") : fmt::format("p = {:.4f}", *fit.p);
}

std::string selected_of(std::int64_t selected, std::int64_t heads) {
  return fmt::format("{} of {} heads select a position", selected, heads);
}

std::string offsets_of(const GatedStudy& study) {
  return fmt::format("{}; mean offsets {:.2f} static, {:.2f} per window",
                     selected_of(study.selected, study.heads), study.mean_static,
                     study.mean_per_window);
}

std::int64_t share_of(std::int64_t runs, std::int64_t parts) {
  return std::max<std::int64_t>(1, runs / parts);
}

BrokenCase large_start(const StudyOptions& o) {
  FlowSettings flow = o.flow;
  flow.init = 5;
  BrokenCase c = {.name = "large start (5)",
                  .assumption = "logits start with standard deviation 5, not small"};
  c.flows = study_coverage(o.setting, flow, share_of(o.runs, 10), 0);
  c.finding = fmt::format("{}; offsets up to {:.2f}",
                          selected_of(c.flows->selected, c.flows->heads), c.flows->worst_offsets);
  return c;
}

BrokenCase large_gated_start(const StudyOptions& o) {
  GatedOptions gated = gated_options(o);
  gated.flow.init = 20;
  BrokenCase c = {.name = "large start (20), log-linear gates",
                  .assumption = "weights start with standard deviation 20, not small"};
  c.gated = study_gated(gated, Descent::kSgd, share_of(o.sgd_runs, 2), 0);
  c.finding = offsets_of(*c.gated);
  return c;
}

BrokenCase nothing_shared(const StudyOptions& o) {
  GatedOptions gated = gated_options(o);
  gated.setting.kappa = 0;
  BrokenCase c = {.name = "tokens share nothing (kappa 0)",
                  .assumption = "kappa = 0, so a position must be learned token by token"};
  c.gated = study_gated(gated, Descent::kSgd, share_of(o.sgd_runs, 4), 0);
  c.finding = offsets_of(*c.gated);
  return c;
}

// How runs cover phases when heads do disturb each other.
BrokenCase coupled(const StudyOptions& o, const std::string& name, const std::string& assumption,
                   const TheorySetting& setting, std::int64_t runs) {
  BrokenCase c = {.name = name, .assumption = assumption};
  c.flows = study_coverage(setting, o.flow, runs, 0);
  const CoverageStudy& study = *c.flows;
  double mean = 0, expected = 0;
  for (std::size_t k = 0; k < study.distinct.size(); ++k) {
    mean += static_cast<double>(k) * static_cast<double>(study.distinct[k]) /
            static_cast<double>(study.runs);
    expected += static_cast<double>(k) * study.distinct_expected[k];
  }
  c.finding = fmt::format("{:.3f} positions covered a run, balls in bins {:.3f} ({})", mean,
                          expected, p_of(study.distinct_fit));
  return c;
}

BrokenCase many_heads(const StudyOptions& o, double beta, std::int64_t heads) {
  TheorySetting s = o.setting;
  s.vocabulary = std::max<std::int64_t>(256, s.chunks * s.stride);
  s.beta = beta;
  s.heads = heads;
  const bool enough = heads >= s.stride;
  BrokenCase c = {
      .name = fmt::format("{} heads for {} positions, beta {:g}", heads, s.stride - 1, beta),
      .assumption = enough ? fmt::format("m = {}, not below S = {}", heads, s.stride)
                           : std::string("none (for comparison: m = S - 1)")};
  c.rules =
      search_rules(s, {.random = 2, .optimised = 24, .chunkwise = false, .seed = o.rules.seed});
  c.finding =
      fmt::format("lowest local minimum {:+.2g} nats from one-hot, {} of {} one-hot",
                  c.rules->lowest_optimised, c.rules->optimised_one_hot, c.rules->optimised);
  return c;
}

}  // namespace

GatedOptions gated_options(const StudyOptions& o) {
  GatedOptions gated = {.setting = {.task = o.setting, .kappa = o.kappa}, .flow = o.flow};
  gated.setting.task.chunks = o.gated_chunks;
  gated.setting.task.vocabulary = o.gated_vocabulary;
  return gated;
}

std::vector<BetaSweep> sweep_beta(const StudyOptions& o) {
  std::vector<BetaSweep> sweeps;
  for (const std::int64_t vocabulary : {256, 4096, 65'536}) {
    BetaSweep sweep = {.setting = o.setting};
    sweep.setting.vocabulary = vocabulary;
    if (vocabulary < sweep.setting.chunks * sweep.setting.stride) continue;
    sweep.largest_beta = largest_beta(sweep.setting);
    for (double beta = 1; beta <= 20; beta += 1) {
      TheorySetting s = sweep.setting;
      s.beta = beta;
      const RuleSearch search =
          search_rules(s, {.random = 2, .optimised = 16, .chunkwise = false, .seed = o.rules.seed});
      sweep.beta.push_back(beta);
      sweep.lowest.push_back(search.lowest_optimised);
    }
    sweeps.push_back(std::move(sweep));
  }
  return sweeps;
}

std::vector<BrokenCase> break_assumptions(const StudyOptions& o) {
  TheorySetting smallest = o.setting;
  smallest.vocabulary = smallest.chunks * smallest.stride;
  TheorySetting loud = o.setting;
  loud.vocabulary = std::max<std::int64_t>(256, smallest.vocabulary);
  loud.beta = 6;
  std::vector<BrokenCase> cases;
  const auto add = [&](BrokenCase c) {
    if (o.progress) o.progress("broken: " + c.name);
    cases.push_back(std::move(c));
  };
  add(large_start(o));
  add(large_gated_start(o));
  add(nothing_shared(o));
  add(coupled(o, fmt::format("small vocabulary (N = {})", smallest.vocabulary),
              fmt::format("N = L S = {}: no token outside the prompt", smallest.vocabulary),
              smallest, share_of(o.runs, 2)));
  add(coupled(o, fmt::format("large logits (beta 6, N = {})", loud.vocabulary),
              fmt::format("beta = 6 with N = {}: e^beta exceeds N", loud.vocabulary), loud,
              share_of(o.runs, 8)));
  add(many_heads(o, 5, o.setting.stride - 1));
  add(many_heads(o, 5, o.setting.stride));
  add(many_heads(o, o.setting.beta, o.setting.stride + 2));
  return cases;
}

}  // namespace kvphase::lab
