#include "train/fit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "base/error.h"
#include "lm/byte_tokens.h"
#include "model/presets.h"
#include "train/recipes.h"
#include "train/token_set.h"

namespace kvphase::train {
namespace {

namespace fs = std::filesystem;
using base::Json;
using ::testing::HasSubstr;

class OptionsWith : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "kvphase-fit-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { fs::remove_all(folder_); }

  void write_shards(std::int64_t vocabulary, std::string_view tokenizer) {
    for (const char* split : {"train", "validation"}) {
      TokenShardWriter writer(folder_ / fmt::format("{}-00000.tokens", split), vocabulary,
                              tokenizer);
      writer.append(std::vector<lm::TokenId>(1000, 65));
      writer.finish();
    }
  }

  fs::path folder_;
};

TEST_F(OptionsWith, NothingGivesTheRecipe) {
  const TrainOptions options = options_with(recipe("main-wc"), nullptr, Json::object());
  EXPECT_EQ(to_json(options), to_json(recipe("main-wc")));
  EXPECT_FALSE(to_json(options).contains("data"));
}

TEST_F(OptionsWith, BytesOfTextTheLanguageMovesToLettersAndTheModelGrows) {
  write_shards(lm::kByteVocabulary, kByteTokenizer);
  const TrainOptions options = options_with(
      recipe("main-wf"), nullptr,
      {{"data", {{"text", {folder_.string()}}, {"sequence", 200}, {"lookup_share", 0.25}}}});
  EXPECT_EQ(options.language, task::lookup_language_in_bytes());
  EXPECT_EQ(options.model.vocab_size, 257);
  EXPECT_EQ(options.model.context_length, 200);
  EXPECT_EQ(train_options_from_json(to_json(options), "test").data, options.data);
  // What the user says of the language stays.
  const TrainOptions own = options_with(
      recipe("main-wf"), nullptr,
      {{"data", {{"text", {folder_.string()}}}},
       {"language",
        {{"records", 3},
         {"queries", 2},
         {"tokens", {{"separator", ";"}, {"fillers", " "}, {"keys", "abcd"}, {"values", "01"}}}}}});
  EXPECT_EQ(own.language.keys, 4);
  EXPECT_EQ(own.language.separator(), ';');
  EXPECT_EQ(own.model.context_length, 256);
}

TEST_F(OptionsWith, TokensOfAnotherKindKeepTheLanguagesIds) {
  write_shards(151936, "qwen3");
  const TrainOptions options =
      options_with(recipe("main-wf"), model::to_json(model::preset("small/w8s8-1kv")),
                   {{"data", {{"text", {folder_.string()}}}}});
  EXPECT_EQ(options.model.vocab_size, 151936);
  EXPECT_TRUE(options.language.ids.empty());
}

TEST_F(OptionsWith, ALargerVocabularyMayBeAskedForAndASmallerOneIsRefused) {
  const auto with = [](std::int64_t size) {
    return options_with(recipe("main-wf"), nullptr, {{"model", {{"vocab_size", size}}}});
  };
  EXPECT_EQ(with(5000).model.vocab_size, 5000);
  EXPECT_THROW(with(100), base::Error);
}

TEST_F(OptionsWith, TextThatCannotBeReadIsNamed) {
  try {
    options_with(recipe("main-wf"), nullptr, {{"data", {{"text", {folder_.string()}}}}});
    FAIL() << "accepted";
  } catch (const base::Error& error) {
    EXPECT_THAT(error.what(), HasSubstr(folder_.string()));
  }
}

TEST(LookupsAt, KeepTheShareOverTheSteps) {
  TrainOptions options = recipe("main-wf");
  options.batch = 7;
  EXPECT_EQ(lookups_at(options, 3), 7);  // no text
  options.data.text = {"somewhere"};
  EXPECT_EQ(lookups_at(options, 3), 0);
  options.data.lookup_share = 0.25;
  std::int64_t sum = 0;
  for (std::int64_t step = 0; step < 400; ++step) {
    const std::int64_t lookups = lookups_at(options, step);
    EXPECT_TRUE(lookups == 1 || lookups == 2) << step << ": " << lookups;
    sum += lookups;
    EXPECT_EQ(sum, 7 * (step + 1) / 4) << step;
  }
}

}  // namespace
}  // namespace kvphase::train
