// The door to the half that needs libtorch. The program itself links no torch, so that --help and
// the torch-free commands start at once; load_lab() opens libkvphase_lab.so when a command needs a
// model or training. Only plain structs, std types and torch-free folders' types may stand here.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/json.h"
#include "lab/cycle.h"
#include "lab/gates.h"
#include "lab/knockout.h"
#include "lab/readout.h"
#include "lm/language_model.h"
#include "speed/cell.h"
#include "train/launch.h"

namespace kvphase::cli {

// Changes whenever a struct below does: a module of another build is refused.
inline constexpr int kLabAbi = 9;

struct TrainProgress {
  std::int64_t step = 0;  // done
  std::int64_t steps = 0;
  double loss = 0;      // of the step's batch, nats per answer
  double accuracy = 0;  // of the step's batch, 0 to 1
  double tokens_per_second = 0;
  double eta_seconds = 0;
};

struct TrainRequest {
  std::string recipe;            // a name of recipes(); empty, with `from`: as that was trained
  base::Json model;              // model configuration in place of the recipe's; null: the recipe's
  base::Json overrides;          // merged into the recipe's options (JSON merge patch); null: none
  std::filesystem::path from;    // a checkpoint to begin from; empty: random weights
  std::filesystem::path folder;  // new, or with resume the folder to continue
  bool resume = false;
  train::Launch launch;  // this process among those of the training
};

enum class TrainState { kFinished, kInterrupted, kDiverged };

struct TrainOutcome {
  TrainState state = TrainState::kFinished;
  std::string message;  // what happened and what to do, when not finished
  std::vector<std::string> warnings;
  std::int64_t parameters = 0;
  base::Json card;  // the training card, when finished
};

struct RecipeSummary {
  std::string name;
  std::string meaning;
  base::Json options;  // all of them, as train.json holds them
};

enum class ExportFormat { kGguf, kHuggingFace };

struct LabApi {
  int abi = kLabAbi;
  std::unique_ptr<lm::LanguageModel> (*open_checkpoint)(const std::filesystem::path& folder,
                                                        std::int64_t threads) = nullptr;
  TrainOutcome (*train)(const TrainRequest& request,
                        const std::function<void(const TrainProgress&)>& progress) = nullptr;
  // What train would train, as train.json holds it; throws as train would before it begins.
  base::Json (*training_options)(const TrainRequest& request) = nullptr;
  std::vector<RecipeSummary> (*recipes)() = nullptr;
  // Builds the network of a model configuration as a training would; its learned numbers.
  std::int64_t (*count_parameters)(const base::Json& config) = nullptr;
  void (*export_checkpoint)(const std::filesystem::path& folder, ExportFormat format,
                            const std::filesystem::path& out) = nullptr;
  // Looks into a checkpoint. `context` lacks the model's identity, which the findings have.
  template <typename Options>
  using Look = record::Findings(const std::filesystem::path& checkpoint, const Options& options,
                                record::RunContext context, const lab::OnProgress& progress);
  Look<lab::KnockoutOptions>* knockout = nullptr;
  Look<lab::GateOptions>* gates = nullptr;
  Look<lab::CycleOptions>* cycle = nullptr;
  Look<lab::ReadoutOptions>* readout = nullptr;
  // Measures one cell of a benchmark in this process, whose threads it takes over.
  speed::Measured (*measure)(const speed::Cell& cell) = nullptr;
};

// The module exports `extern "C" const kvphase::cli::LabApi* kvphase_lab_api();`.
inline constexpr const char* kLabEntryPoint = "kvphase_lab_api";

// Opens the module once and returns its functions; an environment error says what is missing.
const LabApi& load_lab();

}  // namespace kvphase::cli
