#include "record/run_comparison.h"

#include <fmt/format.h>

#include <map>
#include <set>

namespace kvphase::record {
namespace {

using base::Json;
using base::number_or_null;

template <typename T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json difference_json(const TestedDifference& d) {
  Json json = to_json(d.estimate);
  json["p"] = number_or_null(d.p);
  json["p_holm"] = number_or_null(d.p_holm);
  return json;
}

Json run_json(const ComparedRun& run) {
  Json json = {{"name", run.name},
               {"folder", run.folder},
               {"published", run.published},
               {"design", run.design},
               {"variant", run.variant},
               {"seed", or_null(run.seed)},
               {"window", or_null(run.window)},
               {"stride", or_null(run.stride)},
               {"control", run.control},
               {"parameters", or_null(run.parameters)},
               {"cache",
                {{"bytes_per_token", number_or_null(run.cache.bytes_per_token)},
                 {"element_bytes", run.cache.element_bytes},
                 {"tokens", run.cache.tokens},
                 {"reason", run.cache.reason}}},
               {"training",
                {{"recipe", run.training.recipe},
                 {"steps", or_null(run.training.steps)},
                 {"tokens", or_null(run.training.tokens)},
                 {"seconds", number_or_null(run.training.seconds)},
                 {"loss", number_or_null(run.training.loss)},
                 {"reason", run.training.reason}}},
               {"model_sha256", run.result.context.model_sha256},
               {"prompt_set_sha256", run.result.context.prompt_set_sha256}};
  const Json result = to_json(run.result);
  json["audit"] = result.at("design");
  for (const char* key : {"verdict", "data_kind", "score", "confidence", "mean", "worst", "best",
                          "gap", "period", "residues", "folded"}) {
    json[key] = result.at(key);
  }
  return json;
}

}  // namespace

void label_runs(std::vector<ComparedRun>& runs) {
  std::map<std::pair<std::string, std::string>, std::set<std::int64_t>> lengths;
  const auto steps = [](const ComparedRun& run) { return run.training.steps.value_or(0); };
  for (const ComparedRun& run : runs) {
    if (!run.published) lengths[{run.design, run.variant}].insert(steps(run));
  }
  for (ComparedRun& run : runs) {
    run.label = run.design.empty() ? run.name : run.design;
    if (run.design.empty()) continue;
    if (!run.variant.empty()) run.label += ", " + run.variant;
    const bool several = lengths[{run.design, run.variant}].size() > 1;
    if (!run.published && several) run.label += fmt::format(", {} steps", steps(run));
    const std::string& mitigation = run.result.design.mitigation;
    if (!mitigation.empty()) run.label += " + " + mitigation;
  }
}

Json to_json(const RunComparison& c) {
  Json runs = Json::array();
  for (const ComparedRun& run : c.runs) runs.push_back(run_json(run));
  Json pairs = Json::array();
  for (const PairedRuns& pair : c.pairs) {
    pairs.push_back({{"run", c.runs.at(pair.run).name},
                     {"reference", c.runs.at(pair.reference).name},
                     {"rule", pair.rule},
                     {"items", pair.items},
                     {"prompts", pair.prompts},
                     {"modulus", pair.modulus},
                     {"mean", difference_json(pair.mean)},
                     {"worst", difference_json(pair.worst)},
                     {"gap", difference_json(pair.gap)},
                     {"tokens", number_or_null(pair.tokens)},
                     {"only_run", pair.only_run},
                     {"only_reference", pair.only_reference},
                     {"items_for_run", pair.items_for_run},
                     {"items_for_reference", pair.items_for_reference},
                     {"p_items", number_or_null(pair.p_items)},
                     {"p_items_holm", number_or_null(pair.p_items_holm)}});
  }
  Json claims = Json::array();
  for (const Claim& claim : c.claims) claims.push_back(to_json(claim));
  return {{"schema", kRunComparisonSchema},
          {"context", to_json(c.context)},
          {"sentence", c.sentence},
          {"level", c.level},
          {"tests", c.tests},
          {"runs", std::move(runs)},
          {"pairs", std::move(pairs)},
          {"claims", std::move(claims)},
          {"notes", c.notes}};
}

}  // namespace kvphase::record
