// One network in training, in memory: a step is a batch, its gradient, a clipped AdamW update. Must
// not know files, progress or signals.
// Same options, same bytes: shards of a step are added in their order, whichever ends first and
// whichever process they run in. Several processes each hold the whole network and run a part of
// the shards.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "model/transformer.h"
#include "train/adamw.h"
#include "train/batch.h"
#include "train/options.h"
#include "train/ranks.h"

namespace kvphase::train {

struct Evaluation {
  double loss = 0;      // mean cross-entropy of an answer, nats
  double accuracy = 0;  // share of answers whose top token is right
};

struct StepResult {
  Evaluation on_batch;       // before the update
  double gradient_norm = 0;  // before clipping
  double learning_rate = 0;
  // False: loss or gradient is not finite, and the parameters were left as they were.
  bool finite = true;
};

class Trainer {
 public:
  // A new network from the seed. Options must be valid, with a thread for every rank at least;
  // `ranks` must outlive the trainer; null: one process.
  explicit Trainer(const TrainOptions& options, Ranks* ranks = nullptr);

  // One optimiser step. When it throws LostRank the network is as before it.
  StepResult step();
  std::int64_t steps_done() const { return state_.step; }
  Evaluation evaluate(const Batch& batch);  // without gradients

  model::Transformer& network() { return network_; }
  const TrainOptions& options() const { return options_; }

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
  struct Shard;
  Shard forward(const Batch& batch, std::int64_t begin, std::int64_t end);
  void add_gradients(const std::vector<Shard>& shards, std::int64_t begin, std::int64_t end);

  TrainOptions options_;
  Ranks alone_;
  Ranks& ranks_;
  model::Transformer network_;
  FlatParameters parameters_;
  AdamWState state_;
};

}  // namespace kvphase::train
