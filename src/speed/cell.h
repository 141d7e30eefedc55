// One cell of a benchmark: what is measured of which network at which length, and what came out.
// Plain values that travel as JSON between the program and the process that measures one cell, so
// that cells do not disturb each other. Knows no tensors.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "model/config.h"
#include "speed/machine.h"

namespace kvphase::speed {

enum class Operation {
  kRates,      // of the machine: matrix products and reading memory
  kTrain,      // one optimiser step, everything in it (Trainer::step)
  kForward,    // logits of every position, without gradients (Transformer::forward)
  kPrompt,     // a prompt into the cache (Transformer::prefill), then token by token (decode)
  kAttention,  // forward and backward of the softmax part of one layer alone (kernels::attend)
};
const std::vector<std::string>& operation_names();  // in the order above
const std::string& name_of(Operation operation);

struct Cell {
  Operation operation = Operation::kPrompt;
  std::string design;         // what a person calls the network; empty: kRates
  model::ModelConfig config;  // without meaning for kRates
  std::int64_t tokens = 0;    // of a sequence; kPrompt: in the cache before decoding begins
  std::int64_t batch = 1;     // sequences; kTrain: of a step
  std::int64_t threads = 1;
  std::int64_t repeats = 5;       // at most, after one run that is not counted
  std::int64_t decode_steps = 0;  // kPrompt
  double seconds = 3;             // no repeat is begun after as many
};

// Of several runs of one thing, seconds each.
struct Spread {
  double median = 0;
  double low = 0;   // the fastest
  double high = 0;  // the slowest
  std::int64_t runs = 0;
};
Spread spread_of(std::vector<double> seconds);  // at least one

struct Rates {
  double flops = 0;         // of float32 matrix products per second, the best of all tried
  std::string flops_how;    // which that was
  double mm_flops = 0;      // the best of those by torch::mm
  double read_bytes = 0;    // per second, of a buffer far beyond every cache, the best run
  double triad_bytes = 0;   // a = b + s c, three streams
  std::int64_t buffer = 0;  // bytes
};

struct Measured {
  std::optional<Rates> rates;
  std::optional<Spread> time;    // of the operation; kPrompt: of the prefill
  std::optional<Spread> decode;  // of one step
  bool warmed_up = true;  // false: the first run took all the time there was, and is what counts
  // Of the first run: what the process held before it, everything loaded and built, and the most
  // during it.
  std::optional<std::int64_t> resident_before;
  std::optional<std::int64_t> resident_peak;
  bool peak_of_run = true;  // false: the peak is of the whole process
  // kPrompt: what the cache held after `tokens` tokens; kAttention: inputs, outputs and gradients.
  std::optional<std::int64_t> bytes;
};

base::Json to_json(const Cell& cell);
Cell cell_from_json(const base::Json& json, std::string_view scope);
base::Json to_json(const Measured& measured);
Measured measured_from_json(const base::Json& json, std::string_view scope);

}  // namespace kvphase::speed
