// Writes a small full-attention checkpoint with random weights: the tests of serve and export need
// a function to compute, not a trained one. Every parameter is moved away from its start, norms
// included, so that swapped or forgotten ones show.
//   tied, untied  the lookup language, with every option that the export knows
//   words         a vocabulary of English words and a context of 140,000 tokens
// Usage: make_full_checkpoint tied|untied|words FOLDER
#include <fmt/format.h>
#include <torch/torch.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/random.h"
#include "model/checkpoint.h"
#include "model/transformer.h"
#include "task/lookup_language.h"
#include "task/records.h"
#include "task/words.h"

using namespace kvphase;

namespace {

model::ModelConfig config_of(bool tied, const task::LookupLanguage& language) {
  model::ModelConfig config{.vocab_size = language.vocab_size(),
                            .context_length = language.length()};
  if (!tied) {
    config.layers = 3;
    config.query_heads = 4;
    config.kv_heads = 2;
    config.head_width = 24;  // 4 * 24 is not the width
    config.rope_dims = 24;
    config.rope_base = 1e6;
    config.ff_width = 96;
    config.embedding_scale = 1;
    config.tied_embeddings = false;
  }
  config.attention.assign(static_cast<std::size_t>(config.layers), model::AttentionKind::kFull);
  return config;
}

// One narrow layer: 128K tokens pass through it in minutes on one core.
model::ModelConfig long_config(std::int64_t words) {
  model::ModelConfig config{.vocab_size = words, .context_length = 140'000};
  config.layers = 1;
  config.width = 32;
  config.query_heads = 1;
  config.kv_heads = 1;
  config.head_width = 32;
  config.rope_dims = 32;
  config.ff_width = 32;
  config.attention.assign(1, model::AttentionKind::kFull);
  return config;
}

// Token 0 stands for every unknown word in the exported tokenizer.
std::vector<std::string> word_names() {
  std::vector<std::string> names = {"unknown", task::kConnector};
  const auto words = task::candidate_words();
  names.insert(names.end(), words.begin(), words.end());
  return names;
}

}  // namespace

int main(int count, char** words) {
  const std::string kind = count == 3 ? words[1] : "";
  if (kind != "tied" && kind != "untied" && kind != "words") {
    fmt::print(stderr, "usage: make_full_checkpoint tied|untied|words FOLDER\n");
    return 2;
  }
  const task::LookupLanguage language;
  model::Checkpoint checkpoint;
  checkpoint.card.recipe = "random weights";
  if (kind == "words") {
    checkpoint.token_names = word_names();
    checkpoint.config = long_config(std::ssize(checkpoint.token_names));
  } else {
    for (std::int64_t token = 0; token < language.vocab_size(); ++token) {
      checkpoint.token_names.push_back(language.token_name(static_cast<lm::TokenId>(token)));
    }
    checkpoint.config = config_of(kind == "tied", language);
    checkpoint.card.language = task::to_json(language);
  }
  checkpoint.card.options = base::Json::object();
  model::Transformer network(checkpoint.config, 7);
  for (const model::NamedTensor& weight : model::weights_of(network)) {
    torch::Tensor tensor = weight.tensor.clone();
    base::Random random(base::derive_seed(11, weight.name));
    float* const values = tensor.data_ptr<float>();
    for (std::int64_t i = 0; i < tensor.numel(); ++i) {
      values[i] += static_cast<float>(0.1 * random.normal());
    }
    checkpoint.weights.push_back({weight.name, tensor});
  }
  std::filesystem::create_directories(words[2]);
  model::write_checkpoint(words[2], checkpoint);
  return 0;
}
