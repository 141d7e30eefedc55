// The door to the half that needs libtorch. The program itself links no torch, so that --help and
// the torch-free commands start at once; load_lab() opens libkvphase_lab.so when a command needs a
// model or training. Only plain structs, std types and torch-free folders' types may stand here.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "base/json.h"
#include "lm/language_model.h"

namespace kvphase::cli {

// Changes whenever a struct below does: a module of another build is refused.
inline constexpr int kLabAbi = 1;

struct TrainProgress {
  std::int64_t step = 0;
  std::int64_t steps = 0;
  double loss = 0;      // nats per target
  double accuracy = 0;  // share of targets that are the top prediction
  double tokens_per_second = 0;
  double seconds = 0;  // since the start of this session
};

struct TrainRequest {
  base::Json model;              // the model's configuration (model/config.h)
  base::Json recipe;             // the training's options
  std::filesystem::path folder;  // the run's folder
  bool resume = false;           // go on in `folder` instead of creating it
  std::int64_t threads = 0;      // 0: the machine's choice
};

struct TrainOutcome {
  std::filesystem::path checkpoint;
  bool interrupted = false;  // stopped by base::stop_requested(), resumable
  base::Json card;           // the training card
};

struct LabApi {
  int abi = kLabAbi;
  std::unique_ptr<lm::LanguageModel> (*open_checkpoint)(const std::filesystem::path& folder,
                                                        std::int64_t threads) = nullptr;
  TrainOutcome (*train)(const TrainRequest& request,
                        const std::function<void(const TrainProgress&)>& progress) = nullptr;
};

// The module exports `extern "C" const kvphase::cli::LabApi* kvphase_lab_api();`.
inline constexpr const char* kLabEntryPoint = "kvphase_lab_api";

// Opens the module once and returns its functions; an environment error says what is missing.
const LabApi& load_lab();

}  // namespace kvphase::cli
