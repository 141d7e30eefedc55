#include "model/hf_export.h"

#include "base/files.h"
#include "model/qwen3_export.h"

namespace kvphase::model {

using base::Json;

Json hf_config(const ModelConfig& config, bool tied) {
  return {{"architectures", {"Qwen3ForCausalLM"}},
          {"model_type", "qwen3"},
          {"torch_dtype", "float32"},
          {"vocab_size", config.vocab_size},
          {"hidden_size", config.width},
          {"intermediate_size", config.ff_width},
          {"num_hidden_layers", config.layers},
          {"num_attention_heads", config.query_heads},
          {"num_key_value_heads", config.kv_heads},
          {"head_dim", config.head_width},
          {"max_position_embeddings", config.context_length},
          {"rms_norm_eps", config.norm_epsilon},
          // Version 5 of transformers reads the second form of the same base.
          {"rope_theta", config.rope_base},
          {"rope_parameters", {{"rope_type", "default"}, {"rope_theta", config.rope_base}}},
          {"hidden_act", "silu"},
          {"tie_word_embeddings", tied},
          {"attention_bias", false},
          {"attention_dropout", 0.0},
          {"use_sliding_window", false},
          {"bos_token_id", nullptr},
          {"eos_token_id", nullptr},
          {"use_cache", true}};
}

Json hf_tokenizer(const std::vector<std::string>& token_names) {
  Json vocabulary = Json::object();
  for (std::size_t id = 0; id < token_names.size(); ++id) vocabulary[token_names[id]] = id;
  return {
      {"version", "1.0"},
      {"truncation", nullptr},
      {"padding", nullptr},
      {"added_tokens", Json::array()},
      {"normalizer", nullptr},
      {"pre_tokenizer", {{"type", "WhitespaceSplit"}}},
      {"post_processor", nullptr},
      {"decoder", nullptr},
      // The unknown token is in no vocabulary, so that an unknown word is an error.
      {"model", {{"type", "WordLevel"}, {"vocab", std::move(vocabulary)}, {"unk_token", "[UNK]"}}}};
}

void write_hf_folder(const Checkpoint& checkpoint, const std::filesystem::path& folder) {
  constexpr const char* scope = "export";
  const Qwen3Network network = qwen3_network(checkpoint, scope);
  base::create_new_folder(folder, scope);
  const auto write = [&](const char* name, const Json& json) {
    base::write_file_atomically(folder / name, json.dump(2) + "\n");
  };
  write("config.json", hf_config(checkpoint.config, network.tied));
  write("tokenizer.json", hf_tokenizer(checkpoint.token_names));
  write("tokenizer_config.json", {{"tokenizer_class", "PreTrainedTokenizerFast"},
                                  {"model_max_length", checkpoint.config.context_length},
                                  {"clean_up_tokenization_spaces", false}});
  // The format entry is what transformers looks for.
  base::write_file_atomically(folder / "model.safetensors",
                              write_safetensors(network.weights, {{"format", "pt"}}));
}

}  // namespace kvphase::model
