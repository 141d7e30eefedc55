#include "model/presets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "base/error.h"

namespace kvphase::model {
namespace {

TEST(Presets, HaveThePapersDesignsAtBothShapesUnderDistinctNames) {
  std::set<std::string> names(preset_names().begin(), preset_names().end());
  EXPECT_EQ(names.size(), preset_names().size());
  int small = 0, qwen = 0;
  for (const std::string& name : names) {
    if (name.rfind("small/", 0) == 0) ++small;
    if (name.rfind("qwen3-0.6b/", 0) == 0) ++qwen;
  }
  constexpr int kTwins = 5;     // chunked designs with several KV heads, on staggered grids
  constexpr int kControls = 1;  // full attention with 2 KV heads, for the designs with 2
  EXPECT_EQ(qwen, 24 + kTwins + kControls);
  EXPECT_EQ(small, 24 + kTwins + kControls + 3);
  EXPECT_EQ(static_cast<int>(design_names().size()), 24 + kTwins + kControls);
}

TEST(Presets, OfAStaggeredTwinDifferInTheGridAlone) {
  int twins = 0;
  for (const std::string& name : preset_names()) {
    constexpr std::string_view kSuffix = "-staggered";
    if (!name.ends_with(kSuffix)) continue;
    ++twins;
    ModelConfig config = preset(name);
    EXPECT_EQ(config.chunk.grid, GridKind::kStaggered) << name;
    EXPECT_GT(config.kv_heads, 1) << name;
    const ModelConfig twin = preset(name.substr(0, name.size() - kSuffix.size()));
    EXPECT_EQ(parameter_count(config), parameter_count(twin)) << name;
    config.chunk.grid = GridKind::kAligned;
    EXPECT_EQ(config, twin) << name;
  }
  EXPECT_EQ(twins, 2 * 5);
}

TEST(Presets, OfAnyWindowStrideAndNumberOfHeadsAreNamedByThem) {
  for (const std::string shape : {"small", "qwen3-0.6b"}) {
    const ModelConfig listed = preset(shape + "/w8s8-4kv-staggered");
    ModelConfig config = preset(shape + "/w6s3-4kv-staggered");
    EXPECT_EQ(config.chunk.window, 6);
    EXPECT_EQ(config.chunk.stride, 3);
    EXPECT_EQ(design_of(config), "w6s3-4kv-staggered");
    config.chunk.window = config.chunk.stride = 8;
    EXPECT_EQ(config, listed);
    EXPECT_EQ(preset(shape + "/w8s8-8kv-tail"), preset(shape + "/w8s8-tail-8kv"));
    EXPECT_EQ(design_of(preset(shape + "/w8s8-8kv-tail")), "w8s8-tail-8kv") << "the listed name";
  }
  EXPECT_TRUE(is_design("w4s4-2kv"));
  EXPECT_EQ(preset("small/w4s4-3kv").query_heads, 6);
  EXPECT_FALSE(is_design("w4s6-2kv")) << "the stride is longer than the window";
  EXPECT_FALSE(is_design("w4s4-1kv-staggered")) << "one head";
  for (const char* name : {"w4s4", "w4s4-0kv", "w0s0-1kv", "w4s4-1kv-tail-staggered-x", ""}) {
    EXPECT_FALSE(is_design(name)) << name;
  }
  EXPECT_THROW(preset("small/w4s6-2kv"), base::Error);
  EXPECT_THROW(preset("tiny/w4s4-2kv"), base::Error);
}

TEST(Presets, DifferFromEachOther) {
  std::set<std::string> configs;
  for (const std::string& name : preset_names()) configs.insert(to_json(preset(name)).dump());
  EXPECT_EQ(configs.size(), preset_names().size());
}

TEST(Presets, CountTheParametersOfQwen3) {
  const ModelConfig qwen = preset("qwen3-0.6b/full-8kv");
  const std::int64_t embedding = qwen.vocab_size * qwen.width;
  EXPECT_EQ((parameter_count(qwen) - embedding - qwen.width) / qwen.layers, 15730944);
  EXPECT_NEAR(static_cast<double>(parameter_count(qwen)) / 1e6, 596.05, 0.005);
  ModelConfig untied = qwen;
  untied.tied_embeddings = false;
  EXPECT_NEAR(static_cast<double>(parameter_count(untied)) / 1e6, 751.63, 0.005);
}

TEST(Presets, CountTheParametersOfTheRecipe) {
  // Published with the recipe: 84K control, 88K chunked.
  EXPECT_NEAR(static_cast<double>(parameter_count(preset("small/control"))), 84e3, 1e3);
  EXPECT_NEAR(static_cast<double>(parameter_count(preset("small/chunked"))), 88e3, 1e3);
}

TEST(Presets, AConfigurationIsRecognisedByItsDesignAtAnySize) {
  for (const std::string& shape : shape_names()) {
    for (const std::string& design : design_names()) {
      ModelConfig config = preset(shape + "/" + design);
      config.vocab_size = 99;
      config.context_length = 77;
      EXPECT_EQ(design_of(config), design) << shape;
    }
  }
  EXPECT_EQ(design_of(preset("small/chunked")), std::nullopt);
  EXPECT_EQ(design_of(preset("small/control")), "full-1kv");
}

TEST(Presets, AnUnknownNameIsRefusedWithTheNearest) {
  try {
    preset("small/w8s8-1k");
    FAIL() << "accepted";
  } catch (const base::Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("did you mean 'small/w8s8-1kv'"));
  }
}

}  // namespace
}  // namespace kvphase::model
