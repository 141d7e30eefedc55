#include "train/trainer.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <optional>

#include "base/error.h"
#include "base/hash.h"
#include "kernels/linear.h"
#include "model/gate_sums.h"
#include "model/threads.h"

namespace kvphase::train {

torch::Device training_device(const TrainOptions& options, const Ranks& ranks) {
  torch::Device device(options.device);
  if (!device.is_cuda()) return device;
  if (!device.has_index() && ranks.size() > 1) {
    device.set_index(static_cast<c10::DeviceIndex>(ranks.local_rank()));
  }
  const auto found = static_cast<std::int64_t>(torch::cuda::device_count());
  if (device.has_index() ? device.index() >= found : found == 0) {
    throw base::environment_error(
        "train",
        "expected the device {}, got {} CUDA devices that this build of torch can use; "
        "--set device=cpu, or build against a torch with CUDA",
        device.str(), found);
  }
  return device;
}

namespace {

model::Transformer& moved(model::Transformer& network, const torch::Device& device) {
  network.to(device);
  return network;
}

}  // namespace

// Sequences begin..end-1 of a batch after the forward pass.
struct Trainer::Forward {
  torch::Tensor loss_sum;    // scalar, summed over their predicted tokens; undefined: no sequences
  std::int64_t correct = 0;  // predicted tokens that are the top one
};

// What one thread has of a step: its sequences of every part.
struct Trainer::Shard {
  std::vector<Forward> parts;
  torch::autograd::variable_list gradients;  // of the step's loss, one per leaf; or none at all
};

Trainer::Trainer(const TrainOptions& options, Ranks* ranks)
    : options_(options),
      ranks_(ranks != nullptr ? *ranks : alone_),
      data_(options),
      device_(training_device(options, ranks_)),
      network_(options.model, base::derive_seed(options.seed, "init")),
      parameters_(moved(network_, device_).parameters()),
      state_{.first = torch::zeros_like(parameters_.values),
             .second = torch::zeros_like(parameters_.values)} {
  assert(ranks_.size() <= options.threads);
  network_.recompute_layers(options.recompute_layers);
  if (options.bfloat16_products) kernels::BFloat16Products{};  // refuses before the first step
  model::compute_on_calling_thread();
}

Trainer::Forward Trainer::forward(const Batch& batch, std::int64_t begin, std::int64_t end) {
  const torch::Tensor tokens = batch.tokens.slice(0, begin, end).to(device_);
  const torch::Tensor logits =  // [b*Q,V]
      (batch.rows.defined() ? network_.forward_at(tokens, batch.rows.to(device_))
                            : network_.forward(tokens))
          .flatten(0, 1);
  const torch::Tensor targets = batch.targets.slice(0, begin, end).flatten().to(device_);
  Forward pass;
  pass.loss_sum = torch::nn::functional::cross_entropy(
      logits, targets, torch::nn::functional::CrossEntropyFuncOptions().reduction(torch::kSum));
  const torch::NoGradGuard no_grad;
  pass.correct = logits.argmax(-1).eq(targets).sum().item<std::int64_t>();
  return pass;
}

// Adds elements begin..end-1 of the gradients, all leaves in one row, shard by shard.
void Trainer::add_gradients(const std::vector<Shard>& shards, const torch::Tensor& sum,
                            std::int64_t begin, std::int64_t end) {
  for (const Shard& shard : shards) {
    std::int64_t offset = 0;  // of the leaf
    for (std::size_t i = 0; i < shard.gradients.size(); ++i) {
      const std::int64_t size = parameters_.leaves[i].numel();
      const std::int64_t from = std::max(begin, offset);
      const std::int64_t to = std::min(end, offset + size);
      const torch::Tensor& gradient = shard.gradients[i];
      if (gradient.defined() && from < to) {
        const torch::Tensor there = sum.narrow(0, from, to - from);
        if (to - from == size) {  // also spares a flat copy of what lies transposed in memory
          there.view(gradient.sizes()).add_(gradient.to(sum.device()));
        } else {
          there.add_(gradient.flatten().narrow(0, from - offset, to - from).to(sum.device()));
        }
      }
      offset += size;
    }
  }
}

void Trainer::sum_gradients(const std::vector<Shard>& shards) {
  parameters_.gradients.zero_();
  // Where sums do not travel between GPUs they are made on the CPU; else `sum` is the same tensor.
  const torch::Tensor sum =
      ranks_.takes(device_) ? parameters_.gradients : parameters_.gradients.cpu();
  ranks_.sum_parts(
      sum, [&](std::int64_t begin, std::int64_t end) { add_gradients(shards, sum, begin, end); });
  if (!sum.is_same(parameters_.gradients)) parameters_.gradients.copy_(sum);
}

StepResult Trainer::step() {
  const std::int64_t shards = options_.threads;  // of all ranks
  const std::int64_t first = model::shard_begin(shards, ranks_.size(), ranks_.rank());
  const std::int64_t after = model::shard_begin(shards, ranks_.size(), ranks_.rank() + 1);
  const std::vector<BatchPart> parts = data_.step(state_.step);
  network_.shift_grids(grid_shift_at(options_, state_.step));
  std::vector<Shard> done(static_cast<std::size_t>(after - first));
  model::run_shards(after - first, [&](std::int64_t s) {
    Shard& shard = done[static_cast<std::size_t>(s)];
    std::optional<kernels::BFloat16Products> rounded;
    if (options_.bfloat16_products) rounded.emplace();
    torch::autograd::variable_list losses, weights;
    for (const BatchPart& part : parts) {
      const std::int64_t sequences = part.batch.tokens.size(0);
      const std::int64_t begin = model::shard_begin(sequences, shards, first + s);
      const std::int64_t end = model::shard_begin(sequences, shards, first + s + 1);
      shard.parts.emplace_back();
      if (begin == end) continue;
      const Forward& forward_pass = shard.parts.back() = forward(part.batch, begin, end);
      losses.push_back(forward_pass.loss_sum);
      const auto predicted = static_cast<double>(part.batch.targets.numel());
      weights.push_back(torch::full({}, part.weight / predicted,
                                    forward_pass.loss_sum.options().requires_grad(false)));
    }
    if (losses.empty()) return;
    shard.gradients = torch::autograd::grad(losses, parameters_.leaves, weights, {}, false,
                                            /*allow_unused=*/true);
  });

  network_.shift_grids(0);

  const torch::NoGradGuard no_grad;
  // Of every part: its losses and its right tokens.
  const torch::Tensor sums =
      torch::zeros({2 * static_cast<std::int64_t>(parts.size())}, torch::kDouble);
  auto* const sum = sums.data_ptr<double>();
  ranks_.sum_parts(sums, [&](std::int64_t begin, std::int64_t end) {
    for (const Shard& shard : done) {
      for (std::size_t p = 0; p < shard.parts.size(); ++p) {
        const Forward& part = shard.parts[p];
        const auto place = 2 * static_cast<std::int64_t>(p);
        if (!part.loss_sum.defined()) continue;
        if (begin <= place && place < end) sum[place] += part.loss_sum.item<double>();
        if (begin <= place + 1 && place + 1 < end) {
          sum[place + 1] += static_cast<double>(part.correct);
        }
      }
    }
  });
  sum_gradients(done);
  done.clear();  // their gradients, before the optimiser needs room

  StepResult result;
  for (std::size_t p = 0; p < parts.size(); ++p) {
    const auto predicted = static_cast<double>(parts[p].batch.targets.numel());
    const Evaluation alone{.loss = sum[2 * p] / predicted, .accuracy = sum[2 * p + 1] / predicted};
    result.on_batch.loss += parts[p].weight * alone.loss;
    result.on_batch.accuracy += parts[p].weight * alone.accuracy;
    if (options_.data.text.empty()) continue;
    (parts[p].kind == BatchPart::Kind::kText ? result.on_text : result.on_lookups) = alone;
  }
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
  // Sequences and logits at once: they bound the memory.
  constexpr std::int64_t kSequences = 64, kLogits = std::int64_t{1} << 25;
  const std::int64_t per_sequence = batch.targets.size(1) * options_.model.vocab_size;
  const std::int64_t at_once = std::clamp<std::int64_t>(kLogits / per_sequence, 1, kSequences);
  const torch::NoGradGuard no_grad;
  double loss = 0;
  std::int64_t correct = 0;
  const std::int64_t sequences = batch.tokens.size(0);
  for (std::int64_t begin = 0; begin < sequences; begin += at_once) {
    const Forward pass = forward(batch, begin, std::min(sequences, begin + at_once));
    loss += pass.loss_sum.item<double>();
    correct += pass.correct;
  }
  const auto predicted = static_cast<double>(batch.targets.numel());
  return {.loss = loss / predicted, .accuracy = static_cast<double>(correct) / predicted};
}

std::vector<GateTraceRow> Trainer::look_at_gates() {
  const torch::NoGradGuard no_grad;
  const torch::Tensor tokens = data_.trace_text().tokens.to(device_);
  model::DecodeState state = network_.start(tokens.size(0));
  std::vector<torch::Tensor> inputs;
  network_.prefill(tokens, state, &inputs);
  std::vector<GateTraceRow> rows;
  for (const model::GatePlace& gate : model::gates_of(network_)) {
    const torch::Tensor sums = model::gate_sums(network_, gate, inputs).sum(0);
    const auto measures = model::measure_gate(
        gate, {sums.data_ptr<double>(), static_cast<std::size_t>(sums.numel())});
    if (!measures) continue;  // the text is shorter than a window
    rows.push_back({.step = state_.step,
                    .layer = gate.layer,
                    .head = gate.head,
                    .of_values = gate.of_values,
                    .measures = *measures});
  }
  return rows;
}

void Trainer::continue_from(AdamWState state) {
  assert(state.first.numel() == parameters_.values.numel());
  assert(state.second.numel() == parameters_.values.numel());
  state_ = std::move(state);
  state_.first = state_.first.to(device_);
  state_.second = state_.second.to(device_);
}

void Trainer::copy_from_first() {
  const torch::NoGradGuard no_grad;
  const torch::Tensor step = torch::full({1}, state_.step, torch::kLong);
  ranks_.copy_from_first(step);
  state_.step = step.item<std::int64_t>();
  for (const torch::Tensor& part : {parameters_.values, state_.first, state_.second}) {
    const torch::Tensor values = part.cpu();  // itself where it is there
    ranks_.copy_from_first(values);
    if (!part.is_cpu()) part.copy_(values);
  }
}

void Trainer::expect_same_weights() {
  if (ranks_.size() == 1) return;
  const torch::Tensor values = parameters_.values.cpu();
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
