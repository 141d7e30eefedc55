#include "model/checkpoint.h"

#include <cmath>
#include <map>

#include "base/error.h"
#include "base/files.h"
#include "base/hash.h"

namespace kvphase::model {
namespace {

namespace fs = std::filesystem;
using base::Json;
using base::usage_error;

constexpr const char* kWeights = "model.safetensors";
constexpr const char* kConfig = "config.json";
constexpr const char* kCard = "card.json";
constexpr const char* kTokens = "tokens.json";

std::string scope_of(const fs::path& path) { return "checkpoint " + path.string(); }

std::string read_part(const fs::path& folder, const char* name) {
  std::error_code ignored;
  if (!fs::exists(folder, ignored)) {
    throw usage_error("checkpoint", "expected a checkpoint folder, got {}, which does not exist",
                      folder.string());
  }
  if (!fs::exists(folder / name, ignored)) {
    throw usage_error("checkpoint",
                      "expected {} in {}, got no such file; give a folder that kvphase train wrote",
                      name, folder.string());
  }
  return base::read_file(folder / name);
}

Json read_json_part(const fs::path& folder, const char* name) {
  return base::parse_json(read_part(folder, name), scope_of(folder / name));
}

std::string shape_text(torch::IntArrayRef shape) {
  return fmt::format("[{}]", fmt::join(shape.begin(), shape.end(), ","));
}

void check_finite(const NamedTensor& weight, std::string_view scope) {
  if (!weight.tensor.is_floating_point()) return;
  if (torch::isfinite(weight.tensor).all().item<bool>()) return;
  const torch::Tensor flat = weight.tensor.flatten();
  const auto at = torch::isfinite(flat).logical_not().nonzero()[0].item<std::int64_t>();
  throw usage_error(scope, "expected finite weights, got {} in '{}' at element {}",
                    flat[at].item<double>(), weight.name, at);
}

}  // namespace

Json to_json(const TrainingCard& card) {
  Json json;
  json["recipe"] = card.recipe;
  json["seed"] = card.seed;
  json["threads"] = card.threads;
  json["steps"] = card.steps;
  json["tokens"] = card.tokens;
  json["loss"] = base::number_or_null(card.loss);
  json["accuracy"] = base::number_or_null(card.accuracy);
  if (card.text_loss) json["text_loss"] = *card.text_loss;
  if (card.text_accuracy) json["text_accuracy"] = *card.text_accuracy;
  json["commit"] = card.commit;
  json["build"] = card.build;
  json["started"] = card.started;
  json["seconds"] = card.seconds;
  json["language"] = card.language;
  json["options"] = card.options;
  return json;
}

TrainingCard training_card_from_json(const Json& json, std::string_view scope) {
  base::ObjectReader reader(json, std::string(scope));
  TrainingCard card;
  card.recipe = reader.text("recipe");
  card.seed = reader.unsigned_integer("seed");
  card.threads = reader.integer("threads");
  card.steps = reader.integer("steps");
  card.tokens = reader.integer("tokens");
  card.loss = reader.optional_real("loss");
  card.accuracy = reader.optional_real("accuracy");
  card.text_loss = reader.optional_real("text_loss");
  card.text_accuracy = reader.optional_real("text_accuracy");
  card.commit = reader.text("commit");
  card.build = reader.text("build");
  card.started = reader.text("started");
  card.seconds = reader.real("seconds");
  card.language = reader.required("language");
  card.options = reader.required("options");
  reader.finish();
  return card;
}

std::vector<NamedTensor> weights_of(Transformer& network) {
  std::vector<NamedTensor> weights;
  for (const auto& parameter : network.named_parameters()) {
    weights.push_back({.name = parameter.key(), .tensor = parameter.value().detach()});
  }
  return weights;
}

std::string write_checkpoint(const fs::path& folder, const Checkpoint& checkpoint) {
  base::write_file_atomically(folder / kConfig, to_json(checkpoint.config).dump(2) + "\n");
  base::write_file_atomically(folder / kCard, to_json(checkpoint.card).dump(2) + "\n");
  base::write_file_atomically(folder / kTokens, Json(checkpoint.token_names).dump() + "\n");
  const std::string weights = write_safetensors(checkpoint.weights, {{"format", "pt"}});
  base::write_file_atomically(folder / kWeights, weights);
  return base::sha256_hex(weights);
}

Checkpoint read_checkpoint(const fs::path& folder) {
  Checkpoint checkpoint;
  const std::string bytes = read_part(folder, kWeights);
  checkpoint.config = config_from_json(read_json_part(folder, kConfig), scope_of(folder / kConfig));
  checkpoint.card = read_training_card(folder);
  const Json names = read_json_part(folder, kTokens);
  const auto is_text = [](const Json& name) { return name.is_string(); };
  if (!names.is_array() || !std::all_of(names.begin(), names.end(), is_text) ||
      static_cast<std::int64_t>(names.size()) != checkpoint.config.vocab_size) {
    throw usage_error(scope_of(folder / kTokens), "expected a list of {} texts, got {}",
                      checkpoint.config.vocab_size,
                      names.is_array() ? fmt::format("{} elements", names.size())
                                       : std::string(names.type_name()));
  }
  checkpoint.token_names = names.get<std::vector<std::string>>();
  checkpoint.weights = read_safetensors(bytes, scope_of(folder / kWeights)).tensors;
  // Before anybody builds the network: a mistyped width must not ask for all memory. Smaller
  // contradictions are named tensor by tensor in load_weights.
  constexpr std::int64_t kHarmless = 10'000'000;
  std::int64_t numbers = 0;
  for (const NamedTensor& weight : checkpoint.weights) numbers += weight.tensor.numel();
  if (parameter_count(checkpoint.config) > numbers + kHarmless) {
    throw usage_error(
        scope_of(folder / kWeights),
        "expected tensors of the shapes that {} asks for ({} numbers), got {} numbers", kConfig,
        parameter_count(checkpoint.config), numbers);
  }
  for (const NamedTensor& weight : checkpoint.weights) {
    check_finite(weight, scope_of(folder / kWeights));
  }
  checkpoint.sha256 = base::sha256_hex(bytes);
  return checkpoint;
}

TrainingCard read_training_card(const fs::path& folder) {
  return training_card_from_json(read_json_part(folder, kCard), scope_of(folder / kCard));
}

void load_weights(Transformer& network, const std::vector<NamedTensor>& weights,
                  std::string_view scope) {
  std::map<std::string, torch::Tensor> parameters;
  for (const auto& parameter : network.named_parameters()) {
    parameters.emplace(parameter.key(), parameter.value());
  }
  const torch::NoGradGuard no_grad;
  for (const NamedTensor& weight : weights) {
    const auto found = parameters.find(weight.name);
    if (found == parameters.end()) {
      throw usage_error(scope, "expected only tensors of its config, got '{}'", weight.name);
    }
    const torch::Tensor& parameter = found->second;
    if (weight.tensor.sizes() != parameter.sizes()) {
      throw usage_error(scope, "expected '{}' of shape {}, got {}; does config.json belong to it?",
                        weight.name, shape_text(parameter.sizes()),
                        shape_text(weight.tensor.sizes()));
    }
    if (weight.tensor.scalar_type() != torch::kFloat32) {
      throw usage_error(scope, "expected '{}' as float32, got {}", weight.name,
                        torch::toString(weight.tensor.scalar_type()));
    }
    parameter.detach().copy_(weight.tensor);
    parameters.erase(found);
  }
  if (!parameters.empty()) {
    throw usage_error(scope, "expected a tensor '{}', got none of that name",
                      parameters.begin()->first);
  }
}

}  // namespace kvphase::model
