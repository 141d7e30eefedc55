#include "record/result.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace kvphase::record {
namespace {

Result example() {
  Result r;
  r.title = "W4/S4 on lookup";
  r.context = make_context();
  r.context.seed = 18446744073709551615ULL;
  r.context.warnings = {"a warning"};
  r.design = {.task = "lookup",
              .padding = "prefix",
              .modulus = 4,
              .items = 2,
              .observations = 8,
              .scored = 7,
              .missing = 1,
              .options = {{"records", 12}}};
  r.positions = {.checked = true, .ok = true, .mean_low = 1.5, .mean_high = 1.5};
  r.verdict = {VerdictKind::kPeriodic, "sentence", "next"};
  r.data_kind = "item-level";
  r.confidence = 0.9;
  r.mean = {.value = 0.5, .low = 0.4, .high = 0.6, .method = "cluster bootstrap", .reason = ""};
  r.worst = {.estimate = {.value = 0.25, .low = {}, .high = {}, .method = "", .reason = "no items"},
             .group = 3};
  r.gap = {.estimate = r.mean,
           .noise = 0.1,
           .noise_high = 0.2,
           .p_value = 0.01,
           .cross_fitted = -0.02,
           .noise_method = "permutation"};
  r.period.value = 4;
  r.period.p_value = 0.001;
  r.period.candidates = {{.period = 4, .statistic = 9.5, .p_raw = 0.001, .p_adjusted = 0.001}};
  r.period.p_second = 0.02;
  r.period.second_null = "turned";
  r.period.p_misfit = 0.4;
  r.period.nested = {{.from = 2, .to = 4, .p = 0.001}};
  r.residues = {{.index = 0, .planned = 2, .n = 2, .correct = 1, .accuracy = 0.5},
                {.index = 3, .planned = 2, .boundary = true}};
  Folded folded;
  folded.stride = 4;
  folded.source = "model";
  folded.phases = r.residues;
  r.folded = folded;
  folded.stride = 6;
  folded.source = "given";
  r.other_stride = folded;
  r.contrasts = Contrasts{
      .data = "paired",
      .limits = "drift",
      .groups = "phase",
      .modulus = 4,
      .mean = r.mean,
      .standard_error = 0.05,
      .test = {.method = "Cochran's Q",
               .statistic = 9.5,
               .freedom = 3,
               .p_chi_squared = 0.02,
               .p_permutation = 0.03,
               .items = 2,
               .informative = 1,
               .dropped = 0},
      .spread = {.method = "two-way",
                 .sd = 0.1,
                 .standard_error = 0.05,
                 .shrinkage = 0.8,
                 .shrunk = {0.4, std::nullopt}},
      .worst = 3,
      .pairs = {{.group = 0,
                 .difference = r.mean,
                 .only_group = 5,
                 .only_worst = 1,
                 .p = 0.01,
                 .p_holm = 0.06},
                {.group = 1, .difference = {.reason = "no item has both groups"}}},
      .pairs_method = "McNemar",
      .pairs_reason = "",
  };
  r.confirmation =
      Confirmation{.data = "fresh",
                   .stride = 4,
                   .worst = 3,
                   .best = 1,
                   .worst_value = 0.3,
                   .best_value = 0.7,
                   .gap = {.value = 0.4, .low = 0.3, .high = 0.5, .method = "t", .reason = ""},
                   .n = 60,
                   .outcome = "confirmed",
                   .sentence = "Confirmed."};
  r.scores = {{.name = "margin",
               .n = 7,
               .mean = -0.5,
               .residue_means = {0.5, std::nullopt},
               .period = r.period}};
  r.requirements = {
      {.text = "worst>=0.95",
       .outcome = "fail",
       .sentence = "phase 3 is below",
       .group = "phase",
       .groups =
           {{.index = 3, .n = 20, .correct = 4, .missing = 1, .high = 0.5, .outcome = "fail"}}},
      {.text = "no-period", .outcome = "inconclusive", .sentence = "too little"}};
  r.sequential = Sequential{.rule = "blocks of 10",
                            .e_value = 45.5,
                            .known_after = 20,
                            .items = 30,
                            .max_items = 64,
                            .prompts = 100,
                            .planned = 256,
                            .saving = 0.609375,
                            .candidates = {1, 3}};
  r.notes = {"a note"};
  return r;
}

TEST(Result, RoundTripsThroughJson) {
  const base::Json json = to_json(example());
  EXPECT_EQ(to_json(result_from_json(json, "result.json")), json);
  EXPECT_EQ(to_json(result_from_json(base::parse_json(json.dump(), "x"), "result.json")), json);
}

TEST(Result, HasThePromisedKeys) {
  const base::Json json = to_json(example());
  EXPECT_EQ(json.at("mean").at("value"), 0.5);
  EXPECT_EQ(json.at("worst").at("value"), 0.25);
  EXPECT_TRUE(json.at("best").at("value").is_null());
  EXPECT_EQ(json.at("gap").at("noise"), 0.1);
  EXPECT_EQ(json.at("period").at("value"), 4);
  EXPECT_EQ(json.at("residues").at(0).at("residue"), 0);
  EXPECT_TRUE(json.at("residues").at(1).at("accuracy").is_null());
}

TEST(Result, HoldsTheOutcomeOfEveryRequirement) {
  base::Json json = to_json(example());
  EXPECT_EQ(json.at("requirements").at(0).at("requirement"), "worst>=0.95");
  EXPECT_EQ(json.at("requirements").at(0).at("outcome"), "fail");
  EXPECT_EQ(result_from_json(json, "test").requirements[0].groups,
            example().requirements[0].groups);
  EXPECT_EQ(json.at("requirements").at(1).at("sentence"), "too little");
  json["requirements"][0]["outcome"] = "failed";
  EXPECT_THROW(result_from_json(json, "result.json"), base::Error);
  json.erase("requirements");
  json.erase("sequential");
  EXPECT_TRUE(result_from_json(json, "result.json").requirements.empty())
      << "results of earlier versions can be read";
}

TEST(Result, ReadsThePeriodOfEarlierVersions) {
  base::Json json = to_json(example());
  json.at("period").erase("p_second");
  for (const char* key : {"second_null", "p_misfit", "nested"}) json.at("period").erase(key);
  json.at("period")["p_shift"] = 0.25;
  json.erase("other_stride");
  json.erase("confirmation");
  json.erase("contrasts");
  const Result r = result_from_json(json, "result.json");
  EXPECT_EQ(r.period.p_second, 0.25);
  EXPECT_FALSE(r.period.p_misfit || r.other_stride || r.confirmation || r.contrasts);
}

TEST(Result, RefusesAnotherSchema) {
  base::Json json = to_json(example());
  json["schema"] = "kvphase.result/99";
  EXPECT_THROW(result_from_json(json, "result.json"), base::Error);
}

}  // namespace
}  // namespace kvphase::record
