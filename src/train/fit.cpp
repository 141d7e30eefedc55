#include "train/fit.h"

#include "task/lookup_language.h"
#include "train/token_set.h"

namespace kvphase::train {
namespace {

using base::Json;

bool says(const Json& overrides, const char* section, const char* key) {
  return overrides.contains(section) && overrides.at(section).is_object() &&
         overrides.at(section).contains(key);
}

}  // namespace

TrainOptions options_with(const TrainOptions& recipe, const Json& model, const Json& overrides) {
  Json json = to_json(recipe);
  if (!model.is_null()) json["model"] = model;
  if (overrides.contains("language") && json.at("language").contains("tokens")) {
    // Another number of keys is of other tokens.
    for (const char* kind : {"fillers", "keys", "values"}) {
      if (says(overrides, "language", kind)) json["language"].erase("tokens");
    }
  }
  if (says(overrides, "language", "tokens")) {
    for (const char* kind : {"fillers", "keys", "values"}) json["language"].erase(kind);
  }
  json.merge_patch(overrides);

  std::int64_t text_vocabulary = 0;
  if (json.contains("data")) {
    base::ObjectReader data(json.at("data"), "train: data");
    if (const auto folders = data.texts("text"); !folders.empty()) {
      const TokenSet text(folders, kTrainSplit, 1);
      text_vocabulary = text.vocabulary();
      if (text.tokenizer() == kByteTokenizer && !json.at("language").contains("tokens")) {
        const Json bytes = task::to_json(task::lookup_language_in_bytes());
        for (const char* key : {"fillers", "keys", "values", "tokens"}) {
          json["language"][key] = bytes.at(key);
        }
      }
    }
  }
  TrainOptions sizes;
  sizes.language = task::lookup_language_from_json(json.at("language"), "train: language");
  if (json.contains("random_offset")) {
    sizes.random_offset = base::ObjectReader(json, "train").integer("random_offset");
  }
  if (text_vocabulary > 0) sizes.data.text = {""};  // the names do not matter to the sizes
  if (says(json, "data", "sequence")) {
    sizes.data.sequence = base::ObjectReader(json.at("data"), "train: data").integer("sequence");
  }
  fit_model_to_language(sizes, text_vocabulary);
  Json fitted = {
      {"model",
       {{"vocab_size", sizes.model.vocab_size}, {"context_length", sizes.model.context_length}}}};
  fitted.merge_patch(overrides);
  json.merge_patch(fitted);
  return train_options_from_json(json, "train");
}

TrainOptions post_training_of(const Json& card_options) {
  TrainOptions options = train_options_from_json(card_options, "card.json: options");
  options.first_records = options.first_haystack = options.first_batch = 0;
  options.curriculum_hold = options.curriculum_steps = 0;
  options.initial = {};
  return options;
}

}  // namespace kvphase::train
