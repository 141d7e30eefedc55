#include "train/trainer.h"

#include <cassert>
#include <cmath>

#include "base/error.h"
#include "base/hash.h"
#include "model/threads.h"

namespace kvphase::train {

// Sequences begin..end-1 of a batch after the forward pass.
struct Trainer::Shard {
  torch::Tensor loss_sum;                    // scalar, summed over the shard's answers
  std::int64_t correct = 0;                  // answers whose top token is right
  torch::autograd::variable_list gradients;  // of loss_sum / answers of the batch, one per leaf
};

Trainer::Trainer(const TrainOptions& options, Ranks* ranks)
    : options_(options),
      ranks_(ranks != nullptr ? *ranks : alone_),
      network_(options.model, base::derive_seed(options.seed, "init")),
      parameters_(network_.parameters()),
      state_{.first = torch::zeros_like(parameters_.values),
             .second = torch::zeros_like(parameters_.values)} {
  assert(ranks_.size() <= options.threads);
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

// Adds elements begin..end-1 of the gradients, all leaves in one row, shard by shard.
void Trainer::add_gradients(const std::vector<Shard>& shards, std::int64_t begin,
                            std::int64_t end) {
  for (const Shard& shard : shards) {
    std::int64_t offset = 0;  // of the leaf
    for (std::size_t i = 0; i < shard.gradients.size(); ++i) {
      const std::int64_t size = parameters_.leaves[i].numel();
      const std::int64_t from = std::max(begin, offset);
      const std::int64_t to = std::min(end, offset + size);
      const torch::Tensor& gradient = shard.gradients[i];
      if (gradient.defined() && from < to) {
        if (to - from == size) {  // also spares a flat copy of what lies transposed in memory
          parameters_.gradient_views[i].add_(gradient);
        } else {
          parameters_.gradients.narrow(0, from, to - from)
              .add_(gradient.flatten().narrow(0, from - offset, to - from));
        }
      }
      offset += size;
    }
  }
}

StepResult Trainer::step() {
  const std::int64_t shards = options_.threads;  // of all ranks
  const std::int64_t first = model::shard_begin(shards, ranks_.size(), ranks_.rank());
  const std::int64_t after = model::shard_begin(shards, ranks_.size(), ranks_.rank() + 1);
  const std::int64_t sequences = batch_at(options_, state_.step);
  const Batch batch = make_batch(language_at(options_, state_.step), options_.seed, kTrainStream,
                                 static_cast<std::uint64_t>(state_.step), sequences);
  const auto answers = static_cast<double>(batch.targets.numel());
  std::vector<Shard> done(static_cast<std::size_t>(after - first));
  model::run_shards(after - first, [&](std::int64_t s) {
    Shard& shard = done[static_cast<std::size_t>(s)];
    shard = forward(batch, model::shard_begin(sequences, shards, first + s),
                    model::shard_begin(sequences, shards, first + s + 1));
    shard.gradients = torch::autograd::grad({shard.loss_sum}, parameters_.leaves,
                                            {torch::full({}, 1 / answers)}, {}, false,
                                            /*allow_unused=*/true);
  });

  const torch::NoGradGuard no_grad;
  const torch::Tensor sums = torch::zeros({2}, torch::kDouble);  // losses, right answers
  auto* const sum = sums.data_ptr<double>();
  ranks_.sum_parts(sums, [&](std::int64_t, std::int64_t) {
    for (const Shard& shard : done) {
      sum[0] += shard.loss_sum.item<double>();
      sum[1] += static_cast<double>(shard.correct);
    }
  });
  parameters_.gradients.zero_();
  ranks_.sum_parts(parameters_.gradients,
                   [&](std::int64_t begin, std::int64_t end) { add_gradients(done, begin, end); });

  StepResult result;
  result.on_batch = {.loss = sum[0] / answers, .accuracy = sum[1] / answers};
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

void Trainer::copy_from_first() {
  const torch::NoGradGuard no_grad;
  const torch::Tensor step = torch::full({1}, state_.step, torch::kLong);
  ranks_.copy_from_first(step);
  state_.step = step.item<std::int64_t>();
  for (const torch::Tensor& part : {parameters_.values, state_.first, state_.second}) {
    ranks_.copy_from_first(part);
  }
}

void Trainer::expect_same_weights() {
  if (ranks_.size() == 1) return;
  const torch::Tensor& values = parameters_.values;
  const std::string own =
      base::sha256_hex({static_cast<const char*>(values.data_ptr()), values.nbytes()});
  if (ranks_.text_of_first(own) != own) {
    throw base::environment_error(
        "train",
        "expected the same weights on every rank after step {}, got others on rank {} than on rank "
        "0; are the machines' processors and libraries of one kind?",
        state_.step, ranks_.rank());
  }
}

}  // namespace kvphase::train
