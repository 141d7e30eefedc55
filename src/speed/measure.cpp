#include "speed/measure.h"

#include <torch/torch.h>

#include <functional>
#include <utility>

#include "base/clock.h"
#include "base/random.h"
#include "base/stop.h"
#include "kernels/attention.h"
#include "model/threads.h"
#include "model/transformer.h"
#include "speed/rates.h"
#include "speed/training.h"
#include "train/trainer.h"

namespace kvphase::speed {
namespace {

constexpr std::uint64_t kSeed = 1;
constexpr const char* kScope = "bench";

// The run whose memory is looked at.
void first_run(Measured& measured, const std::function<void()>& work) {
  measured.peak_of_run = reset_peak();
  const std::optional<Memory> before = memory_of_process();
  work();
  const std::optional<Memory> after = memory_of_process();
  if (!before || !after) return;
  measured.resident_before = before->resident;
  measured.resident_peak = after->peak;
}

// Runs `work` once for its memory, then up to cell.repeats times. A median of less than three runs,
// or of the first one, is only taken where more would take several times cell.seconds.
void time_runs(const Cell& cell, Measured& measured, const std::function<void()>& work) {
  const base::Stopwatch all;
  first_run(measured, work);
  const double first = all.seconds();
  base::stop_if_requested(kScope);
  std::vector<double> seconds;
  constexpr double kPatience = 4;
  constexpr std::int64_t kFewest = 3;
  while (std::ssize(seconds) < cell.repeats &&
         all.seconds() < (std::ssize(seconds) < kFewest ? kPatience : 1) * cell.seconds) {
    const base::Stopwatch watch;
    work();
    seconds.push_back(watch.seconds());
    base::stop_if_requested(kScope);
  }
  measured.warmed_up = !seconds.empty();
  if (seconds.empty()) seconds.push_back(first);
  measured.time = spread_of(std::move(seconds));
}

torch::Tensor random_tokens(std::int64_t batch, std::int64_t tokens, std::int64_t vocabulary) {
  base::Random random(base::derive_seed(kSeed, "bench"));
  torch::Tensor result = torch::empty({batch, tokens}, torch::kInt64);
  auto* ids = result.data_ptr<std::int64_t>();
  for (std::int64_t i = 0; i < result.numel(); ++i) {
    ids[i] =
        static_cast<std::int64_t>(random.uniform_index(static_cast<std::uint64_t>(vocabulary)));
  }
  return result;
}

model::Transformer network_of(const Cell& cell) {
  model::ModelConfig config = cell.config;
  config.context_length = cell.tokens + cell.decode_steps;
  return {config, kSeed};
}

Measured measure_training(const Cell& cell) {
  train::Trainer trainer(training_of(cell));
  Measured measured;
  time_runs(cell, measured, [&] { trainer.step(); });
  return measured;
}

Measured measure_forward(const Cell& cell) {
  const torch::NoGradGuard no_grad;
  model::compute_on_threads(cell.threads);
  model::Transformer network = network_of(cell);
  const torch::Tensor tokens = random_tokens(cell.batch, cell.tokens, cell.config.vocab_size);
  Measured measured;
  time_runs(cell, measured, [&] { network.forward(tokens); });
  return measured;
}

Measured measure_prompt(const Cell& cell) {
  const torch::NoGradGuard no_grad;
  model::compute_on_threads(cell.threads);
  model::Transformer network = network_of(cell);
  const std::int64_t vocabulary = cell.config.vocab_size;
  const torch::Tensor prompt = random_tokens(cell.batch, cell.tokens, vocabulary);
  const torch::Tensor more = random_tokens(cell.batch, cell.decode_steps, vocabulary);
  Measured measured;
  model::DecodeState state;
  time_runs(cell, measured, [&] {
    state = network.start(cell.batch);
    network.prefill(prompt, state);
  });
  measured.bytes = state.bytes();
  std::vector<double> seconds;
  const base::Stopwatch all;
  for (std::int64_t step = 0; step < cell.decode_steps; ++step) {
    if (step > 1 && all.seconds() > cell.seconds) break;
    const torch::Tensor token = more.narrow(1, step, 1);
    const base::Stopwatch watch;
    network.decode(token, state);
    if (step > 0) seconds.push_back(watch.seconds());  // the first allocates
    base::stop_if_requested(kScope);
  }
  if (!seconds.empty()) measured.decode = spread_of(std::move(seconds));
  return measured;
}

Measured measure_attention(const Cell& cell) {
  model::compute_on_threads(cell.threads);
  const model::ModelConfig& config = cell.config;
  const std::int64_t layer = config.layers - 1;
  const bool chunked = config.attention.back() == model::AttentionKind::kChunked;
  const bool full = config.attention.back() == model::AttentionKind::kFull;
  kernels::Attention attention;
  std::vector<torch::Tensor> inputs;
  const auto input = [&](std::int64_t rows, std::int64_t heads) {
    inputs.push_back(torch::randn({cell.batch, rows, heads, config.head_width},
                                  torch::TensorOptions().requires_grad(true)));
    return inputs.back();
  };
  const bool tied = chunked && config.chunk.tied_kv;
  attention.queries = input(cell.tokens, config.query_heads);
  attention.keys = input(cell.tokens, config.kv_heads);
  attention.values = tied ? attention.keys : input(cell.tokens, config.kv_heads);
  attention.rows = torch::arange(cell.tokens).expand({cell.batch, cell.tokens});
  attention.recent.window = full ? kernels::Recent::kAll : config.local_window;
  if (chunked) {
    attention.grid = model::chunk_grid(config, layer);
    attention.recent.tail = config.chunk.recent == model::RecentKind::kUncompressedTail;
    const std::int64_t entries = attention.grid.completed(cell.tokens);
    if (entries > 0) {
      attention.entry_keys = input(entries, config.kv_heads);
      attention.entry_values = tied ? attention.entry_keys : input(entries, config.kv_heads);
    }
  }
  const torch::Tensor direction = torch::randn_like(attention.queries);  // of the output's gradient
  Measured measured;
  std::int64_t bytes = 2 * static_cast<std::int64_t>(direction.nbytes());  // it, and the output
  for (const torch::Tensor& tensor : inputs) {
    bytes += 2 * static_cast<std::int64_t>(tensor.nbytes());
  }
  measured.bytes = bytes;
  time_runs(cell, measured,
            [&] { torch::autograd::grad({kernels::attend(attention)}, inputs, {direction}); });
  return measured;
}

}  // namespace

Measured measure(const Cell& cell) {
  switch (cell.operation) {
    case Operation::kRates: {
      Measured measured;
      measured.rates = measure_rates(cell.threads, cell.seconds);
      base::stop_if_requested(kScope);
      return measured;
    }
    case Operation::kTrain:
      return measure_training(cell);
    case Operation::kForward:
      return measure_forward(cell);
    case Operation::kPrompt:
      return measure_prompt(cell);
    case Operation::kAttention:
      return measure_attention(cell);
  }
  return {};
}

}  // namespace kvphase::speed
