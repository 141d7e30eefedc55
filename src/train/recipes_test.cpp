#include "train/recipes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "base/error.h"

namespace kvphase::train {
namespace {

TEST(Recipes, AreValidAndNamedOnce) {
  std::set<std::string> names;
  for (const Recipe& candidate : recipes()) {
    EXPECT_TRUE(names.insert(candidate.name).second) << candidate.name;
    EXPECT_EQ(candidate.options.recipe, candidate.name);
    EXPECT_NO_THROW(validate(candidate.options, candidate.name));
  }
  EXPECT_EQ(names.size(), 12U);
}

TEST(Recipes, StaggeredTwinKeepsAsManyNumbersPerCacheEntry) {
  for (const char* name : {"small-wc", "small-cc", "main-wc", "main-cc"}) {
    const model::ModelConfig aligned = recipe(name).model;
    const model::ModelConfig twin = recipe(std::string(name) + "-staggered").model;
    EXPECT_EQ(twin.kv_heads, 2) << name;
    EXPECT_EQ(twin.kv_heads * twin.head_width, aligned.kv_heads * aligned.head_width) << name;
    EXPECT_EQ(twin.query_heads * twin.head_width, aligned.query_heads * aligned.head_width);
    EXPECT_EQ(model::grid_shift(twin, 1), 2) << name;
    EXPECT_EQ(twin.attention, aligned.attention) << name;
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
