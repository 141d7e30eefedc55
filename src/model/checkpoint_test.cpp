#include "model/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <functional>

#include "base/error.h"
#include "base/files.h"
#include "base/hash.h"

namespace kvphase::model {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

ModelConfig tiny_config() {
  ModelConfig config;
  config.vocab_size = 11;
  config.context_length = 16;
  config.width = 8;
  config.head_width = 4;
  config.rope_dims = 4;
  config.ff_width = 12;
  config.attention = {AttentionKind::kLocal, AttentionKind::kChunked};
  return config;
}

class CheckpointFolder : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "kvphase-checkpoint-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    Transformer network(tiny_config(), 5);
    checkpoint_.config = tiny_config();
    checkpoint_.card = {.recipe = "tiny",
                        .seed = 18446744073709551615ULL,
                        .threads = 2,
                        .steps = 3,
                        .tokens = 99,
                        .loss = 0.1 + 0.2,
                        .commit = "abc",
                        .build = "test",
                        .started = "2026-01-01T00:00:00Z",
                        .seconds = 1.5,
                        .language = {{"keys", 4}},
                        .options = {{"steps", 3}}};
    for (int i = 0; i < 11; ++i) checkpoint_.token_names.push_back(fmt::format("t{}", i));
    for (const NamedTensor& weight : weights_of(network)) {
      checkpoint_.weights.push_back({weight.name, weight.tensor.clone()});
    }
    sha256_ = write_checkpoint(folder_, checkpoint_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string refusal() {
    try {
      const Checkpoint read = read_checkpoint(folder_);
      Transformer network(read.config, 0);
      load_weights(network, read.weights, folder_.string());
    } catch (const base::Error& error) {
      EXPECT_EQ(error.kind(), base::ErrorKind::kUsage);
      EXPECT_THAT(error.what(), HasSubstr(folder_.string())) << "the error names the folder";
      return error.what();
    }
    return "no error";
  }

  std::string refusal_with_weights(const std::function<void(std::vector<NamedTensor>&)>& change) {
    std::vector<NamedTensor> weights = checkpoint_.weights;
    for (NamedTensor& weight : weights) weight.tensor = weight.tensor.clone();
    change(weights);
    base::write_file_atomically(folder_ / "model.safetensors", write_safetensors(weights));
    return refusal();
  }

  fs::path folder_;
  Checkpoint checkpoint_;
  std::string sha256_;
};

TEST_F(CheckpointFolder, ComesBackEqualAndComputesTheSame) {
  const Checkpoint read = read_checkpoint(folder_);
  EXPECT_EQ(read.config, checkpoint_.config);
  EXPECT_EQ(to_json(read.card), to_json(checkpoint_.card));
  EXPECT_EQ(read.card.seed, 18446744073709551615ULL);
  EXPECT_FALSE(read.card.accuracy.has_value());
  EXPECT_EQ(read.token_names, checkpoint_.token_names);
  EXPECT_EQ(read.sha256, sha256_);
  EXPECT_EQ(read.sha256, base::sha256_hex(base::read_file(folder_ / "model.safetensors")));

  Transformer original(tiny_config(), 5);
  Transformer loaded(read.config, 0);
  const torch::Tensor tokens = torch::arange(11).unsqueeze(0);
  EXPECT_FALSE(torch::equal(original.forward(tokens), loaded.forward(tokens)));
  load_weights(loaded, read.weights, "test");
  EXPECT_TRUE(torch::equal(original.forward(tokens), loaded.forward(tokens)));
}

TEST_F(CheckpointFolder, EveryMissingFileIsNamed) {
  for (const char* name : {"model.safetensors", "config.json", "card.json", "tokens.json"}) {
    SetUp();
    fs::remove(folder_ / name);
    EXPECT_THAT(refusal(), HasSubstr(fmt::format("expected {} in", name)));
    fs::remove_all(folder_);
  }
  EXPECT_THAT(refusal(), HasSubstr("does not exist"));
}

TEST_F(CheckpointFolder, TruncatedFilesAreRefused) {
  for (const char* name : {"model.safetensors", "config.json", "card.json", "tokens.json"}) {
    SetUp();
    fs::resize_file(folder_ / name, fs::file_size(folder_ / name) / 2);
    EXPECT_NE(refusal(), "no error") << name;
    fs::remove_all(folder_);
  }
}

TEST_F(CheckpointFolder, WrongShapeDtypeOrNameOfATensorIsRefused) {
  EXPECT_EQ(refusal_with_weights([](auto&) {}), "no error");
  EXPECT_THAT(refusal_with_weights([](auto& weights) { weights.pop_back(); }),
              HasSubstr("got none of that name"));
  EXPECT_THAT(refusal_with_weights([](auto& weights) { weights[0].name = "model.extra"; }),
              HasSubstr("got 'model.extra'"));
  EXPECT_THAT(refusal_with_weights([](auto& weights) {
                weights[0].tensor = torch::zeros({11, 9});
              }),
              HasSubstr("got [11,9]"));
  EXPECT_THAT(refusal_with_weights(
                  [](auto& weights) { weights[0].tensor = weights[0].tensor.to(torch::kFloat64); }),
              HasSubstr("as float32, got Double"));
}

TEST_F(CheckpointFolder, WeightThatIsNotFiniteIsRefusedAndFound) {
  EXPECT_THAT(refusal_with_weights([](auto& weights) { weights[0].tensor[1][2] = NAN; }),
              ::testing::AllOf(HasSubstr("got nan in"), HasSubstr("at element 10")));
  EXPECT_THAT(refusal_with_weights([](auto& weights) { weights[0].tensor[0][0] = -INFINITY; }),
              HasSubstr("got -inf in"));
}

TEST_F(CheckpointFolder, TokenNamesMustFitTheVocabulary) {
  base::write_file_atomically(folder_ / "tokens.json", R"(["a", "b"])");
  EXPECT_THAT(refusal(), HasSubstr("a list of 11 texts, got 2 elements"));
  base::write_file_atomically(folder_ / "tokens.json", "{}");
  EXPECT_THAT(refusal(), HasSubstr("got object"));
}

TEST_F(CheckpointFolder, UnknownKeyOfTheCardIsRefused) {
  base::Json json = to_json(checkpoint_.card);
  json["sede"] = 1;
  base::write_file_atomically(folder_ / "card.json", json.dump());
  EXPECT_THAT(refusal(), HasSubstr("did you mean 'seed'?"));
}

}  // namespace
}  // namespace kvphase::model
