#include "model/hf_export.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/files.h"

namespace kvphase::model {
namespace {

namespace fs = std::filesystem;

class HfExport : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "kvphase-hf-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { fs::remove_all(folder_); }

  static ModelConfig config() {
    ModelConfig config{.vocab_size = 9,
                       .context_length = 12,
                       .width = 8,
                       .query_heads = 4,
                       .kv_heads = 2,
                       .head_width = 6,
                       .ff_width = 10,
                       .rope_dims = 6};
    config.attention = {AttentionKind::kFull, AttentionKind::kFull};
    return config;
  }
  static Checkpoint checkpoint(Transformer& network) {
    Checkpoint checkpoint{.config = network.config(), .weights = weights_of(network)};
    for (std::int64_t i = 0; i < network.config().vocab_size; ++i) {
      checkpoint.token_names.push_back(fmt::format("w{}", i));
    }
    return checkpoint;
  }
  base::Json json(const fs::path& path) {
    return base::parse_json(base::read_file(path), path.string());
  }

  fs::path folder_;
};

TEST_F(HfExport, TheFolderComputesTheSameFunctionWithoutAnEmbeddingScale) {
  Transformer network(config(), 4);
  write_hf_folder(checkpoint(network), folder_ / "hf");
  const base::Json written = json(folder_ / "hf" / "config.json");
  EXPECT_EQ(written.at("architectures").at(0), "Qwen3ForCausalLM");
  EXPECT_EQ(written.at("head_dim"), 6);
  EXPECT_EQ(written.at("num_key_value_heads"), 2);

  ModelConfig plain = config();
  plain.embedding_scale = 1;
  plain.tied_embeddings = written.at("tie_word_embeddings").get<bool>();
  Transformer reread(plain, 99);
  const std::string bytes = base::read_file(folder_ / "hf" / "model.safetensors");
  const SafetensorsFile file = read_safetensors(bytes, "test");
  EXPECT_EQ(file.metadata.at("format"), "pt");
  load_weights(reread, file.tensors, "test");
  const torch::Tensor tokens = torch::arange(9, torch::kLong).unsqueeze(0);
  const double gap = (network.forward(tokens) - reread.forward(tokens)).abs().max().item<double>();
  EXPECT_LT(gap, 1e-5);
}

TEST_F(HfExport, TheTokenizerHasEveryNameAtItsId) {
  Transformer network(config(), 4);
  write_hf_folder(checkpoint(network), folder_ / "hf");
  const base::Json model = json(folder_ / "hf" / "tokenizer.json").at("model");
  EXPECT_EQ(model.at("type"), "WordLevel");
  EXPECT_EQ(model.at("vocab").size(), 9u);
  EXPECT_EQ(model.at("vocab").at("w8"), 8);
  EXPECT_FALSE(model.at("vocab").contains(model.at("unk_token").get<std::string>()));
}

TEST_F(HfExport, NothingIsWrittenForARefusedCheckpointOrOverAnExistingFolder) {
  ModelConfig chunked = config();
  chunked.attention[1] = AttentionKind::kChunked;
  Transformer network(chunked, 4);
  EXPECT_THROW(write_hf_folder(checkpoint(network), folder_ / "hf"), base::Error);
  EXPECT_FALSE(fs::exists(folder_ / "hf"));
  Transformer full(config(), 4);
  EXPECT_THROW(write_hf_folder(checkpoint(full), folder_), base::Error);
}

}  // namespace
}  // namespace kvphase::model
