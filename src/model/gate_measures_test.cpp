#include "model/gate_measures.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "model/presets.h"

namespace kvphase::model {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(GateMeasures, EffectiveOffsetsAreOneForOneHotWForUniformAndKForKAlike) {
  EXPECT_DOUBLE_EQ(effective_offsets(std::array{0.0, 5.0, 0.0, 0.0}, 5), 1);
  EXPECT_NEAR(effective_offsets(std::array{1.0, 1.0, 1.0, 1.0}, 4), 4, 1e-14);
  EXPECT_NEAR(effective_offsets(std::array{0.0, 3.0, 3.0, 0.0}, 6), 2, 1e-14);
}

TEST(GateMeasures, OfVectorGatesAreMeansOverChannels) {
  // Two channels of W = 2 over 4 windows: one-hot, and uniform; every window had 1.25.
  const GatePlace gate{.window = 2, .channels = 2};
  const auto measures = measure_gate(gate, std::array{4.0, 0.0, 2.0, 2.0, 5.0, 4.0});
  ASSERT_TRUE(measures.has_value());
  EXPECT_NEAR(measures->fixed, 1.5, 1e-14);
  EXPECT_DOUBLE_EQ(measures->per_window, 1.25);
  EXPECT_THAT(measures->profile, ::testing::ElementsAre(1.5, 0.5));
}

TEST(GateMeasures, OfNoWindowsAreNone) {
  EXPECT_FALSE(measure_gate({.window = 2}, std::array{0.0, 0.0, 0.0, 0.0}).has_value());
}

TEST(GateMeasures, OnlyLearnedGatesOfChunkedLayersAreGates) {
  EXPECT_THAT(why_no_gates(preset("small/chunked")), IsEmpty());
  ModelConfig config = preset("small/chunked");
  config.chunk.gate = GateKind::kUniform;
  config.chunk.gate_bias = false;
  EXPECT_THAT(why_no_gates(config), HasSubstr("uniform gates"));
  config = preset("small/chunked");
  config.attention.assign(config.attention.size(), AttentionKind::kFull);
  EXPECT_THAT(why_no_gates(config), HasSubstr("no layer is chunked"));
}

}  // namespace
}  // namespace kvphase::model
