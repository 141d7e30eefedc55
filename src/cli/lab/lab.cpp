// The module that cli opens for everything torch: thin bridges from cli/lab_api.h to train and
// engine.
#include "base/error.h"
#include "base/files.h"
#include "cli/lab_api.h"
#include "engine/checkpoint_model.h"
#include "model/checkpoint.h"
#include "model/gguf_export.h"
#include "model/hf_export.h"
#include "task/lookup_language.h"
#include "train/recipes.h"
#include "train/training_run.h"

namespace kvphase::cli {
namespace {

std::unique_ptr<lm::LanguageModel> open_checkpoint(const std::filesystem::path& folder,
                                                   std::int64_t threads) {
  return engine::open_checkpoint(folder, {.threads = threads});
}

train::TrainOptions options_of(const TrainRequest& request) {
  const train::TrainOptions named = train::recipe(request.recipe);
  base::Json json = train::to_json(named);
  if (!request.model.is_null()) json["model"] = request.model;
  json.merge_patch(request.overrides);
  // The model is fitted to the language that the overrides leave, unless they say otherwise.
  const auto language = task::lookup_language_from_json(json.at("language"), "train.language");
  base::Json fitted = {
      {"model", {{"vocab_size", language.vocab_size()}, {"context_length", language.length()}}}};
  fitted.merge_patch(request.overrides);
  json.merge_patch(fitted);
  train::TrainOptions options = train::train_options_from_json(json, "train");
  // On the command line, as for every launcher, of each process; recorded of all.
  const std::int64_t threads = options.threads;
  options.threads *= request.launch.ranks;
  if (options.threads > options.batch) {
    throw base::usage_error("train",
                            "expected at least a sequence of the batch for every thread, got a "
                            "batch of {} for {} processes of {} threads",
                            options.batch, request.launch.ranks, threads);
  }
  return options;
}

base::Json training_options(const TrainRequest& request) {
  return train::to_json(options_of(request));
}

TrainOutcome train_model(const TrainRequest& request,
                         const std::function<void(const TrainProgress&)>& progress) {
  const auto forward = [&](const train::TrainProgress& p) {
    progress({.step = p.step,
              .steps = p.steps,
              .loss = p.loss,
              .accuracy = p.accuracy,
              .tokens_per_second = p.tokens_per_second,
              .eta_seconds = p.eta_seconds});
  };
  const std::optional<train::TrainOptions> options =
      request.resume ? std::nullopt : std::optional(options_of(request));
  train::Ranks ranks(request.launch);
  const train::TrainResult result =
      options ? train::start_training(*options, request.folder, forward, ranks)
              : train::resume_training(request.folder, forward, ranks);
  TrainOutcome outcome{.message = result.message, .warnings = result.warnings};
  switch (result.outcome) {
    case train::TrainOutcome::kFinished:
      outcome.state = TrainState::kFinished;
      outcome.card = model::to_json(result.card);
      break;
    case train::TrainOutcome::kInterrupted:
      outcome.state = TrainState::kInterrupted;
      break;
    case train::TrainOutcome::kDiverged:
      outcome.state = TrainState::kDiverged;
      break;
  }
  return outcome;
}

std::vector<RecipeSummary> recipes() {
  std::vector<RecipeSummary> list;
  for (const train::Recipe& recipe : train::recipes()) {
    list.push_back({.name = recipe.name,
                    .meaning = recipe.meaning,
                    .options = train::to_json(recipe.options)});
  }
  return list;
}

void export_checkpoint(const std::filesystem::path& folder, ExportFormat format,
                       const std::filesystem::path& out) {
  const model::Checkpoint checkpoint = model::read_checkpoint(folder);
  if (format == ExportFormat::kHuggingFace) {
    model::write_hf_folder(checkpoint, out);
  } else {
    const std::string name = std::filesystem::weakly_canonical(folder).filename().string();
    base::write_file_atomically(out, model::gguf_bytes(checkpoint, name));
  }
}

constexpr LabApi kApi = {.open_checkpoint = open_checkpoint,
                         .train = train_model,
                         .training_options = training_options,
                         .recipes = recipes,
                         .export_checkpoint = export_checkpoint};

}  // namespace
}  // namespace kvphase::cli

extern "C" const kvphase::cli::LabApi* kvphase_lab_api() { return &kvphase::cli::kApi; }
