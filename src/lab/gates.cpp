#include "lab/gates.h"

#include <algorithm>

#include "base/error.h"
#include "base/random.h"
#include "lab/opened.h"
#include "model/checkpoint.h"
#include "model/gate_sums.h"
#include "task/prompt_set.h"
#include "train/token_set.h"

namespace kvphase::lab {
namespace {

constexpr const char* kScope = "gates";

// Writes what every gate does with a batch into its rows.
void add(const Opened& opened, const Batch& batch, std::vector<GateSums>& gates) {
  model::DecodeState state = opened.network->start(batch.size());
  std::vector<torch::Tensor> inputs;
  opened.network->prefill(batch.tokens, state, &inputs);
  for (GateSums& gate : gates) {
    const torch::Tensor rows = model::gate_sums(*opened.network, gate.place, inputs);
    const std::size_t begin = batch.first * static_cast<std::size_t>(rows.size(1));
    std::copy_n(rows.data_ptr<double>(), rows.numel(),
                gate.rows.begin() + static_cast<std::ptrdiff_t>(begin));
  }
}

void make_room(GateReading& reading) {
  for (GateSums& gate : reading.gates) {
    gate.rows.resize(static_cast<std::size_t>(reading.prompts * gate.place.sums()));
  }
}

void read_prompts(const Opened& opened, const GateOptions& options, GateReading& reading,
                  record::RunContext& context, const OnProgress& progress) {
  const task::LookupTask task(options.lookup);
  check_fits(opened, task, kScope);
  const std::vector<Place> places = one_each(task, options.prompts);
  reading.prompts = std::ssize(places);
  reading.tokens = task.longest_prompt();
  if (reading.gates.empty()) return;
  context.prompt_set_sha256 = prompt_set_sha256(task, places, options.run.scope);
  make_room(reading);
  for_each_batch(
      task, places, options.run, [&](const Batch& batch) { add(opened, batch, reading.gates); },
      progress);
}

void read_text(const Opened& opened, const GateOptions& options, GateReading& reading,
               record::RunContext& context, const OnProgress& progress) {
  constexpr std::int64_t kLongest = 512;
  reading.prompts = options.prompts;
  reading.tokens = std::min(kLongest, opened.config().context_length);
  const train::TokenSet text(options.text, train::kValidationSplit, reading.tokens);
  if (text.vocabulary() > opened.config().vocab_size) {
    throw base::usage_error(kScope,
                            "expected text of the model's {} tokens or fewer, got {} of '{}'",
                            opened.config().vocab_size, text.vocabulary(), text.tokenizer());
  }
  reading.shards = text.identity();
  if (reading.gates.empty()) return;
  make_room(reading);
  base::Random random(base::derive_seed(options.seed, "gates.text"));
  std::vector<std::int64_t> windows(static_cast<std::size_t>(reading.prompts));
  for (std::int64_t& window : windows) {
    window =
        static_cast<std::int64_t>(random.uniform_index(static_cast<std::uint64_t>(text.windows())));
  }
  task::PromptSetHash hash;
  for (std::size_t row = 0; row < windows.size(); ++row) {
    task::Prompt window{.item = static_cast<std::int64_t>(row)};
    std::vector<std::int64_t> tokens(static_cast<std::size_t>(reading.tokens));
    text.read(windows[row], tokens);
    window.request.prompt.assign(tokens.begin(), tokens.end());
    hash.add(window);
  }
  context.prompt_set_sha256 = hash.finish_hex();
  for_each_batch(
      reading.prompts, reading.tokens, options.run,
      [&](std::int64_t row, std::span<std::int64_t> tokens) {
        text.read(windows[static_cast<std::size_t>(row)], tokens);
      },
      [&](const Batch& batch) { add(opened, batch, reading.gates); }, progress);
}

}  // namespace

GateReading read_gates(const std::filesystem::path& checkpoint, const GateOptions& options,
                       record::RunContext& context, const OnProgress& progress) {
  const Opened opened = open(checkpoint);
  identify(opened, context);
  GateReading reading{.why_none = model::why_no_gates(opened.config()),
                      .trace = train::read_gate_trace(checkpoint)};
  if (reading.trace && !reading.trace->warning.empty()) {
    context.warnings.push_back(reading.trace->warning);
    if (reading.trace->text.source.empty()) reading.trace.reset();
  }
  if (!options.text.empty() && !model::read_training_card(checkpoint).options.contains("data")) {
    context.warnings.push_back(
        "the model was not trained on text: its gates over text say nothing about its task");
  }
  for (model::GatePlace& place : model::gates_of(*opened.network)) {
    reading.gates.push_back({.place = std::move(place)});
  }
  (options.text.empty() ? read_prompts : read_text)(opened, options, reading, context, progress);
  return reading;
}

}  // namespace kvphase::lab
