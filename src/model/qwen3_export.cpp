#include "model/qwen3_export.h"

#include "base/error.h"

namespace kvphase::model {
namespace {

constexpr const char* kEmbedding = "model.embed_tokens.weight";
constexpr const char* kHead = "lm_head.weight";

void check_layers(const ModelConfig& config, std::string_view scope) {
  for (std::size_t layer = 0; layer < config.attention.size(); ++layer) {
    if (config.attention[layer] == AttentionKind::kFull) continue;
    throw base::usage_error(
        scope,
        "expected full attention in every layer, got {} attention in layer {}; other programs' "
        "qwen3 has no such layer, only full-attention checkpoints can be exported",
        config.attention[layer] == AttentionKind::kChunked ? "chunked" : "local-only", layer);
  }
}

void check_keys(const ModelConfig& config, std::string_view scope) {
  const auto refuse = [&](bool wrong, std::string_view key, std::string_view wanted) {
    if (wrong) {
      throw base::usage_error(scope,
                              "expected {} ('{}'), got a network without; qwen3 has no "
                              "other form",
                              wanted, key);
    }
  };
  refuse(!config.qk_norm, "qk_norm", "normalised queries and keys");
  refuse(config.post_norm, "post_norm", "norms before attention and MLP only");
  refuse(config.attention_sink, "attention_sink", "a softmax without sinks");
  refuse(config.rope_dims != config.head_width, "rope_dims", "RoPE on all dims of a head");
}

}  // namespace

Qwen3Network qwen3_network(const Checkpoint& checkpoint, std::string_view scope) {
  const ModelConfig& config = checkpoint.config;
  check_layers(config, scope);
  check_keys(config, scope);
  const bool scaled = config.embedding_scale != 1;
  Qwen3Network network{.tied = config.tied_embeddings && !scaled};
  for (const NamedTensor& weight : checkpoint.weights) {
    const torch::Tensor tensor = weight.tensor.detach().to(torch::kFloat).contiguous();
    if (weight.name == kEmbedding && scaled) {
      network.weights.push_back({weight.name, tensor * config.embedding_scale});
      if (config.tied_embeddings) network.weights.push_back({kHead, tensor});
    } else {
      network.weights.push_back({weight.name, tensor});
    }
  }
  return network;
}

}  // namespace kvphase::model
