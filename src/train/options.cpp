#include "train/options.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.h"
#include "base/random.h"

namespace kvphase::train {
namespace {

base::Json to_json(const DataOptions& data) {
  return {{"text", data.text}, {"sequence", data.sequence}, {"lookup_share", data.lookup_share}};
}

DataOptions data_from_json(const base::Json& json, const std::string& scope) {
  base::ObjectReader reader(json, scope);
  DataOptions data;
  data.text = reader.texts("text");
  data.sequence = reader.integer("sequence", data.sequence);
  data.lookup_share = reader.real("lookup_share", data.lookup_share);
  reader.finish();
  if (data.text.empty()) {
    throw base::usage_error(scope, "expected folders of token shards in 'text', got none");
  }
  return data;
}

void require(bool good, std::string_view scope, std::string_view key, std::string_view range,
             double value) {
  if (!good) throw base::usage_error(scope, "expected '{}' {}, got {}", key, range, value);
}

// Tokens, with the longest filler in front.
std::int64_t longest_lookup(const TrainOptions& options) {
  return options.language.length() + std::max<std::int64_t>(0, options.random_offset - 1);
}

// Drawn evenly from 0..bound-1 for a step; 0 for a bound of 0.
std::int64_t drawn_at(const TrainOptions& options, std::string_view stream, std::int64_t step,
                      std::int64_t bound) {
  if (bound <= 1) return 0;
  base::Random random(base::derive_seed(options.seed, stream, {static_cast<std::uint64_t>(step)}));
  return static_cast<std::int64_t>(random.uniform_index(static_cast<std::uint64_t>(bound)));
}

bool is_device_name(std::string_view name) {
  if (name == "cpu" || name == "cuda") return true;
  constexpr std::string_view kNumbered = "cuda:";
  if (!name.starts_with(kNumbered)) return false;
  const std::string_view number = name.substr(kNumbered.size());
  return !number.empty() && number.size() <= 2 &&
         number.find_first_not_of("0123456789") == std::string_view::npos &&
         (number.size() == 1 || number.front() != '0');
}

}  // namespace

void validate(const TrainOptions& options, std::string_view scope) {
  const auto count = [scope](std::string_view key, std::int64_t value, std::int64_t least) {
    if (value < least || value > 1'000'000'000) {
      throw base::usage_error(scope, "expected '{}' of {} to 1000000000, got {}", key, least,
                              value);
    }
  };
  count("steps", options.steps, 1);
  count("batch", options.batch, 1);
  count("warmup_steps", options.warmup_steps, 0);
  count("first_records", options.first_records, 0);
  count("first_haystack", options.first_haystack, 0);
  count("first_batch", options.first_batch, 0);
  count("curriculum_hold", options.curriculum_hold, 0);
  count("curriculum_steps", options.curriculum_steps, 0);
  count("threads", options.threads, 1);
  count("checkpoint_interval", options.checkpoint_interval, 0);
  count("validation_sequences", options.validation_sequences, 1);
  count("trace_gates", options.trace_gates, 0);
  count("random_offset", options.random_offset, 0);
  if (options.random_grid && !model::has_chunked_layer(options.model)) {
    throw base::usage_error(scope, "expected a chunked layer with 'random_grid', got none");
  }
  const std::int64_t smallest_batch =
      options.first_batch > 0 ? std::min(options.first_batch, options.batch) : options.batch;
  if (options.threads > smallest_batch) {
    throw base::usage_error(scope, "expected 'threads' of at most 'batch' ({}), got {}",
                            smallest_batch, options.threads);
  }
  if (options.bfloat16_products && options.device != "cpu") {
    throw base::usage_error(scope, "expected 'bfloat16_products' on the device cpu, got {}",
                            options.device);
  }
  if (!is_device_name(options.device)) {
    throw base::usage_error(
        scope, "expected a 'device' of cpu, cuda or cuda:0, cuda:1, ..., got '{}'", options.device);
  }
  const bool curriculum = options.curriculum_steps > 0;
  if (!curriculum && (options.first_batch > 0 || options.curriculum_hold > 0)) {
    throw base::usage_error(
        scope,
        "expected 'first_batch' and 'curriculum_hold' only with 'curriculum_steps', got {} and {}",
        options.first_batch, options.curriculum_hold);
  }
  if ((options.first_records > 0) != curriculum || (options.first_haystack > 0) != curriculum ||
      options.first_records > options.language.records ||
      options.first_haystack > options.language.haystack ||
      2 * options.first_records > options.first_haystack) {
    throw base::usage_error(
        scope,
        "expected 'first_records' of 1 to {} and 'first_haystack' of twice as many to {} together "
        "with 'curriculum_steps', or none of them, got {}, {} and {}",
        options.language.records, options.language.haystack, options.first_records,
        options.first_haystack, options.curriculum_steps);
  }
  const auto fraction = [](double x) { return x >= 0 && x < 1; };
  // Written so that NaN fails every one of them.
  require(options.learning_rate > 0 && std::isfinite(options.learning_rate), scope, "learning_rate",
          "above 0 and finite", options.learning_rate);
  require(options.final_fraction >= 0 && options.final_fraction <= 1, scope, "final_fraction",
          "of 0 to 1", options.final_fraction);
  require(fraction(options.beta1), scope, "beta1", "of at least 0 and below 1", options.beta1);
  require(fraction(options.beta2), scope, "beta2", "of at least 0 and below 1", options.beta2);
  require(options.epsilon > 0 && std::isfinite(options.epsilon), scope, "epsilon",
          "above 0 and finite", options.epsilon);
  require(options.weight_decay >= 0 && std::isfinite(options.weight_decay), scope, "weight_decay",
          "of at least 0 and finite", options.weight_decay);
  require(options.clip_norm >= 0 && std::isfinite(options.clip_norm), scope, "clip_norm",
          "of at least 0 and finite", options.clip_norm);

  task::validate(options.language, fmt::format("{}: language", scope));
  model::validate(options.model, fmt::format("{}: model", scope));
  if (options.model.vocab_size < options.language.vocab_size()) {
    throw base::usage_error(scope, "expected a model with the language's {} tokens, got {}",
                            options.language.vocab_size(), options.model.vocab_size);
  }
  if (!options.data.text.empty()) {
    count("data.sequence", options.data.sequence, 1);
    if (options.first_batch > 0) {
      throw base::usage_error(scope, "expected no 'first_batch' with text, got {}",
                              options.first_batch);
    }
    require(options.data.lookup_share >= 0 && options.data.lookup_share < 1, scope,
            "data.lookup_share", "of at least 0 and below 1", options.data.lookup_share);
    if (options.model.context_length < options.data.sequence) {
      throw base::usage_error(
          scope, "expected a model whose context holds 'data.sequence' ({} tokens), got {}",
          options.data.sequence, options.model.context_length);
    }
  }
  if (options.model.context_length < longest_lookup(options)) {
    throw base::usage_error(scope,
                            "expected a model whose context holds the language's sequences of {} "
                            "tokens, got {}",
                            longest_lookup(options), options.model.context_length);
  }
}

base::Json to_json(const TrainOptions& options) {
  base::Json json;
  json["recipe"] = options.recipe;
  json["model"] = model::to_json(options.model);
  json["language"] = task::to_json(options.language);
  if (!options.data.text.empty()) json["data"] = to_json(options.data);
  json["steps"] = options.steps;
  json["batch"] = options.batch;
  json["first_records"] = options.first_records;
  json["first_haystack"] = options.first_haystack;
  json["first_batch"] = options.first_batch;
  json["curriculum_hold"] = options.curriculum_hold;
  json["curriculum_steps"] = options.curriculum_steps;
  json["learning_rate"] = options.learning_rate;
  json["warmup_steps"] = options.warmup_steps;
  json["final_fraction"] = options.final_fraction;
  json["beta1"] = options.beta1;
  json["beta2"] = options.beta2;
  json["epsilon"] = options.epsilon;
  json["weight_decay"] = options.weight_decay;
  json["clip_norm"] = options.clip_norm;
  json["seed"] = options.seed;
  json["threads"] = options.threads;
  json["device"] = options.device;
  json["recompute_layers"] = options.recompute_layers;
  if (options.bfloat16_products) json["bfloat16_products"] = true;
  json["checkpoint_interval"] = options.checkpoint_interval;
  json["validation_sequences"] = options.validation_sequences;
  if (options.random_offset > 0) json["random_offset"] = options.random_offset;
  if (options.random_grid) json["random_grid"] = true;
  if (options.trace_gates > 0) json["trace_gates"] = options.trace_gates;
  if (!options.initial.folder.empty()) {
    json["initial"] = {{"folder", options.initial.folder}, {"sha256", options.initial.sha256}};
  }
  return json;
}

TrainOptions train_options_from_json(const base::Json& json, std::string_view scope) {
  base::ObjectReader reader(json, std::string(scope));
  const TrainOptions defaults;
  TrainOptions options;
  options.recipe = reader.text("recipe", "");
  options.model =
      model::config_from_json(reader.required("model"), fmt::format("{}: model", scope));
  options.language = task::lookup_language_from_json(reader.required("language"),
                                                     fmt::format("{}: language", scope));
  if (reader.has("data")) {
    options.data = data_from_json(json.at("data"), fmt::format("{}: data", scope));
  }
  options.steps = reader.integer("steps", defaults.steps);
  options.batch = reader.integer("batch", defaults.batch);
  options.first_records = reader.integer("first_records", defaults.first_records);
  options.first_haystack = reader.integer("first_haystack", defaults.first_haystack);
  options.first_batch = reader.integer("first_batch", defaults.first_batch);
  options.curriculum_hold = reader.integer("curriculum_hold", defaults.curriculum_hold);
  options.curriculum_steps = reader.integer("curriculum_steps", defaults.curriculum_steps);
  options.learning_rate = reader.real("learning_rate", defaults.learning_rate);
  options.warmup_steps = reader.integer("warmup_steps", defaults.warmup_steps);
  options.final_fraction = reader.real("final_fraction", defaults.final_fraction);
  options.beta1 = reader.real("beta1", defaults.beta1);
  options.beta2 = reader.real("beta2", defaults.beta2);
  options.epsilon = reader.real("epsilon", defaults.epsilon);
  options.weight_decay = reader.real("weight_decay", defaults.weight_decay);
  options.clip_norm = reader.real("clip_norm", defaults.clip_norm);
  options.seed = reader.has("seed") ? reader.unsigned_integer("seed") : defaults.seed;
  options.threads = reader.integer("threads", defaults.threads);
  options.device = reader.text("device", defaults.device);
  options.recompute_layers = reader.boolean("recompute_layers", defaults.recompute_layers);
  options.bfloat16_products = reader.boolean("bfloat16_products", defaults.bfloat16_products);
  options.checkpoint_interval = reader.integer("checkpoint_interval", defaults.checkpoint_interval);
  options.validation_sequences =
      reader.integer("validation_sequences", defaults.validation_sequences);
  options.random_offset = reader.integer("random_offset", defaults.random_offset);
  options.random_grid = reader.boolean("random_grid", defaults.random_grid);
  options.trace_gates = reader.integer("trace_gates", defaults.trace_gates);
  if (reader.has("initial")) {
    base::ObjectReader initial(json.at("initial"), fmt::format("{}: initial", scope));
    options.initial = {.folder = initial.text("folder"), .sha256 = initial.text("sha256")};
    initial.finish();
  }
  reader.finish();
  validate(options, scope);
  return options;
}

void fit_model_to_language(TrainOptions& options, std::int64_t text_vocabulary) {
  const bool text = !options.data.text.empty();
  options.model.vocab_size = std::max(options.language.vocab_size(), text_vocabulary);
  options.model.context_length =
      std::max(longest_lookup(options), text ? options.data.sequence : 0);
}

std::int64_t offset_at(const TrainOptions& options, std::int64_t step) {
  return drawn_at(options, "offset", step, options.random_offset);
}

std::int64_t grid_shift_at(const TrainOptions& options, std::int64_t step) {
  return drawn_at(options, "grid", step, options.random_grid ? options.model.chunk.stride : 0);
}

std::int64_t lookups_at(const TrainOptions& options, std::int64_t step) {
  if (options.data.text.empty()) return batch_at(options, step);
  const auto up_to = [&](std::int64_t steps) {
    const auto sequences = static_cast<double>(steps * options.batch);
    return static_cast<std::int64_t>(std::floor(options.data.lookup_share * sequences));
  };
  return up_to(step + 1) - up_to(step);
}

// `first` while the curriculum holds, then evenly up or down to `last`.
static std::int64_t at_step(const TrainOptions& options, std::int64_t step, std::int64_t first,
                            std::int64_t last) {
  const std::int64_t risen = step - options.curriculum_hold;
  if (risen >= options.curriculum_steps) return last;
  return first + (last - first) * std::max<std::int64_t>(0, risen) / options.curriculum_steps;
}

task::LookupLanguage language_at(const TrainOptions& options, std::int64_t step) {
  task::LookupLanguage language = options.language;
  if (options.curriculum_steps > 0) {
    language.records = at_step(options, step, options.first_records, language.records);
    language.haystack = at_step(options, step, options.first_haystack, language.haystack);
    language.queries = std::min(language.queries, language.records);
  }
  return language;
}

std::int64_t batch_at(const TrainOptions& options, std::int64_t step) {
  if (options.curriculum_steps == 0 || options.first_batch == 0) return options.batch;
  return at_step(options, step, options.first_batch, options.batch);
}

double learning_rate_at(const TrainOptions& options, std::int64_t step) {
  if (step < options.warmup_steps) {
    return options.learning_rate * static_cast<double>(step + 1) /
           static_cast<double>(options.warmup_steps);
  }
  const std::int64_t falling = std::max<std::int64_t>(1, options.steps - options.warmup_steps - 1);
  const double progress = std::min(
      1.0, static_cast<double>(step - options.warmup_steps) / static_cast<double>(falling));
  const double cosine = 0.5 * (1 + std::cos(std::numbers::pi * progress));
  return options.learning_rate * (options.final_fraction + (1 - options.final_fraction) * cosine);
}

}  // namespace kvphase::train
