#include "model/gguf_export.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <map>

#include "base/error.h"
#include "model/qwen3_export.h"

namespace kvphase::model {
namespace {

using ::testing::HasSubstr;

ModelConfig full_config() {
  ModelConfig config{.vocab_size = 7,
                     .context_length = 16,
                     .layers = 2,
                     .width = 6,
                     .query_heads = 2,
                     .kv_heads = 1,
                     .head_width = 4,
                     .ff_width = 10,
                     .rope_dims = 4};
  config.attention = {AttentionKind::kFull, AttentionKind::kFull};
  return config;
}

Checkpoint checkpoint_of(const ModelConfig& config) {
  Checkpoint checkpoint{.config = config, .sha256 = "abc"};
  Transformer network(config, 3);
  for (const NamedTensor& weight : weights_of(network)) {
    checkpoint.weights.push_back({weight.name, weight.tensor.clone()});
  }
  for (std::int64_t i = 0; i < config.vocab_size; ++i) {
    checkpoint.token_names.push_back(fmt::format("w{}", i));
  }
  return checkpoint;
}

torch::Tensor weight_of(const std::vector<NamedTensor>& weights, const std::string& name) {
  for (const NamedTensor& weight : weights) {
    if (weight.name == name) return weight.tensor;
  }
  return {};
}

// A second reading of the format, of what these files use.
struct Gguf {
  std::map<std::string, std::string> keys;  // numbers as text, lists joined with ','
  struct Tensor {
    std::vector<std::uint64_t> dims;
    std::vector<float> values;
  };
  std::map<std::string, Tensor> tensors;
};

class Reader {
 public:
  explicit Reader(const std::string& bytes) : bytes_(bytes) {}

  template <typename T>
  T number() {
    T value;
    EXPECT_LE(at_ + sizeof(T), bytes_.size());
    std::memcpy(&value, bytes_.data() + at_, sizeof(T));
    at_ += sizeof(T);
    return value;
  }
  std::string text() {
    const auto size = number<std::uint64_t>();
    at_ += size;
    return bytes_.substr(at_ - size, size);
  }
  std::string value(std::uint32_t type) {
    switch (type) {
      case 4:
        return std::to_string(number<std::uint32_t>());
      case 5:
        return std::to_string(number<std::int32_t>());
      case 6:
        return std::to_string(number<float>());
      case 7:
        return number<std::uint8_t>() != 0 ? "true" : "false";
      case 8:
        return text();
      case 9: {
        const auto inner = number<std::uint32_t>();
        std::string list;
        for (auto left = number<std::uint64_t>(); left > 0; --left) list += value(inner) + ",";
        return list;
      }
      default:
        ADD_FAILURE() << "type " << type;
        return "";
    }
  }
  Gguf file() {
    EXPECT_EQ(bytes_.substr(0, 4), "GGUF");
    at_ = 4;
    EXPECT_EQ(number<std::uint32_t>(), 3u);
    const auto tensors = number<std::uint64_t>();
    Gguf gguf;
    for (auto left = number<std::uint64_t>(); left > 0; --left) {
      const std::string key = text();
      const auto type = number<std::uint32_t>();
      gguf.keys[key] = value(type);
    }
    std::map<std::string, std::uint64_t> offsets;
    for (auto left = tensors; left > 0; --left) {
      const std::string name = text();
      for (auto dims = number<std::uint32_t>(); dims > 0; --dims) {
        gguf.tensors[name].dims.push_back(number<std::uint64_t>());
      }
      EXPECT_EQ(number<std::uint32_t>(), 0u) << "float32";
      offsets[name] = number<std::uint64_t>();
      EXPECT_EQ(offsets[name] % 32, 0u);
    }
    const std::size_t data = (at_ + 31) / 32 * 32;
    for (auto& [name, tensor] : gguf.tensors) {
      std::uint64_t count = 1;
      for (const auto size : tensor.dims) count *= size;
      at_ = data + offsets[name];
      for (; count > 0; --count) tensor.values.push_back(number<float>());
    }
    return gguf;
  }

 private:
  const std::string& bytes_;
  std::size_t at_ = 0;
};

Gguf read(const std::string& bytes) { return Reader(bytes).file(); }

void expect_equal(const Gguf::Tensor& got, const torch::Tensor& expected, const std::string& name) {
  const auto sizes = expected.sizes();
  EXPECT_TRUE(std::equal(got.dims.begin(), got.dims.end(), sizes.rbegin(), sizes.rend(),
                         [](auto a, auto b) { return static_cast<std::int64_t>(a) == b; }))
      << name;
  const torch::Tensor flat = expected.contiguous().flatten();
  ASSERT_EQ(static_cast<std::int64_t>(got.values.size()), flat.numel()) << name;
  for (std::int64_t i = 0; i < flat.numel(); ++i) {
    ASSERT_EQ(got.values[static_cast<std::size_t>(i)], flat[i].item<float>()) << name << " " << i;
  }
}

TEST(GgufExport, SaysTheShapeInLlamaCppsKeys) {
  const Gguf file = read(gguf_bytes(checkpoint_of(full_config()), "tiny"));
  const std::map<std::string, std::string> expected = {
      {"general.architecture", "qwen3"},
      {"general.name", "tiny"},
      {"qwen3.block_count", "2"},
      {"qwen3.context_length", "16"},
      {"qwen3.embedding_length", "6"},
      {"qwen3.feed_forward_length", "10"},
      {"qwen3.attention.head_count", "2"},
      {"qwen3.attention.head_count_kv", "1"},
      {"qwen3.attention.key_length", "4"},
      {"qwen3.attention.value_length", "4"},
      {"qwen3.attention.layer_norm_rms_epsilon", "0.000001"},
      {"qwen3.rope.freq_base", "10000.000000"},
      {"tokenizer.ggml.add_bos_token", "false"},
      {"tokenizer.ggml.tokens", "\u2581w0,\u2581w1,\u2581w2,\u2581w3,\u2581w4,\u2581w5,\u2581w6,"}};
  for (const auto& [key, value] : expected) {
    ASSERT_TRUE(file.keys.contains(key)) << key;
    EXPECT_EQ(file.keys.at(key), value) << key;
  }
}

TEST(GgufExport, HoldsEveryWeightUnderItsName) {
  const Checkpoint checkpoint = checkpoint_of(full_config());
  const Gguf file = read(gguf_bytes(checkpoint, "tiny"));
  EXPECT_EQ(file.tensors.size(), 2u * 11u + 3u) << "two layers, embedding, norm and head";
  const auto check = [&](const std::string& name, const std::string& ours) {
    ASSERT_TRUE(file.tensors.contains(name)) << name;
    expect_equal(file.tensors.at(name), weight_of(checkpoint.weights, ours), name);
  };
  const std::map<std::string, std::string> parts = {
      {"attn_norm", "input_layernorm"},    {"attn_q", "self_attn.q_proj"},
      {"attn_k", "self_attn.k_proj"},      {"attn_v", "self_attn.v_proj"},
      {"attn_output", "self_attn.o_proj"}, {"attn_q_norm", "self_attn.q_norm"},
      {"attn_k_norm", "self_attn.k_norm"}, {"ffn_norm", "post_attention_layernorm"},
      {"ffn_gate", "mlp.gate_proj"},       {"ffn_up", "mlp.up_proj"},
      {"ffn_down", "mlp.down_proj"}};
  for (const std::string layer : {"0", "1"}) {
    for (const auto& [theirs, ours] : parts) {
      check("blk." + layer + "." + theirs + ".weight",
            "model.layers." + layer + "." + ours + ".weight");
    }
  }
  check("output_norm.weight", "model.norm.weight");
}

TEST(GgufExport, FoldsTheEmbeddingScaleAndKeepsATiedHeadWithoutIt) {
  ModelConfig config = full_config();
  config.embedding_scale = 3;
  const Checkpoint checkpoint = checkpoint_of(config);
  const torch::Tensor embedding = weight_of(checkpoint.weights, "model.embed_tokens.weight");
  const Gguf file = read(gguf_bytes(checkpoint, "tiny"));
  expect_equal(file.tensors.at("token_embd.weight"), embedding * 3, "token_embd");
  expect_equal(file.tensors.at("output.weight"), embedding, "output");
}

TEST(GgufExport, AHeadOfItsOwnStaysAndAnUnscaledTiedOneNeedsNone) {
  ModelConfig config = full_config();
  config.tied_embeddings = false;
  const Checkpoint untied = checkpoint_of(config);
  expect_equal(read(gguf_bytes(untied, "t")).tensors.at("output.weight"),
               weight_of(untied.weights, "lm_head.weight"), "output");
  config = full_config();
  config.embedding_scale = 1;
  EXPECT_FALSE(read(gguf_bytes(checkpoint_of(config), "t")).tensors.contains("output.weight"));
}

TEST(GgufExport, SameCheckpointSameBytes) {
  const Checkpoint checkpoint = checkpoint_of(full_config());
  EXPECT_EQ(gguf_bytes(checkpoint, "t"), gguf_bytes(checkpoint, "t"));
}

TEST(Qwen3Network, RefusesWhatQwen3LacksByName) {
  const auto refusal = [](const std::function<void(ModelConfig&)>& change) {
    ModelConfig config = full_config();
    change(config);
    try {
      qwen3_network(checkpoint_of(config), "export");
    } catch (const base::Error& error) {
      EXPECT_EQ(error.kind(), base::ErrorKind::kUsage);
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(refusal([](ModelConfig&) {}), "");
  EXPECT_THAT(refusal([](ModelConfig& c) { c.attention[1] = AttentionKind::kChunked; }),
              HasSubstr("chunked attention in layer 1"));
  EXPECT_THAT(refusal([](ModelConfig& c) { c.attention[0] = AttentionKind::kLocal; }),
              HasSubstr("local-only attention in layer 0"));
  EXPECT_THAT(refusal([](ModelConfig& c) { c.qk_norm = false; }), HasSubstr("qk_norm"));
  EXPECT_THAT(refusal([](ModelConfig& c) { c.post_norm = true; }), HasSubstr("post_norm"));
  EXPECT_THAT(refusal([](ModelConfig& c) { c.attention_sink = true; }), HasSubstr("sink"));
  EXPECT_THAT(refusal([](ModelConfig& c) { c.rope_dims = 2; }), HasSubstr("rope_dims"));
}

}  // namespace
}  // namespace kvphase::model
