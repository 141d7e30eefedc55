// A checkpoint as a Hugging Face folder, for AutoModelForCausalLM and AutoTokenizer:
//   config.json            Qwen3ForCausalLM
//   model.safetensors      float32
//   tokenizer.json         one word per token, separated by blanks; other words are an error
//   tokenizer_config.json  which class reads it
#pragma once

#include <filesystem>

#include "base/json.h"
#include "model/checkpoint.h"

namespace kvphase::model {

// Creates the folder, which must not exist. Throws what qwen3_network throws, before anything is
// written.
void write_hf_folder(const Checkpoint& checkpoint, const std::filesystem::path& folder);

base::Json hf_config(const ModelConfig& config, bool tied);
base::Json hf_tokenizer(const std::vector<std::string>& token_names);

}  // namespace kvphase::model
