#include "record/result.h"

#include <array>

#include "base/error.h"

namespace kvphase::record {
namespace {

using base::Json;
using base::number_or_null;
using base::ObjectReader;

constexpr std::array kVerdicts = {"periodic", "no_period", "not_learned", "inconclusive"};

std::string nested(const ObjectReader& reader, std::string_view key) {
  return reader.scope() + "." + std::string(key);
}

Json to_json(const Extreme& x) {
  Json json = to_json(x.estimate);
  json["group"] = integer_or_null(x.group);
  return json;
}

Extreme read_extreme(const Json& json, const std::string& scope) {
  ObjectReader reader(json, scope);
  Extreme x;
  x.estimate = read_estimate(reader);
  x.group = optional_integer(reader, "group");
  reader.finish();
  return x;
}

Json to_json(const Gap& g) {
  Json json = to_json(g.estimate);
  json["noise"] = number_or_null(g.noise);
  json["noise_high"] = number_or_null(g.noise_high);
  json["p_value"] = number_or_null(g.p_value);
  json["cross_fitted"] = number_or_null(g.cross_fitted);
  json["cross_fitted_reason"] = g.cross_fitted_reason;
  json["noise_method"] = g.noise_method;
  return json;
}

Gap read_gap(const Json& json, const std::string& scope) {
  ObjectReader reader(json, scope);
  Gap g;
  g.estimate = read_estimate(reader);
  g.noise = reader.optional_real("noise");
  g.noise_high = reader.optional_real("noise_high");
  g.p_value = reader.optional_real("p_value");
  g.cross_fitted = reader.optional_real("cross_fitted");
  g.cross_fitted_reason = reader.text("cross_fitted_reason", "");
  g.noise_method = reader.text("noise_method");
  reader.finish();
  return g;
}

Json to_json(const std::vector<Group>& groups, const std::string& index_name) {
  Json list = Json::array();
  for (const Group& g : groups) {
    list.push_back({{index_name, g.index},
                    {"planned", g.planned},
                    {"n", g.n},
                    {"correct", integer_or_null(g.correct)},
                    {"accuracy", number_or_null(g.accuracy)},
                    {"low", number_or_null(g.low)},
                    {"high", number_or_null(g.high)},
                    {"mean_logprob", number_or_null(g.mean_logprob)},
                    {"worst_share", number_or_null(g.worst_share)},
                    {"boundary", g.boundary},
                    {"reason", g.reason}});
  }
  return list;
}

std::vector<Group> read_groups(const Json& json, const std::string& index_name,
                               const std::string& scope) {
  std::vector<Group> groups;
  for (const Json& entry : json) {
    ObjectReader reader(entry, scope);
    Group g;
    g.index = reader.integer(index_name);
    g.planned = reader.integer("planned");
    g.n = reader.integer("n");
    g.correct = optional_integer(reader, "correct");
    g.accuracy = reader.optional_real("accuracy");
    g.low = reader.optional_real("low");
    g.high = reader.optional_real("high");
    g.mean_logprob = reader.optional_real("mean_logprob");
    g.worst_share = reader.optional_real("worst_share");
    g.boundary = reader.boolean("boundary");
    g.reason = reader.text("reason", "");
    reader.finish();
    groups.push_back(g);
  }
  return groups;
}

Json to_json(const Period& p) {
  Json candidates = Json::array();
  for (const PeriodCandidate& c : p.candidates) {
    candidates.push_back({{"period", c.period},
                          {"statistic", number_or_null(c.statistic)},
                          {"p_raw", number_or_null(c.p_raw)},
                          {"p_adjusted", number_or_null(c.p_adjusted)}});
  }
  Json nested_tests = Json::array();
  for (const NestedPeriods& t : p.nested) {
    nested_tests.push_back({{"from", t.from}, {"to", t.to}, {"p", t.p}});
  }
  return {{"value", integer_or_null(p.value)},
          {"p_value", number_or_null(p.p_value)},
          {"p_second", number_or_null(p.p_second)},
          {"second_null", p.second_null},
          {"p_second_reason", p.p_second_reason},
          {"p_misfit", number_or_null(p.p_misfit)},
          {"p_misfit_reason", p.p_misfit_reason},
          {"p_fit", number_or_null(p.p_fit)},
          {"level", p.level},
          {"method", p.method},
          {"reason", p.reason},
          {"candidates", candidates},
          {"nested", nested_tests}};
}

Period read_period(const Json& json, const std::string& scope) {
  ObjectReader reader(json, scope);
  Period p;
  p.value = optional_integer(reader, "value");
  p.p_value = reader.optional_real("p_value");
  // Results of earlier versions say p_shift, and nothing about the fit.
  p.p_second = reader.optional_real(reader.has("p_shift") ? "p_shift" : "p_second");
  p.second_null = reader.text("second_null", "");
  p.p_second_reason = reader.text("p_second_reason", "");
  p.p_misfit = reader.optional_real("p_misfit");
  p.p_misfit_reason = reader.text("p_misfit_reason", "");
  p.p_fit = reader.optional_real("p_fit");
  if (reader.has("nested")) {
    for (const Json& entry : reader.required("nested")) {
      ObjectReader test(entry, nested(reader, "nested"));
      p.nested.push_back(
          {.from = test.integer("from"), .to = test.integer("to"), .p = test.real("p")});
      test.finish();
    }
  }
  p.level = reader.real("level");
  p.method = reader.text("method");
  p.reason = reader.text("reason");
  for (const Json& entry : reader.required("candidates")) {
    ObjectReader candidate(entry, nested(reader, "candidates"));
    p.candidates.push_back({.period = candidate.integer("period"),
                            .statistic = candidate.real("statistic"),
                            .p_raw = candidate.real("p_raw"),
                            .p_adjusted = candidate.real("p_adjusted")});
    candidate.finish();
  }
  reader.finish();
  return p;
}

Json to_json(const Folded& f) {
  return {{"stride", f.stride},        {"source", f.source},
          {"worst", to_json(f.worst)}, {"best", to_json(f.best)},
          {"gap", to_json(f.gap)},     {"phases", to_json(f.phases, "phase")}};
}

Folded read_folded(const Json& json, const std::string& scope) {
  ObjectReader reader(json, scope);
  Folded f;
  f.stride = reader.integer("stride");
  f.source = reader.text("source");
  f.worst = read_extreme(reader.required("worst"), nested(reader, "worst"));
  f.best = read_extreme(reader.required("best"), nested(reader, "best"));
  f.gap = read_gap(reader.required("gap"), nested(reader, "gap"));
  f.phases = read_groups(reader.required("phases"), "phase", nested(reader, "phases"));
  reader.finish();
  return f;
}

constexpr std::array kConfirmations = {"confirmed", "not confirmed", "reversed"};

Json to_json(const Confirmation& c) {
  return {{"data", c.data},
          {"stride", c.stride},
          {"worst", c.worst},
          {"best", c.best},
          {"worst_value", number_or_null(c.worst_value)},
          {"best_value", number_or_null(c.best_value)},
          {"gap", to_json(c.gap)},
          {"n", c.n},
          {"outcome", c.outcome},
          {"sentence", c.sentence}};
}

Confirmation read_confirmation(const Json& json, const std::string& scope) {
  const std::vector<std::string> names(kConfirmations.begin(), kConfirmations.end());
  ObjectReader reader(json, scope);
  Confirmation c;
  c.data = reader.text("data");
  c.stride = reader.integer("stride");
  c.worst = reader.integer("worst");
  c.best = reader.integer("best");
  c.worst_value = reader.optional_real("worst_value");
  c.best_value = reader.optional_real("best_value");
  {
    ObjectReader gap(reader.required("gap"), nested(reader, "gap"));
    c.gap = read_estimate(gap);
    gap.finish();
  }
  c.n = reader.integer("n");
  c.outcome = names.at(reader.choice("outcome", names));
  c.sentence = reader.text("sentence");
  reader.finish();
  return c;
}

Json to_json(const ScoreSummary& s) {
  Json means = Json::array();
  for (const auto& mean : s.residue_means) means.push_back(number_or_null(mean));
  return {{"name", s.name},         {"n", s.n},           {"mean", number_or_null(s.mean)},
          {"residue_means", means}, {"reason", s.reason}, {"period", to_json(s.period)}};
}

ScoreSummary read_score(const Json& json, const std::string& scope) {
  ObjectReader reader(json, scope);
  ScoreSummary s;
  s.name = reader.text("name");
  s.n = reader.integer("n");
  s.mean = reader.optional_real("mean");
  for (const Json& mean : reader.required("residue_means")) {
    s.residue_means.push_back(mean.is_null() ? std::nullopt
                                             : std::optional<double>(mean.get<double>()));
  }
  s.reason = reader.text("reason", "");
  s.period = read_period(reader.required("period"), nested(reader, "period"));
  reader.finish();
  return s;
}

Json to_json(const PositionCheck& p) {
  return {{"checked", p.checked},
          {"ok", p.ok},
          {"query_position_fixed", p.query_position_fixed},
          {"length_fixed", p.length_fixed},
          {"mean_low", p.mean_low},
          {"mean_high", p.mean_high},
          {"variance_low", p.variance_low},
          {"variance_high", p.variance_high},
          {"note", p.note}};
}

PositionCheck read_positions(const Json& json, const std::string& scope) {
  ObjectReader reader(json, scope);
  PositionCheck p;
  p.checked = reader.boolean("checked");
  p.ok = reader.boolean("ok");
  p.query_position_fixed = reader.boolean("query_position_fixed");
  p.length_fixed = reader.boolean("length_fixed");
  p.mean_low = reader.real("mean_low");
  p.mean_high = reader.real("mean_high");
  p.variance_low = reader.real("variance_low");
  p.variance_high = reader.real("variance_high");
  p.note = reader.text("note");
  reader.finish();
  return p;
}

Json to_json(const Design& d) {
  Json json = {{"task", d.task},      {"padding", d.padding},           {"modulus", d.modulus},
               {"items", d.items},    {"observations", d.observations}, {"scored", d.scored},
               {"missing", d.missing}};
  if (!d.mitigation.empty()) json["mitigation"] = d.mitigation;
  if (d.tokens_per_answer) json["tokens_per_answer"] = *d.tokens_per_answer;
  json["options"] = d.options;
  return json;
}

Design read_design(const Json& json, const std::string& scope) {
  ObjectReader reader(json, scope);
  Design d;
  d.task = reader.text("task");
  d.padding = reader.text("padding");
  d.modulus = reader.integer("modulus");
  d.items = reader.integer("items");
  d.observations = reader.integer("observations");
  d.scored = reader.integer("scored");
  d.missing = reader.integer("missing");
  // Only where they say something.
  if (reader.has("mitigation")) d.mitigation = reader.text("mitigation");
  if (reader.has("tokens_per_answer")) d.tokens_per_answer = reader.real("tokens_per_answer");
  d.options = reader.required("options");
  reader.finish();
  return d;
}

constexpr std::array kOutcomes = {"pass", "fail", "inconclusive"};

Json to_json(const GateGroup& g) {
  return {{"index", g.index},
          {"n", g.n},
          {"correct", g.correct},
          {"missing", g.missing},
          {"low", number_or_null(g.low)},
          {"high", number_or_null(g.high)},
          {"outcome", g.outcome}};
}

GateGroup read_gate_group(const Json& json, const std::string& scope) {
  const std::vector<std::string> names(kOutcomes.begin(), kOutcomes.end());
  ObjectReader reader(json, scope);
  GateGroup g{.index = reader.integer("index"),
              .n = reader.integer("n"),
              .correct = reader.integer("correct"),
              .missing = reader.integer("missing"),
              .low = reader.optional_real("low"),
              .high = reader.optional_real("high"),
              .outcome = names.at(reader.choice("outcome", names))};
  reader.finish();
  return g;
}

Json to_json(const Requirement& requirement) {
  Json json = {{"requirement", requirement.text},
               {"outcome", requirement.outcome},
               {"sentence", requirement.sentence}};
  if (requirement.groups.empty()) return json;
  json["group"] = requirement.group;
  for (const GateGroup& group : requirement.groups) json["groups"].push_back(to_json(group));
  return json;
}

Requirement read_requirement(const Json& json, const std::string& scope) {
  const std::vector<std::string> names(kOutcomes.begin(), kOutcomes.end());
  ObjectReader reader(json, scope);
  Requirement requirement;
  requirement.text = reader.text("requirement");
  requirement.outcome = names.at(reader.choice("outcome", names));
  requirement.sentence = reader.text("sentence");
  if (reader.has("groups")) {
    requirement.group = reader.text("group");
    for (const Json& group : reader.required("groups")) {
      requirement.groups.push_back(read_gate_group(group, nested(reader, "groups")));
    }
  }
  reader.finish();
  return requirement;
}

Json to_json(const Sequential& s) {
  return {{"rule", s.rule},         {"e_value", s.e_value},
          {"e_needed", s.e_needed}, {"known_after", integer_or_null(s.known_after)},
          {"items", s.items},       {"max_items", s.max_items},
          {"prompts", s.prompts},   {"planned", s.planned},
          {"saving", s.saving},     {"candidates", s.candidates}};
}

Sequential read_sequential(const Json& json, const std::string& scope) {
  ObjectReader reader(json, scope);
  Sequential s;
  s.rule = reader.text("rule");
  s.e_value = reader.real("e_value");
  s.e_needed = reader.real("e_needed");
  s.known_after = optional_integer(reader, "known_after");
  s.items = reader.integer("items");
  s.max_items = reader.integer("max_items");
  s.prompts = reader.integer("prompts");
  s.planned = reader.integer("planned");
  s.saving = reader.real("saving");
  for (const Json& phase : reader.required("candidates")) {
    s.candidates.push_back(phase.get<std::int64_t>());
  }
  reader.finish();
  return s;
}

Verdict read_verdict(const Json& json, const std::string& scope) {
  const std::vector<std::string> names(kVerdicts.begin(), kVerdicts.end());
  ObjectReader reader(json, scope);
  Verdict v;
  v.kind = static_cast<VerdictKind>(reader.choice("kind", names));
  v.sentence = reader.text("sentence");
  v.next_step = reader.text("next_step");
  reader.finish();
  return v;
}

}  // namespace

std::string_view name_of(VerdictKind kind) { return kVerdicts.at(static_cast<std::size_t>(kind)); }

Json to_json(const Result& r) {
  Json scores = Json::array();
  for (const ScoreSummary& score : r.scores) scores.push_back(to_json(score));
  Json requirements = Json::array();
  for (const Requirement& requirement : r.requirements) {
    requirements.push_back(to_json(requirement));
  }
  return {{"schema", kResultSchema},
          {"title", r.title},
          {"verdict",
           {{"kind", name_of(r.verdict.kind)},
            {"sentence", r.verdict.sentence},
            {"next_step", r.verdict.next_step}}},
          {"requirements", requirements},
          {"sequential", r.sequential ? to_json(*r.sequential) : Json(nullptr)},
          {"data_kind", r.data_kind},
          {"score", r.score},
          {"confidence", r.confidence},
          {"mean", to_json(r.mean)},
          {"worst", to_json(r.worst)},
          {"best", to_json(r.best)},
          {"gap", to_json(r.gap)},
          {"period", to_json(r.period)},
          {"residues", to_json(r.residues, "residue")},
          {"folded", r.folded ? to_json(*r.folded) : Json(nullptr)},
          {"other_stride", r.other_stride ? to_json(*r.other_stride) : Json(nullptr)},
          {"contrasts", r.contrasts ? to_json(*r.contrasts) : Json(nullptr)},
          {"confirmation", r.confirmation ? to_json(*r.confirmation) : Json(nullptr)},
          {"scores", scores},
          {"design", to_json(r.design)},
          {"positions", to_json(r.positions)},
          {"notes", r.notes},
          {"context", to_json(r.context)}};
}

Result result_from_json(const Json& json, std::string_view scope) {
  ObjectReader reader(json, std::string(scope));
  if (const std::string schema = reader.text("schema"); schema != kResultSchema) {
    throw base::usage_error(scope, "expected the schema {}, got {}", kResultSchema, schema);
  }
  Result r;
  r.title = reader.text("title");
  r.verdict = read_verdict(reader.required("verdict"), nested(reader, "verdict"));
  if (reader.has("requirements")) {  // results of earlier versions have none
    for (const Json& requirement : reader.required("requirements")) {
      r.requirements.push_back(read_requirement(requirement, nested(reader, "requirements")));
    }
  }
  if (reader.has("sequential") && !reader.required("sequential").is_null()) {
    r.sequential = read_sequential(reader.required("sequential"), nested(reader, "sequential"));
  }
  r.data_kind = reader.text("data_kind");
  r.score = reader.text("score");
  r.confidence = reader.real("confidence");
  {
    ObjectReader mean(reader.required("mean"), nested(reader, "mean"));
    r.mean = read_estimate(mean);
    mean.finish();
  }
  r.worst = read_extreme(reader.required("worst"), nested(reader, "worst"));
  r.best = read_extreme(reader.required("best"), nested(reader, "best"));
  r.gap = read_gap(reader.required("gap"), nested(reader, "gap"));
  r.period = read_period(reader.required("period"), nested(reader, "period"));
  r.residues = read_groups(reader.required("residues"), "residue", nested(reader, "residues"));
  if (const Json& folded = reader.required("folded"); !folded.is_null()) {
    r.folded = read_folded(folded, nested(reader, "folded"));
  }
  if (reader.has("other_stride") && !reader.required("other_stride").is_null()) {
    r.other_stride = read_folded(reader.required("other_stride"), nested(reader, "other_stride"));
  }
  if (reader.has("contrasts") && !reader.required("contrasts").is_null()) {
    r.contrasts = contrasts_from_json(reader.required("contrasts"), nested(reader, "contrasts"));
  }
  if (reader.has("confirmation") && !reader.required("confirmation").is_null()) {
    r.confirmation =
        read_confirmation(reader.required("confirmation"), nested(reader, "confirmation"));
  }
  for (const Json& score : reader.required("scores")) {
    r.scores.push_back(read_score(score, nested(reader, "scores")));
  }
  r.design = read_design(reader.required("design"), nested(reader, "design"));
  r.positions = read_positions(reader.required("positions"), nested(reader, "positions"));
  r.notes = reader.texts("notes");
  r.context = context_from_json(reader.required("context"), nested(reader, "context"));
  reader.finish();
  return r;
}

}  // namespace kvphase::record
