#include "lab/gates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "base/files.h"
#include "base/random.h"

namespace kvphase::lab {
namespace {

using ::testing::HasSubstr;

std::filesystem::path model(const char* name) {
  return std::filesystem::path(KVPHASE_MODELS) / name;
}

GateOptions options_for(const std::filesystem::path& checkpoint) {
  const base::Json card = base::parse_json(base::read_file(checkpoint / "card.json"), "card");
  GateOptions options;
  options.lookup.language = task::lookup_language_from_json(card.at("language"), "card");
  options.lookup.demonstrations = 4;
  options.lookup.modulus = 8;
  options.lookup.items = 40;
  options.prompts = 40;
  options.replicates = 100;
  return options;
}

TEST(Gates, EffectiveOffsetsAreOneForOneHotWForUniformAndKForKAlike) {
  EXPECT_DOUBLE_EQ(effective_offsets(std::array{0.0, 5.0, 0.0, 0.0}, 5), 1);
  EXPECT_NEAR(effective_offsets(std::array{1.0, 1.0, 1.0, 1.0}, 4), 4, 1e-14);
  EXPECT_NEAR(effective_offsets(std::array{0.0, 3.0, 3.0, 0.0}, 6), 2, 1e-14);
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
    EXPECT_NEAR(effective_offsets(p.key, 8), p.fixed, 0.02);
  }
}

// A key and a value gate of one head over made-up windows: alpha of each by `weights`.
template <typename WeightsOf>
GateSums made_up(bool of_values, const WeightsOf& weights) {
  constexpr std::size_t kPrompts = 30, kWindows = 40, kW = 8;
  GateSums gate{.of_values = of_values, .window = kW};
  for (std::int64_t i = 0; i < 8; ++i) gate.phase_of_offset.push_back(i);
  for (std::size_t prompt = 0; prompt < kPrompts; ++prompt) {
    std::vector<double> row(kW + 2);
    for (std::size_t w = 0; w < kWindows; ++w) {
      const std::array<double, kW> alpha = weights(prompt, w);
      for (std::size_t i = 0; i < kW; ++i) row[i] += alpha[i];
      row[kW] += effective_offsets(alpha, 1);
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
    gate.head = 1;
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

}  // namespace
}  // namespace kvphase::lab
