// A training in a folder of its own that survives being stopped or killed at any moment. The
// folder:
//   train.json          the options; written first, resume reads them
//   log.csv             step, tokens, loss, accuracy, gradient norm, learning rate, seconds; with
//                       text also loss and accuracy of next tokens and of lookups
//   gates.jsonl         with options.trace_gates: the gates over steps (train/gate_trace.h)
//   resume/step-000100/ a checkpoint with optimizer.safetensors and state.json beside it, renamed
//                       into place when complete; the newest is kept until the training is complete
//   config.json, card.json, tokens.json, model.safetensors: the trained model (model/checkpoint.h)
// Several processes (ranks.h) train together: rank 0 alone has a folder, all end in the same way.
// Must not print or know terminals; progress goes to a callback.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "model/checkpoint.h"
#include "train/options.h"
#include "train/ranks.h"

namespace kvphase::train {

// After each optimiser step.
struct TrainProgress {
  std::int64_t step = 0;   // done
  std::int64_t steps = 0;  // in all
  double loss = 0;         // of this step's batch, nats per answer or next token
  double accuracy = 0;     // of this step's batch, 0 to 1
  double gradient_norm = 0;
  double learning_rate = 0;
  double tokens_per_second = 0;  // since this process began or resumed, checkpoints included
  double eta_seconds = 0;        // at that rate
};
using ProgressCallback = std::function<void(const TrainProgress&)>;

enum class TrainOutcome {
  kFinished,     // the folder is a checkpoint
  kInterrupted,  // base::stop_requested(); the state is saved and resume_training continues it
  kDiverged,     // loss or gradient became NaN or infinite; the last good state is kept
};

struct TrainResult {
  TrainOutcome outcome = TrainOutcome::kFinished;
  std::int64_t step = 0;         // optimiser steps done
  std::filesystem::path folder;  // of the run
  std::filesystem::path saved;   // checkpoint folder of the last saved state; empty: none
  std::string message;           // one line on what happened when not finished
  std::vector<std::string> warnings;
  std::string sha256;        // of the final weights, when finished
  model::TrainingCard card;  // when finished
};

// Trains in a new folder. Throws a usage error for wrong options, an existing folder, or options
// that are not the same on every rank. When a rank is lost, rank 0 saves its state and every rank
// throws an error that names the lost one and the last checkpoint. Only rank 0 reports progress,
// warnings and the card.
TrainResult start_training(const TrainOptions& options, const std::filesystem::path& folder,
                           const ProgressCallback& progress, Ranks& ranks);
TrainResult start_training(const TrainOptions& options, const std::filesystem::path& folder,
                           const ProgressCallback& progress);  // one process

// Continues a folder of start_training; the weights become what they would have been without the
// interruption, bit for bit. A complete one is only reported. Throws a usage error when the folder
// holds no training or another process trains in it. Only rank 0 reads the folder; the number of
// processes may be another one than before, with Gloo without effect on the weights.
TrainResult resume_training(const std::filesystem::path& folder, const ProgressCallback& progress,
                            Ranks& ranks);
TrainResult resume_training(const std::filesystem::path& folder, const ProgressCallback& progress);

}  // namespace kvphase::train
