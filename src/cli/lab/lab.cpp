// The module that cli opens for everything torch: thin bridges from cli/lab_api.h to train and
// engine.
#include "base/error.h"
#include "base/files.h"
#include "cli/lab_api.h"
#include "engine/checkpoint_model.h"
#include "model/checkpoint.h"
#include "model/gguf_export.h"
#include "model/hf_export.h"
#include "model/transformer.h"
#include "speed/measure.h"
#include "train/fit.h"
#include "train/recipes.h"
#include "train/training_run.h"

namespace kvphase::cli {
namespace {

std::unique_ptr<lm::LanguageModel> open_checkpoint(const std::filesystem::path& folder,
                                                   std::int64_t threads) {
  return engine::open_checkpoint(folder, {.threads = threads});
}

train::TrainOptions options_of(const TrainRequest& request) {
  train::TrainOptions base;
  base::Json overrides = request.overrides;
  base::Json model = request.model;
  if (!request.recipe.empty()) base = train::recipe(request.recipe);
  if (!request.from.empty()) {
    const model::Checkpoint from = model::read_checkpoint(request.from);
    if (request.recipe.empty()) base = train::post_training_of(from.card.options);
    if (model.is_null()) {
      model = model::to_json(from.config);
      model.erase("vocab_size");  // fitted, as the recipe's are
      model.erase("context_length");
    }
    overrides["initial"] = {{"folder", request.from.string()}, {"sha256", from.sha256}};
  }
  train::TrainOptions options = train::options_with(base, model, overrides);
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

std::int64_t count_parameters(const base::Json& config) {
  constexpr std::uint64_t kSeed = 1;
  model::Transformer network(model::config_from_json(config, "presets"), kSeed);
  std::int64_t count = 0;
  for (const auto& parameter : network.parameters()) count += parameter.numel();
  return count;
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

// Asks, then analyses.
template <auto kAsk, auto kAnalyse, typename Options>
record::Findings look(const std::filesystem::path& checkpoint, const Options& options,
                      record::RunContext context, const lab::OnProgress& progress) {
  const auto answers = kAsk(checkpoint, options, context, progress);
  return kAnalyse(answers, options, context);
}

constexpr LabApi kApi = {.open_checkpoint = open_checkpoint,
                         .train = train_model,
                         .training_options = training_options,
                         .recipes = recipes,
                         .count_parameters = count_parameters,
                         .export_checkpoint = export_checkpoint,
                         .knockout = look<lab::run_knockouts, lab::knockout_findings>,
                         .gates = look<lab::read_gates, lab::gate_findings>,
                         .cycle = look<lab::run_cycle, lab::cycle_findings>,
                         .readout = look<lab::run_readout, lab::readout_findings>,
                         .measure = speed::measure};

}  // namespace
}  // namespace kvphase::cli

extern "C" const kvphase::cli::LabApi* kvphase_lab_api() { return &kvphase::cli::kApi; }
