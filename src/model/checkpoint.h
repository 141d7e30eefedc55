// A trained model on disk: one folder with
//   model.safetensors  the weights, Hugging Face's qwen3 names, float32
//   config.json        ModelConfig
//   card.json          the training card: how the weights came about
//   tokens.json        the name of every token, a list of vocab_size texts
// model.safetensors is written last, so a folder that has it is complete. The weights' SHA-256 is
// the model's identity. Must not know how models are trained or asked.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "model/config.h"
#include "model/safetensors.h"
#include "model/transformer.h"

namespace kvphase::model {

// How the weights came about. Nothing here changes what the model computes.
struct TrainingCard {
  std::string recipe;        // name of the preset, empty when there was none
  std::uint64_t seed = 0;    // of the initial weights and the data
  std::int64_t threads = 0;  // another number may change the last bits of the weights
  std::int64_t steps = 0;    // optimiser steps done
  std::int64_t tokens = 0;   // tokens seen
  // On fresh sequences after the last step; empty before the training is complete.
  std::optional<double> loss;      // mean cross-entropy of an answer, nats
  std::optional<double> accuracy;  // share of answers whose top token is right, 0 to 1
  // The same of the next tokens of held-out text; empty: trained on none.
  std::optional<double> text_loss;
  std::optional<double> text_accuracy;
  std::string commit;   // of the program that trained it
  std::string build;    // its compiler and build type
  std::string started;  // UTC
  double seconds = 0;   // wall time of training, interruptions left out
  base::Json language;  // of its lookups, as the task writes it
  base::Json options;   // every training option
};

base::Json to_json(const TrainingCard& card);
TrainingCard training_card_from_json(const base::Json& json, std::string_view scope);

struct Checkpoint {
  ModelConfig config;
  TrainingCard card;
  std::vector<std::string> token_names;  // [V]
  std::vector<NamedTensor> weights;      // in the network's order when written
  std::string sha256;                    // of model.safetensors; filled by read_checkpoint
};

// The network's parameters, detached but sharing their memory.
std::vector<NamedTensor> weights_of(Transformer& network);

// Writes the four files into an existing folder, each atomically; returns the weights' SHA-256.
std::string write_checkpoint(const std::filesystem::path& folder, const Checkpoint& checkpoint);

// Throws one usage error for a missing, cut off or contradictory file or a weight that is not
// finite.
Checkpoint read_checkpoint(const std::filesystem::path& folder);

// The card alone, without reading the weights.
TrainingCard read_training_card(const std::filesystem::path& folder);

// Copies the weights into the network. Every parameter must be there once, in its shape, as
// float32; scope begins the usage error otherwise.
void load_weights(Transformer& network, const std::vector<NamedTensor>& weights,
                  std::string_view scope);

}  // namespace kvphase::model
