#include "train/trainer.h"

#include <cassert>
#include <cmath>

#include "model/threads.h"

namespace kvphase::train {

// Sequences begin..end-1 of a batch after the forward pass.
struct Trainer::Shard {
  torch::Tensor loss_sum;                    // scalar, summed over the shard's answers
  std::int64_t correct = 0;                  // answers whose top token is right
  torch::autograd::variable_list gradients;  // of loss_sum / answers of the batch, one per leaf
};

Trainer::Trainer(const TrainOptions& options)
    : options_(options),
      network_(options.model, base::derive_seed(options.seed, "init")),
      parameters_(network_.parameters()),
      state_{.first = torch::zeros_like(parameters_.values),
             .second = torch::zeros_like(parameters_.values)} {
  model::compute_on_calling_thread();
}

Trainer::Shard Trainer::forward(const Batch& batch, std::int64_t begin, std::int64_t end) {
  const torch::Tensor logits =  // [b,Q,V]
      network_.forward_at(batch.tokens.slice(0, begin, end), batch.rows).flatten(0, 1);
  const torch::Tensor targets = batch.targets.slice(0, begin, end).flatten();
  Shard shard;
  shard.loss_sum = torch::nn::functional::cross_entropy(
      logits, targets, torch::nn::functional::CrossEntropyFuncOptions().reduction(torch::kSum));
  const torch::NoGradGuard no_grad;
  shard.correct = logits.argmax(-1).eq(targets).sum().item<std::int64_t>();
  return shard;
}

StepResult Trainer::step() {
  const std::int64_t shards = options_.threads;
  const Batch batch = make_batch(language_at(options_, state_.step), options_.seed, kTrainStream,
                                 static_cast<std::uint64_t>(state_.step), options_.batch);
  const auto answers = static_cast<double>(batch.targets.numel());
  std::vector<Shard> done(static_cast<std::size_t>(shards));
  model::run_shards(shards, [&](std::int64_t s) {
    Shard& shard = done[static_cast<std::size_t>(s)];
    shard = forward(batch, model::shard_begin(options_.batch, shards, s),
                    model::shard_begin(options_.batch, shards, s + 1));
    shard.gradients = torch::autograd::grad({shard.loss_sum}, parameters_.leaves,
                                            {torch::full({}, 1 / answers)}, {}, false,
                                            /*allow_unused=*/true);
  });

  const torch::NoGradGuard no_grad;
  double loss = 0;
  std::int64_t correct = 0;
  parameters_.gradients.zero_();
  for (const Shard& shard : done) {
    loss += shard.loss_sum.item<double>();
    correct += shard.correct;
    for (std::size_t i = 0; i < shard.gradients.size(); ++i) {
      if (shard.gradients[i].defined()) parameters_.gradient_views[i].add_(shard.gradients[i]);
    }
  }

  StepResult result;
  result.on_batch = {.loss = loss / answers, .accuracy = static_cast<double>(correct) / answers};
  result.gradient_norm = clip_gradients(parameters_, options_.clip_norm);
  result.learning_rate = learning_rate_at(options_, state_.step);
  result.finite = std::isfinite(result.on_batch.loss) && std::isfinite(result.gradient_norm);
  if (result.finite) {
    adamw_step(parameters_, state_, result.learning_rate,
               {.beta1 = options_.beta1,
                .beta2 = options_.beta2,
                .epsilon = options_.epsilon,
                .weight_decay = options_.weight_decay});
  }
  return result;
}

Evaluation Trainer::evaluate(const Batch& batch) {
  constexpr std::int64_t kAtOnce = 64;  // sequences: bounds the memory
  const torch::NoGradGuard no_grad;
  double loss = 0;
  std::int64_t correct = 0;
  const std::int64_t sequences = batch.tokens.size(0);
  for (std::int64_t begin = 0; begin < sequences; begin += kAtOnce) {
    const Shard shard = forward(batch, begin, std::min(sequences, begin + kAtOnce));
    loss += shard.loss_sum.item<double>();
    correct += shard.correct;
  }
  const auto answers = static_cast<double>(batch.targets.numel());
  return {.loss = loss / answers, .accuracy = static_cast<double>(correct) / answers};
}

void Trainer::continue_from(AdamWState state) {
  assert(state.first.numel() == parameters_.values.numel());
  assert(state.second.numel() == parameters_.values.numel());
  state_ = std::move(state);
}

}  // namespace kvphase::train
