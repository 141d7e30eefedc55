// One network in training, in memory: a step is a batch, its gradient, a clipped AdamW update. Must
// not know files, progress or signals.
// Same options, same bytes: shards of a step are added in their order, whichever ends first.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "model/transformer.h"
#include "train/adamw.h"
#include "train/batch.h"
#include "train/options.h"

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
  // A new network from the seed. Options must be valid.
  explicit Trainer(const TrainOptions& options);

  StepResult step();  // one optimiser step
  std::int64_t steps_done() const { return state_.step; }
  Evaluation evaluate(const Batch& batch);  // without gradients

  model::Transformer& network() { return network_; }
  const TrainOptions& options() const { return options_; }

  // The optimiser's memory, to resume from.
  const AdamWState& optimizer() const { return state_; }
  // Continues from a network whose weights were loaded and its optimiser's memory.
  void continue_from(AdamWState state);

 private:
  struct Shard;
  Shard forward(const Batch& batch, std::int64_t begin, std::int64_t end);

  TrainOptions options_;
  model::Transformer network_;
  FlatParameters parameters_;
  AdamWState state_;
};

}  // namespace kvphase::train
