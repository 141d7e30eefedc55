#include "train/batch.h"

#include <gtest/gtest.h>
#include <torch/torch.h>
#include <unistd.h>

#include <filesystem>
#include <set>

#include "base/error.h"
#include "train/recipes.h"

namespace kvphase::train {
namespace {

const task::LookupLanguage kLanguage{
    .fillers = 4, .keys = 9, .values = 5, .haystack = 20, .records = 6, .queries = 4};

TEST(Batch, AsksForTheTokenAfterEachQueryKey) {
  const Batch batch = make_batch(kLanguage, 1, kTrainStream, 7, 5);
  ASSERT_EQ(batch.tokens.sizes(), (torch::IntArrayRef{5, 29}));
  EXPECT_TRUE(torch::equal(batch.rows, torch::tensor({21, 23, 25, 27}, torch::kInt64)));
  EXPECT_TRUE(torch::equal(batch.targets, batch.tokens.index_select(1, batch.rows + 1)));
}

TEST(Batch, HasFillerInFrontOfEverythingForAnOffset) {
  const Batch batch = make_batch(kLanguage, 1, kTrainStream, 7, 50, 3);
  ASSERT_EQ(batch.tokens.sizes(), (torch::IntArrayRef{50, 32}));
  EXPECT_TRUE(torch::equal(batch.rows, torch::tensor({24, 26, 28, 30}, torch::kInt64)));
  EXPECT_TRUE(torch::equal(batch.targets, batch.tokens.index_select(1, batch.rows + 1)));
  EXPECT_TRUE(
      batch.tokens.select(1, 3 + kLanguage.haystack).eq(kLanguage.separator()).all().item<bool>());
  std::set<std::int64_t> seen;
  for (std::int64_t b = 0; b < 50; ++b) {
    for (std::int64_t t = 0; t < 3; ++t) {
      const auto token = static_cast<lm::TokenId>(batch.tokens[b][t].item<std::int64_t>());
      EXPECT_EQ(kLanguage.meaning(token).kind, task::TokenKind::kFiller);
      seen.insert(token);
    }
  }
  EXPECT_EQ(std::ssize(seen), kLanguage.fillers) << "every filler is drawn";
}

TEST(Batch, DependsOnSeedStreamAndStepAlone) {
  const Batch batch = make_batch(kLanguage, 1, kTrainStream, 7, 5);
  EXPECT_TRUE(torch::equal(batch.tokens, make_batch(kLanguage, 1, kTrainStream, 7, 5).tokens));
  for (const Batch& other :
       {make_batch(kLanguage, 2, kTrainStream, 7, 5), make_batch(kLanguage, 1, kTrainStream, 8, 5),
        make_batch(kLanguage, 1, kValidationStream, 7, 5)}) {
    EXPECT_FALSE(torch::equal(batch.tokens, other.tokens));
  }
}

class TextBatch : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "kvphase-batch-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    write("train-00000.tokens", 0, 300);
    write("train-00001.tokens", 400, 100);
    write("validation-00000.tokens", 600, 200);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  // Ids first, first + 1, ...: a token's id says where it stands.
  void write(const char* name, lm::TokenId first, lm::TokenId count) const {
    TokenShardWriter writer(folder_ / name, 1000, "mine");
    for (lm::TokenId token = first; token < first + count; ++token) {
      writer.append(std::array{token});
    }
    writer.finish();
  }

  TokenSet text(std::int64_t length) const {
    const std::vector<std::string> folders = {folder_.string()};
    return TokenSet(folders, kTrainSplit, length + 1);
  }

  TrainOptions options(double lookup_share) const {
    TrainOptions options = recipe("small-wf");
    options.language.ids.clear();
    for (std::int64_t id = 0; id < options.language.own_tokens(); ++id) {
      options.language.ids.push_back(static_cast<lm::TokenId>(900 + id));
    }
    options.data = {.text = {folder_.string()}, .sequence = 12, .lookup_share = lookup_share};
    options.batch = 8;
    options.validation_sequences = 5;
    fit_model_to_language(options, 1000);
    validate(options, "test");
    return options;
  }

  std::filesystem::path folder_;
};

TEST_F(TextBatch, PredictsEveryNextTokenOfWindowsOfOneShard) {
  const Batch batch = make_text_batch(text(12), 1, kTrainStream, 3, 50, 12);
  ASSERT_EQ(batch.tokens.sizes(), (torch::IntArrayRef{50, 12}));
  EXPECT_FALSE(batch.rows.defined());
  EXPECT_TRUE(torch::equal(batch.targets, batch.tokens + 1));
  EXPECT_EQ((batch.tokens >= 400).all(1).sum().item<std::int64_t>(),
            (batch.tokens >= 400).any(1).sum().item<std::int64_t>());
}

TEST_F(TextBatch, ReachesEveryPlaceEquallyOften) {
  constexpr std::int64_t kDraws = 50'000;
  const torch::Tensor first =
      make_text_batch(text(12), 1, kTrainStream, 0, kDraws, 12).tokens.select(1, 0);
  const torch::Tensor counts = torch::bincount(first, {}, 1000).to(torch::kDouble);
  const std::int64_t places = (300 - 12) + (100 - 12);
  const double expected = static_cast<double>(kDraws) / static_cast<double>(places);
  EXPECT_EQ((counts > 0).sum().item<std::int64_t>(), places);
  const double chi2 = ((counts - expected).square() / expected * (counts > 0)).sum().item<double>();
  const auto degrees = static_cast<double>(places - 1);
  EXPECT_NEAR(chi2, degrees, 5 * std::sqrt(2 * degrees));
}

TEST_F(TextBatch, DependsOnSeedStreamAndStepAlone) {
  const TokenSet set = text(12);
  const auto tokens = [&](std::uint64_t seed, std::string_view stream, std::uint64_t step) {
    return make_text_batch(set, seed, stream, step, 6, 12).tokens;
  };
  const torch::Tensor one = tokens(1, kTrainStream, 7);
  EXPECT_TRUE(torch::equal(one, tokens(1, kTrainStream, 7)));
  EXPECT_FALSE(torch::equal(one, tokens(2, kTrainStream, 7)));
  EXPECT_FALSE(torch::equal(one, tokens(1, kTrainStream, 8)));
  EXPECT_FALSE(torch::equal(one, tokens(1, kValidationStream, 7)));
}

TEST_F(TextBatch, MixesTextAndLookupsByTheShare) {
  const TrainOptions mixed = options(0.3);
  const TrainingData data(mixed);
  std::int64_t lookups = 0;
  for (std::int64_t step = 0; step < 10; ++step) {
    double weight = 0;
    std::int64_t sequences = 0, tokens = 0;
    for (const BatchPart& part : data.step(step)) {
      weight += part.weight;
      sequences += part.batch.tokens.size(0);
      tokens += part.batch.tokens.numel();
      EXPECT_DOUBLE_EQ(part.weight, static_cast<double>(part.batch.tokens.size(0)) / 8);
      const bool from_language = (part.batch.tokens >= 900).all().item<bool>();
      EXPECT_EQ(from_language, part.kind == BatchPart::Kind::kLookup);
      if (from_language) lookups += part.batch.tokens.size(0);
    }
    EXPECT_DOUBLE_EQ(weight, 1);
    EXPECT_EQ(sequences, 8);
    EXPECT_EQ(tokens, data.tokens_of_step(step));
  }
  EXPECT_EQ(lookups, 24);  // 0.3 of 80
}

TEST_F(TextBatch, ValidatesOnTheHeldOutShardsAlone) {
  const TrainingData data(options(0));
  EXPECT_EQ(data.step(0).size(), 1U);
  const auto held_out = data.validation_text();
  ASSERT_TRUE(held_out.has_value());
  EXPECT_TRUE((held_out->tokens >= 600).all().item<bool>());
  EXPECT_EQ(data.validation_lookups().tokens.size(0), 5);
  EXPECT_EQ(data.identity().at("train").size(), 2U);
}

TEST_F(TextBatch, RefusesAVocabularyBeyondTheModels) {
  TrainOptions small = options(0);
  small.language.ids.clear();
  small.model.vocab_size = 500;
  EXPECT_THROW(TrainingData{small}, base::Error);
}

}  // namespace
}  // namespace kvphase::train
