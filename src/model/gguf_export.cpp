#include "model/gguf_export.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "base/error.h"
#include "model/qwen3_export.h"

namespace kvphase::model {
namespace {

static_assert(std::endian::native == std::endian::little, "GGUF is written little-endian");

constexpr std::size_t kAlignment = 32;  // the format's default
constexpr std::uint32_t kVersion = 3;
enum ValueType : std::uint32_t { kU32 = 4, kI32 = 5, kF32 = 6, kBool = 7, kText = 8, kArray = 9 };
constexpr std::uint32_t kTensorF32 = 0;
constexpr std::int32_t kNormalToken = 1;
constexpr const char* kWordStart = "\xe2\x96\x81";  // U+2581, how llama.cpp marks a word's start

template <typename T>
void put(std::string& bytes, T value) {
  char raw[sizeof(T)];
  std::memcpy(raw, &value, sizeof(T));
  bytes.append(raw, sizeof(T));
}

void put_text(std::string& bytes, std::string_view text) {
  put<std::uint64_t>(bytes, text.size());
  bytes.append(text);
}

void pad(std::string& bytes) {
  bytes.resize((bytes.size() + kAlignment - 1) / kAlignment * kAlignment, '\0');
}

class Keys {
 public:
  void text(std::string_view key, std::string_view value) {
    begin(key, kText);
    put_text(bytes_, value);
  }
  void count(std::string_view key, std::int64_t value) {
    begin(key, kU32);
    put(bytes_, static_cast<std::uint32_t>(value));
  }
  void real(std::string_view key, double value) {
    begin(key, kF32);
    put(bytes_, static_cast<float>(value));
  }
  void boolean(std::string_view key, bool value) {
    begin(key, kBool);
    put<std::uint8_t>(bytes_, value ? 1 : 0);
  }
  void texts(std::string_view key, std::span<const std::string> values) {
    begin(key, kArray);
    put<std::uint32_t>(bytes_, kText);
    put<std::uint64_t>(bytes_, values.size());
    for (const std::string& value : values) put_text(bytes_, value);
  }
  void integers(std::string_view key, std::span<const std::int32_t> values) {
    begin(key, kArray);
    put<std::uint32_t>(bytes_, kI32);
    put<std::uint64_t>(bytes_, values.size());
    for (const std::int32_t value : values) put(bytes_, value);
  }

  std::uint64_t size() const { return count_; }
  const std::string& bytes() const { return bytes_; }

 private:
  void begin(std::string_view key, ValueType type) {
    ++count_;
    put_text(bytes_, key);
    put<std::uint32_t>(bytes_, type);
  }

  std::string bytes_;
  std::uint64_t count_ = 0;
};

void write_shape(Keys& keys, const ModelConfig& config) {
  keys.count("qwen3.block_count", config.layers);
  keys.count("qwen3.context_length", config.context_length);
  keys.count("qwen3.embedding_length", config.width);
  keys.count("qwen3.feed_forward_length", config.ff_width);
  keys.count("qwen3.attention.head_count", config.query_heads);
  keys.count("qwen3.attention.head_count_kv", config.kv_heads);
  keys.count("qwen3.attention.key_length", config.head_width);
  keys.count("qwen3.attention.value_length", config.head_width);
  keys.real("qwen3.attention.layer_norm_rms_epsilon", config.norm_epsilon);
  keys.real("qwen3.rope.freq_base", config.rope_base);
}

// The lookup languages have no special tokens; the defaults of a WordPiece vocabulary (ids 100 to
// 103) would be words of ours, so every one that can be switched off is.
void write_vocabulary(Keys& keys, const std::vector<std::string>& names) {
  std::vector<std::string> words;
  for (const std::string& name : names) words.push_back(kWordStart + name);
  keys.text("tokenizer.ggml.model", "bert");
  keys.texts("tokenizer.ggml.tokens", words);
  keys.integers("tokenizer.ggml.token_type", std::vector<std::int32_t>(names.size(), kNormalToken));
  keys.count("tokenizer.ggml.unknown_token_id", 0);
  keys.boolean("tokenizer.ggml.add_bos_token", false);
  keys.boolean("tokenizer.ggml.add_eos_token", false);
  keys.boolean("tokenizer.ggml.add_sep_token", false);
}

// Hugging Face's name in llama.cpp's words.
std::string gguf_name(const std::string& name, std::string_view scope) {
  constexpr std::array whole = {std::pair{"model.embed_tokens.weight", "token_embd.weight"},
                                std::pair{"model.norm.weight", "output_norm.weight"},
                                std::pair{"lm_head.weight", "output.weight"}};
  for (const auto& [from, to] : whole) {
    if (name == from) return to;
  }
  constexpr std::array parts = {std::pair{"input_layernorm", "attn_norm"},
                                std::pair{"self_attn.q_proj", "attn_q"},
                                std::pair{"self_attn.k_proj", "attn_k"},
                                std::pair{"self_attn.v_proj", "attn_v"},
                                std::pair{"self_attn.o_proj", "attn_output"},
                                std::pair{"self_attn.q_norm", "attn_q_norm"},
                                std::pair{"self_attn.k_norm", "attn_k_norm"},
                                std::pair{"post_attention_layernorm", "ffn_norm"},
                                std::pair{"mlp.gate_proj", "ffn_gate"},
                                std::pair{"mlp.up_proj", "ffn_up"},
                                std::pair{"mlp.down_proj", "ffn_down"}};
  constexpr std::string_view prefix = "model.layers.";
  if (name.starts_with(prefix)) {
    const std::size_t dot = name.find('.', prefix.size());
    const std::string layer = name.substr(prefix.size(), dot - prefix.size());
    for (const auto& [from, to] : parts) {
      if (name.substr(dot + 1) == std::string(from) + ".weight") {
        return "blk." + layer + "." + to + ".weight";
      }
    }
  }
  throw base::usage_error(scope, "expected a weight of qwen3, got '{}'", name);
}

}  // namespace

std::string gguf_bytes(const Checkpoint& checkpoint, std::string_view name) {
  constexpr const char* scope = "export";
  const Qwen3Network network = qwen3_network(checkpoint, scope);
  Keys keys;
  keys.text("general.architecture", "qwen3");
  keys.text("general.name", name);
  keys.text("general.description", "exported by kvphase from weights " + checkpoint.sha256);
  keys.count("general.file_type", 0);  // all float32
  write_shape(keys, checkpoint.config);
  write_vocabulary(keys, checkpoint.token_names);

  std::string infos, data;
  for (const NamedTensor& weight : network.weights) {
    pad(data);
    put_text(infos, gguf_name(weight.name, scope));
    const auto sizes = weight.tensor.sizes();
    put<std::uint32_t>(infos, static_cast<std::uint32_t>(sizes.size()));
    for (auto size = sizes.rbegin(); size != sizes.rend(); ++size) {
      put<std::uint64_t>(infos, static_cast<std::uint64_t>(*size));
    }
    put(infos, kTensorF32);
    put<std::uint64_t>(infos, data.size());
    data.append(static_cast<const char*>(weight.tensor.data_ptr()), weight.tensor.nbytes());
  }
  pad(data);
  std::string file = "GGUF";
  put(file, kVersion);
  put<std::uint64_t>(file, network.weights.size());
  put<std::uint64_t>(file, keys.size());
  file += keys.bytes();
  file += infos;
  pad(file);
  return file + data;
}

}  // namespace kvphase::model
