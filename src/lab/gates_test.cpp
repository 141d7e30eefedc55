#include "lab/gates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cmath>

#include "base/error.h"
#include "base/random.h"
#include "lab/gate_trace_findings.h"
#include "lab/test_support.h"
#include "train/token_shard.h"

namespace kvphase::lab {
namespace {

using ::testing::HasSubstr;

GateOptions options_for(const std::filesystem::path& checkpoint) {
  GateOptions options;
  options.lookup = lookup_of(checkpoint, 40);
  options.prompts = 40;
  options.replicates = 100;
  return options;
}

// Published profiles of three layers of a W8/S8 model and the published measure of the same gates
// (arXiv 2609.36322): key, value, and static effective offsets of the key.
struct Published {
  std::array<double, 8> key, value;
  double fixed;
};
const std::vector<Published>& published() {
  static const std::vector<Published> all = {
      {{0.015, 0.01, 0.008, 0.011, 0.257, 2.494, 3.459, 1.745},
       {0.02, 0.028, 0.054, 0.057, 0.033, 0.512, 3.079, 4.217},
       3.335},
      {{0.146, 0.399, 1.073, 1.806, 2.116, 1.346, 0.707, 0.406},
       {0.147, 0.266, 0.571, 1.213, 1.963, 2.055, 1.133, 0.653},
       6.333}};
  return all;
}

TEST(Gates, ThePublishedProfilesGiveThePublishedStaticEffectiveOffsets) {
  for (const Published& p : published()) {
    EXPECT_NEAR(model::effective_offsets(p.key, 8), p.fixed, 0.02);
  }
}

// A key and a value gate of one head over made-up windows: alpha of each by `weights`.
template <typename WeightsOf>
GateSums made_up(bool of_values, const WeightsOf& weights) {
  constexpr std::size_t kPrompts = 30, kWindows = 40, kW = 8;
  GateSums gate{.place = {.of_values = of_values, .window = kW}};
  for (std::int64_t i = 0; i < 8; ++i) gate.place.phase_of_offset.push_back(i);
  for (std::size_t prompt = 0; prompt < kPrompts; ++prompt) {
    std::vector<double> row(kW + 2);
    for (std::size_t w = 0; w < kWindows; ++w) {
      const std::array<double, kW> alpha = weights(prompt, w);
      for (std::size_t i = 0; i < kW; ++i) row[i] += alpha[i];
      row[kW] += model::effective_offsets(alpha, 1);
      row[kW + 1] += 1;
    }
    gate.rows.insert(gate.rows.end(), row.begin(), row.end());
  }
  return gate;
}

TEST(Gates, ChoosingByContentIsFewPerWindowAndManyStaticAndTheLagIsThatOfTheProfiles) {
  base::Random random(1);
  GateReading reading{.prompts = 30, .tokens = 320};
  reading.gates.push_back(made_up(false, [&](std::size_t, std::size_t) {
    std::array<double, 8> alpha{};
    alpha[random.uniform_index(8)] = 1;
    return alpha;
  }));
  reading.gates.push_back(made_up(true, [](std::size_t, std::size_t) {
    std::array<double, 8> alpha{};
    alpha[3] = 1;
    return alpha;
  }));
  for (const bool of_values : {false, true}) {
    GateSums gate = made_up(of_values, [&](std::size_t, std::size_t) {
      std::array<double, 8> alpha = of_values ? published()[0].value : published()[0].key;
      for (double& a : alpha) a /= 8;
      return alpha;
    });
    gate.place.head = 1;
    reading.gates.push_back(std::move(gate));
  }
  GateOptions options = options_for(model("chunked-w4s4"));
  const record::Findings f = gate_findings(reading, options, {});
  const base::Json& gates = f.data.at("gates");
  EXPECT_GT(gates[0].at("static_effective_offsets").at("value").get<double>(), 7.9);
  EXPECT_NEAR(gates[0].at("per_window_effective_offsets").at("value").get<double>(), 1, 1e-12);
  EXPECT_NEAR(gates[1].at("static_effective_offsets").at("value").get<double>(), 1, 1e-12);
  EXPECT_EQ(gates[1].at("peak_offset"), 3);
  EXPECT_EQ(gates[2].at("value_lag"), 1) << "values are kept one offset after their keys";
  EXPECT_GT(gates[2].at("value_lag_correlation").get<double>(), 0.85);
  EXPECT_THAT(f.sentence, HasSubstr("1 choose few by content"));
}

TEST(Gates, OfACheckpointHaveMassesThatSumToTheWindowAndTheControlHasNone) {
  record::RunContext context;
  const GateOptions options = options_for(model("chunked-w4s4"));
  const GateReading reading = read_gates(model("chunked-w4s4"), options, context);
  const record::Findings f = gate_findings(reading, options, context);
  ASSERT_EQ(f.data.at("gates").size(), 4U);  // two layers, keys and values
  for (const base::Json& gate : f.data.at("gates")) {
    double mass = 0;
    for (const base::Json& e : gate.at("profile")) mass += e.at("value").get<double>();
    EXPECT_NEAR(mass, 4, 1e-4) << gate;
    const double fixed = gate.at("static_effective_offsets").at("value").get<double>();
    const double per_window = gate.at("per_window_effective_offsets").at("value").get<double>();
    EXPECT_GE(per_window, 1);
    EXPECT_LE(fixed, 4 + 1e-6);
    EXPECT_LE(per_window, fixed + 0.2) << gate;  // entropy is concave
  }
  const GateReading none =
      read_gates(model("full-attention"), options_for(model("full-attention")), context);
  EXPECT_TRUE(none.gates.empty());
  EXPECT_THAT(gate_findings(none, options, context).sentence, HasSubstr("no layer is chunked"));
}

// A folder of its own for a test.
class GatesFolder : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "kvphase-gates-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  // A shard of tokens below `vocabulary`.
  std::string text(const char* name, std::int64_t vocabulary, std::uint64_t seed) const {
    const std::filesystem::path folder = folder_ / name;
    std::filesystem::create_directory(folder);
    train::TokenShardWriter writer(folder / "validation-00000.tokens", vocabulary, "mine");
    base::Random random(seed);
    for (int i = 0; i < 400; ++i) {
      writer.append(std::array{
          static_cast<lm::TokenId>(random.uniform_index(static_cast<std::uint64_t>(vocabulary)))});
    }
    writer.finish();
    return folder.string();
  }

  std::filesystem::path folder_;
};

TEST_F(GatesFolder, TextInShardsTakesThePlaceOfPromptsAndIsNamed) {
  GateOptions options = options_for(model("chunked-w4s4"));
  const auto gates_over = [&](const std::string& text) {
    options.text = {text};
    record::RunContext context;
    const GateReading reading = read_gates(model("chunked-w4s4"), options, context);
    EXPECT_EQ(reading.prompts, 40);
    EXPECT_EQ(reading.tokens, 65) << "the model's context";
    EXPECT_EQ(context.warnings.size(), 1U) << "it knows lookups only";
    return gate_findings(reading, options, context);
  };
  const record::Findings f = gates_over(text("a", 60, 1));
  EXPECT_THAT(f.title, HasSubstr("gates over 40 windows of 65 tokens of the validation text in /"));
  EXPECT_THAT(f.tables.front().title, HasSubstr(options.text.front()));
  EXPECT_EQ(f.options.at("text").at("shards").size(), 1U);
  EXPECT_FALSE(f.options.contains("task"));
  EXPECT_EQ(f.data.at("gates").size(), 4U);
  EXPECT_EQ(gates_over(options.text.front()).data, f.data);
  options.seed = 2;
  EXPECT_NE(gates_over(options.text.front()).data, f.data) << "windows at random places";
  options.seed = 1;
  EXPECT_NE(gates_over(text("b", 60, 2)).data, f.data);
  options.text = {text("c", 257, 3)};
  record::RunContext context;
  try {
    read_gates(model("chunked-w4s4"), options, context);
    ADD_FAILURE() << "expected an error";
  } catch (const base::Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("tokens or fewer, got 257 of 'mine'"));
  }
}

// Two heads over three steps: a key gate that goes one-hot at offset 1, one that stays as it is.
train::GateTrace made_up_trace() {
  train::GateTrace trace{
      .text = {.source = "made up sequences", .sequences = 4, .tokens = 9, .interval = 10}};
  const std::array<std::array<double, 4>, 3> profiles = {
      {{1.2, 1, 0.9, 0.9}, {1, 1.5, 1, 0.5}, {0, 4, 0, 0}}};
  for (std::size_t step = 0; step < 3; ++step) {
    for (const std::int64_t head : {0, 1}) {
      const auto& profile = profiles[head == 0 ? step : 0];
      trace.rows.push_back({.step = 10 * static_cast<std::int64_t>(step),
                            .layer = 1,
                            .head = head,
                            .measures = {.fixed = model::effective_offsets(profile, 4),
                                         .per_window = 1,
                                         .profile = {profile.begin(), profile.end()}}});
    }
  }
  return trace;
}

TEST(Gates, ATraceBecomesATableTrajectoriesAndProfilesOverSteps) {
  GateReading reading{.prompts = 30, .tokens = 320, .trace = made_up_trace()};
  reading.gates.push_back(
      made_up(false, [](std::size_t, std::size_t) { return std::array<double, 8>{1}; }));
  const GateOptions options = options_for(model("chunked-w4s4"));
  const record::Findings f = gate_findings(reading, options, {});
  ASSERT_EQ(f.tables.size(), 2U);
  EXPECT_THAT(f.tables[1].rows[0], ::testing::ElementsAre("layer 1 head 0 key", "3.97 to 1.00",
                                                          "1.00 to 1.00", "0 to 1", "10", "4.00"));
  EXPECT_THAT(f.tables[1].rows[1], ::testing::ElementsAre("layer 1 head 1 key", "3.97 to 3.97",
                                                          "1.00 to 1.00", "0 to 0", "0", "1.20"));
  EXPECT_THAT(f.tables[1].note, HasSubstr("4 made up sequences of 9 tokens"));
  ASSERT_EQ(f.figures.size(), 5U);  // plane, profiles, trajectories, two maps
  const record::Figure& lines = f.figures[2];
  EXPECT_TRUE(lines.in_order && lines.diagonal);
  ASSERT_EQ(lines.series.size(), 2U);
  EXPECT_NEAR(lines.series[0].x.back(), 1, 1e-12);
  EXPECT_EQ(lines.series[0].label.back(), "layer 1 head 0 key, step 20");
  EXPECT_EQ(f.figures[3].id, "training-layer-1-head-0-key");
  EXPECT_THAT(f.figures[3].rows, ::testing::ElementsAre("step 0", "step 10", "step 20"));
  EXPECT_EQ(f.figures[3].cells[2][1], 4);
  EXPECT_TRUE(f.figures[3].on_page_only);
  EXPECT_EQ(f.data.at("trace").at("rows").size(), 6U);

  reading.trace.reset();
  const record::Findings without = gate_findings(reading, options, {});
  EXPECT_EQ(without.figures.size(), 2U);
  EXPECT_EQ(without.data.at("trace"), nullptr);
  EXPECT_THAT(without.notes.back(), HasSubstr("did not log its gates"));
}

TEST(Gates, OfALongTraceTheGatesThatMovedMostAreShownAtTwelveSteps) {
  train::GateTrace trace;
  for (std::int64_t step = 0; step < 101; ++step) {
    for (std::int64_t head = 0; head < 20; ++head) {
      const double mass = 1 + 0.0004 * static_cast<double>(step * head);
      trace.rows.push_back(
          {.step = step, .head = head, .measures = {2, 2, std::vector<double>{mass, 2 - mass}}});
    }
  }
  record::Findings f;
  add_trace(f, trace);
  ASSERT_EQ(f.figures.size(), 9U);
  EXPECT_EQ(f.figures[0].series.size(), 16U);
  EXPECT_THAT(f.figures[0].caption, HasSubstr("12 of 101 logged"));
  EXPECT_EQ(f.figures[1].id, "training-layer-0-head-12-key");
  EXPECT_EQ(f.figures[8].id, "training-layer-0-head-19-key");
  ASSERT_EQ(f.figures[8].rows.size(), 12U);
  EXPECT_EQ(f.figures[8].rows.front(), "step 0");
  EXPECT_EQ(f.figures[8].rows.back(), "step 100");
  EXPECT_EQ(f.tables[0].rows.size(), 20U);
}

TEST(Gates, UniformOnesAreNone) {
  model::ModelConfig config;
  config.chunk.gate = model::GateKind::kUniform;
  const GateReading reading{.why_none = model::why_no_gates(config)};
  const record::Findings f =
      gate_findings(reading, options_for(model("chunked-w4s4")), {.model_name = "mean"});
  EXPECT_EQ(f.sentence, "mean: " + model::why_no_gates(config) + ".");
  EXPECT_TRUE(f.figures.empty() && f.tables.empty());
}

}  // namespace
}  // namespace kvphase::lab
