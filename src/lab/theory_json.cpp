#include "lab/theory_json.h"

namespace kvphase::lab {
namespace {

using base::Json;
using base::number_or_null;

Json json_of(const TheorySetting& s) {
  return {{"stride", s.stride},         {"heads", s.heads}, {"chunks", s.chunks},
          {"vocabulary", s.vocabulary}, {"beta", s.beta},   {"gamma", s.gamma}};
}

Json json_of(const Fit& fit) {
  return {{"p", number_or_null(fit.p)},
          {"statistic", number_or_null(fit.statistic)},
          {"freedom", fit.freedom},
          {"n", fit.n},
          {"reason", fit.reason}};
}

Json json_of(const ShareAgainst& s) {
  return {{"value", number_or_null(s.share.value)},
          {"low", number_or_null(s.share.low)},
          {"high", number_or_null(s.share.high)},
          {"n", s.share.n},
          {"method", s.share.method},
          {"reason", s.share.reason},
          {"predicted", s.predicted}};
}

Json json_of(const std::vector<HeadState>& heads) {
  Json list = Json::array();
  for (const HeadState& h : heads) {
    list.push_back({{"key_position", h.key_position},
                    {"value_position", h.value_position},
                    {"key_offsets", h.key_offsets},
                    {"value_offsets", h.value_offsets}});
  }
  return list;
}

Json json_of(const Trajectory& t) { return {{"times", t.times}, {"offsets", t.values}}; }

Json json_of(const RuleSearch& r) {
  return {{"setting", json_of(r.setting)},
          {"best_one_hot", r.best_one_hot},
          {"random", r.random},
          {"lowest_random", r.lowest_random},
          {"optimised", r.optimised},
          {"lowest_optimised", r.lowest_optimised},
          {"below", r.below},
          {"at_best", r.at_best},
          {"optimised_one_hot", r.optimised_one_hot}};
}

Json json_of(const CoverageStudy& s) {
  Json covered = Json::array();
  for (const ShareAgainst& share : s.covered) covered.push_back(json_of(share));
  Json kept = Json::array();
  for (const FlowRun& run : s.kept) {
    Json time = Json::array();
    for (const auto& t : run.time) time.push_back(number_or_null(t));
    Json accuracy = Json::array();
    for (const PhaseOutcome& o : run.outcomes) accuracy.push_back(o.accuracy);
    kept.push_back({{"heads", json_of(run.heads)},
                    {"predicted", run.predicted},
                    {"time", time},
                    {"accuracy", accuracy},
                    {"loss", run.loss},
                    {"trajectory", json_of(run.offsets)}});
  }
  return {{"setting", json_of(s.setting)},
          {"runs", s.runs},
          {"heads", s.heads},
          {"selected", s.selected},
          {"as_predicted", s.as_predicted},
          {"worst_offsets", s.worst_offsets},
          {"median_time", number_or_null(s.median_time)},
          {"longest_time", number_or_null(s.longest_time)},
          {"time_reason", s.median_time ? "" : "no head was selected"},
          {"positions", s.positions},
          {"positions_fit", json_of(s.positions_fit)},
          {"distinct", s.distinct},
          {"distinct_expected", s.distinct_expected},
          {"distinct_fit", json_of(s.distinct_fit)},
          {"pairs", json_of(s.pairs)},
          {"covered", covered},
          {"accuracy", s.accuracy},
          {"covered_accuracy", number_or_null(s.covered_accuracy)},
          {"uncovered_accuracy", number_or_null(s.uncovered_accuracy)},
          {"uncovered_probability_times_n", number_or_null(s.uncovered_probability)},
          {"phases_reason", s.covered_accuracy && s.uncovered_accuracy
                                ? ""
                                : "every run covers all positions, or none does"},
          {"lowest_excess", s.lowest_excess},
          {"first_runs", kept}};
}

Json json_of(const GatedStudy& s) {
  Json kept = Json::array();
  for (const GatedRun& run : s.kept) {
    kept.push_back({{"heads", json_of(run.heads)},
                    {"per_window_offsets", run.per_window},
                    {"loss", run.loss},
                    {"trajectory", json_of(run.offsets)},
                    {"per_window_trajectory", json_of(run.window_offsets)}});
  }
  const GatedOptions& o = s.options;
  return {{"setting", json_of(o.setting.task)},
          {"kappa", o.setting.kappa},
          {"descent", s.descent == Descent::kFlow ? "flow" : "sgd"},
          {"init", o.flow.init},
          {"prompts", o.prompts},
          {"rate", o.rate},
          {"batch", o.batch},
          {"runs", s.runs},
          {"heads", s.heads},
          {"selected", s.selected},
          {"worst_static", s.worst_static},
          {"worst_per_window", s.worst_per_window},
          {"mean_static", s.mean_static},
          {"mean_per_window", s.mean_per_window},
          {"positions", s.positions},
          {"positions_fit", json_of(s.positions_fit)},
          {"distinct", s.distinct},
          {"distinct_fit", json_of(s.distinct_fit)},
          {"first_runs", kept}};
}

Json json_of(const TheoryClaim& c) {
  return {{"name", c.name}, {"text", c.text}, {"outcome", c.outcome}, {"evidence", c.evidence}};
}

Json json_of(const SampledCheck& c) {
  return {{"embeddings", c.embeddings},
          {"prompts", c.prompts},
          {"loss", c.loss},
          {"closed_loss", c.closed_loss},
          {"accuracy", c.accuracy},
          {"closed_accuracy", c.closed_accuracy}};
}

Json json_of(const BetaSweep& s) {
  return {{"setting", json_of(s.setting)},
          {"largest_beta", number_or_null(s.largest_beta)},
          {"largest_beta_reason", s.largest_beta ? "" : "one-hot is a local minimum up to 100"},
          {"beta", s.beta},
          {"lowest", s.lowest}};
}

Json json_of(const BrokenCase& c) {
  Json json = {{"name", c.name}, {"assumption", c.assumption}, {"finding", c.finding}};
  if (c.flows) json["flows"] = json_of(*c.flows);
  if (c.gated) json["log_linear"] = json_of(*c.gated);
  if (c.rules) json["rules"] = json_of(*c.rules);
  return json;
}

template <typename T>
Json list_of(const std::vector<T>& items) {
  Json list = Json::array();
  for (const T& item : items) list.push_back(json_of(item));
  return list;
}

}  // namespace

Json options_json(const StudyOptions& o) {
  return {{"setting", json_of(o.setting)},
          {"init", o.flow.init},
          {"time", o.flow.time},
          {"tolerance", o.flow.tolerance},
          {"seed", o.flow.seed},
          {"runs", o.runs},
          {"other_runs", o.other_runs},
          {"log_linear_runs", o.gated_runs},
          {"sgd_runs", o.sgd_runs},
          {"kappa", o.kappa},
          {"log_linear_chunks", o.gated_chunks},
          {"log_linear_vocabulary", o.gated_vocabulary},
          {"random_rules_per_setting", o.rules.random},
          {"optimised_rules_per_setting", o.rules.optimised},
          {"rules_seed", o.rules.seed},
          {"largest_rule_stride", o.largest_rule_stride},
          {"broken", o.broken}};
}

Json data_json(const TheoryStudy& study) {
  return {{"claims", list_of(study.claims)},          {"rules", list_of(study.rules)},
          {"static_gates", json_of(study.main)},      {"other_sizes", list_of(study.others)},
          {"log_linear_gates", json_of(study.gated)}, {"log_linear_gates_sgd", json_of(study.sgd)},
          {"sampled", list_of(study.sampled)},        {"beta", list_of(study.sweeps)},
          {"broken", list_of(study.broken)}};
}

}  // namespace kvphase::lab
