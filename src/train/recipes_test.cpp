#include "train/recipes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "base/error.h"
#include "model/presets.h"

namespace kvphase::train {
namespace {

TEST(Recipes, AreValidAndNamedOnce) {
  std::set<std::string> names;
  for (const Recipe& candidate : recipes()) {
    EXPECT_TRUE(names.insert(candidate.name).second) << candidate.name;
    EXPECT_EQ(candidate.options.recipe, candidate.name);
    EXPECT_NO_THROW(validate(candidate.options, candidate.name));
  }
  EXPECT_EQ(names.size(), 13U);
}

TEST(Recipes, StaggeredTwinKeepsAsManyNumbersPerCacheEntry) {
  for (const char* name : {"small-wc", "small-cc", "main-wc", "main-cc"}) {
    const model::ModelConfig aligned = recipe(name).model;
    const model::ModelConfig twin = recipe(std::string(name) + "-staggered").model;
    EXPECT_EQ(twin.kv_heads, 2) << name;
    EXPECT_EQ(twin.kv_heads * twin.head_width, aligned.kv_heads * aligned.head_width) << name;
    EXPECT_EQ(twin.query_heads * twin.head_width, aligned.query_heads * aligned.head_width);
    EXPECT_EQ(model::grid_shift(twin, 1, 1), 2) << name;
    EXPECT_EQ(twin.attention, aligned.attention) << name;
  }
}

TEST(Recipes, StaggeredTwinKeepsAsManyNumbersInItsCache) {
  for (const char* name : {"main-wc", "main-cc"}) {
    const model::ModelConfig aligned = recipe(name).model;
    const model::ModelConfig twin = recipe(std::string(name) + "-staggered").model;
    for (const std::int64_t tokens : {48, 72, 96}) {  // whole windows of both grids' heads
      EXPECT_NEAR(static_cast<double>(model::cache_size(twin, tokens).entries),
                  static_cast<double>(model::cache_size(aligned, tokens).entries),
                  // The shifted head's first, shorter window is one entry of its own.
                  2.0 * static_cast<double>(twin.head_width * twin.layers))
          << name << " " << tokens;
    }
  }
}

// The presets and the recipes name the demonstration's models independently; they must not drift
// apart.
TEST(Recipes, OfTheDemonstrationAreThePresetsOfThatName) {
  const std::pair<const char*, const char*> pairs[] = {{"main-wf", "small/control"},
                                                       {"main-wc", "small/chunked"},
                                                       {"main-wc-staggered", "small/staggered"}};
  for (const auto& [name, preset] : pairs) {
    base::Json of_recipe = model::to_json(recipe(name).model);
    base::Json of_preset = model::to_json(model::preset(preset));
    for (const char* fitted : {"vocab_size", "context_length"}) {
      of_recipe.erase(fitted);
      of_preset.erase(fitted);
    }
    EXPECT_EQ(of_recipe, of_preset) << name;
  }
}

TEST(Recipes, UnknownNameIsRefusedWithTheNearest) {
  try {
    recipe("main-wcc");
    FAIL() << "expected an error";
  } catch (const base::Error& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("did you mean 'main-wc'?"));
  }
}

}  // namespace
}  // namespace kvphase::train
