// One network in training, in memory: a step is a batch, its gradient, a clipped AdamW update. Must
// not know files, progress or signals.
// Same options, same bytes: shards of a step are added in their order, whichever ends first and
// whichever process they run in. Several processes each hold the whole network and run a part of
// the shards.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "model/transformer.h"
#include "train/adamw.h"
#include "train/batch.h"
#include "train/gate_trace.h"
#include "train/options.h"
#include "train/ranks.h"

namespace kvphase::train {

struct Evaluation {
  double loss = 0;      // mean cross-entropy of a predicted token (an answer, a next token), nats
  double accuracy = 0;  // share of predicted tokens that are the top one
};

struct StepResult {
  Evaluation on_batch;  // before the update; of both kinds by their weights where they are mixed
  // Of each kind alone, where text is trained on.
  std::optional<Evaluation> on_text, on_lookups;
  double gradient_norm = 0;  // before clipping
  double learning_rate = 0;
  // False: loss or gradient is not finite, and the parameters were left as they were.
  bool finite = true;
};

// Of options.device; "cuda" with several processes: a GPU for each process of a machine. Throws an
// environment error where torch has no such device.
torch::Device training_device(const TrainOptions& options, const Ranks& ranks);

class Trainer {
 public:
  // A new network from the seed, and its data (see TrainingData). Options must be valid, with a
  // thread for every rank at least; the initial weights do not depend on the device. `ranks` must
  // outlive the trainer; null: one process.
  explicit Trainer(const TrainOptions& options, Ranks* ranks = nullptr);

  // One optimiser step. When it throws LostRank the network is as before it.
  StepResult step();
  std::int64_t steps_done() const { return state_.step; }
  Evaluation evaluate(const Batch& batch);  // without gradients
  // Every gate over data().trace_text(), as it is now.
  std::vector<GateTraceRow> look_at_gates();

  model::Transformer& network() { return network_; }
  const TrainOptions& options() const { return options_; }
  const TrainingData& data() const { return data_; }

  // The optimiser's memory, to resume from.
  const AdamWState& optimizer() const { return state_; }
  // Continues from a network whose weights were loaded and its optimiser's memory.
  void continue_from(AdamWState state);

  // With several processes: rank 0's network and optimiser for all of them ...
  void copy_from_first();
  // ... and a check that they are still the same; throws an environment error on the rank that
  // differs.
  void expect_same_weights();

 private:
  struct Forward;
  struct Shard;
  Forward forward(const Batch& batch, std::int64_t begin, std::int64_t end);
  void add_gradients(const std::vector<Shard>& shards, const torch::Tensor& sum, std::int64_t begin,
                     std::int64_t end);
  void sum_gradients(const std::vector<Shard>& shards);  // of all ranks

  TrainOptions options_;
  Ranks alone_;
  Ranks& ranks_;
  TrainingData data_;
  torch::Device device_;
  model::Transformer network_;
  FlatParameters parameters_;
  AdamWState state_;
};

}  // namespace kvphase::train
