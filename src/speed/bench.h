// A benchmark as a whole: which cells it has, how long one will take, what was measured and what
// was left out and why, and the floors beside. Knows no tensors.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "speed/cell.h"
#include "speed/machine.h"

namespace kvphase::speed {

struct NamedDesign {
  std::string name;
  model::ModelConfig config;
};

// What a person can ask for.
enum class What { kTrain, kForward, kPrefill, kDecode, kAttention, kMemory };
const std::vector<std::string>& what_names();  // in the order above

struct BenchOptions {
  std::vector<NamedDesign> designs;
  std::vector<std::int64_t> contexts;  // tokens, increasing
  std::vector<What> what;
  std::int64_t threads = 1;
  std::int64_t repeats = 5;        // of a cell, at most
  std::int64_t decode_steps = 33;  // the first is not counted
  double seconds = 2;              // of a cell's repeats, about
  double limit = 30;               // a cell whose single run would take longer is left out, seconds
  std::int64_t step_tokens = 8192;       // of a training step, in as many sequences as that makes
  std::int64_t longest_training = 8192;  // longer sequences are not trained on
};

bool asks(const BenchOptions& options, What what);

// Shortest context first, and within it the designs side by side, so that what is compared is
// measured close in time.
std::vector<Cell> cells_of(const BenchOptions& options);

struct Done {
  Cell cell;
  Measured measured;
};

struct LeftOut {
  Cell cell;
  std::string reason;
  std::optional<double> estimate;  // seconds of one run, where that is why
};

// Useful floating point operations of one run of a cell (kPrompt: of the prefill). Not of kRates.
double useful_flops(const Cell& cell);

// Seconds of one run, from the longest shorter cell of the same design and operation by the ratio
// of useful work (or, where two were measured and time grew faster, at that pace); without one,
// from the rate at a tenth of it. Empty: no rate known.
std::optional<double> estimated_seconds(const Cell& cell, std::span<const Done> done,
                                        std::optional<double> flops_per_second);
// Bytes beyond what the process holds before, likewise; empty: nothing measured yet.
std::optional<double> estimated_memory(const Cell& cell, std::span<const Done> done);

// Worst-phase accuracy of a design, from audits; shares.
struct Accuracy {
  std::string design;
  std::int64_t runs = 0;  // seeds, and what else was audited of it
  double worst = 0;       // mean of the runs' worst residues
  double low = 0;
  double high = 0;
};

struct Bench {
  Machine machine;  // as it was before
  std::int64_t threads = 1;
  std::vector<Rates> rates;  // before the cells and after them
  std::vector<Done> done;
  std::vector<LeftOut> left_out;
  std::vector<Accuracy> accuracy;
};

// The best of what was measured before and after; empty: not measured.
std::optional<Rates> best_rates(const Bench& bench);

base::Json to_json(const Bench& bench);
Bench bench_from_json(const base::Json& json, std::string_view scope);

// One figure of the tables: an operation of a design at a length, beside its floor.
struct Row {
  What what = What::kPrefill;
  std::string design;
  std::int64_t context = 0;
  std::int64_t tokens = 0;  // that one run works through
  Spread time;              // seconds of one run
  bool warmed_up = true;
  double flops = 0;               // useful ones of one run
  std::optional<double> bytes;    // kDecode: that a step must read
  std::optional<double> floor;    // seconds: the larger of flops and bytes over the rates
  bool bound_by_memory = false;   // which of them that is
  std::optional<double> share;    // floor / median
  bool full = false;              // full attention: what others are compared with
  std::string control_design;     // what this one is compared with; empty: itself, or none
  std::optional<double> control;  // tokens per second over the control's; empty: none measured
  std::optional<std::int64_t> extra_memory;  // bytes during the first run beyond those before it
  std::optional<std::int64_t> peak_memory;   // all of the process
  double rate() const { return static_cast<double>(tokens) / time.median; }  // tokens per second
};

// Full attention in every layer that is not local, and in one at least.
bool is_full(const model::ModelConfig& config);

// The design that one of this shape is compared with: the first measured of full attention that has
// as many KV heads, or else the first of full attention. Empty: none, or that is the shape's own.
std::string control_of(const Bench& bench, const model::ModelConfig& config);

// In the order measured.
std::vector<Row> rows_of(const Bench& bench);

}  // namespace kvphase::speed
