#include "speed/bench.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "speed/bytes.h"
#include "speed/flops.h"
#include "speed/training.h"

namespace kvphase::speed {
namespace {

using base::Json;
using base::ObjectReader;
using model::AttentionKind;

constexpr double kFirstGuess = 0.1;  // of the rate that an operation reaches, before one is known

// The longest cell of the same operation and design that is shorter, and the one before it.
std::vector<const Done*> shorter_ones(const Cell& cell, std::span<const Done> done) {
  std::vector<const Done*> found;
  for (const Done& d : done) {
    if (d.cell.operation == cell.operation && d.cell.design == cell.design &&
        d.cell.tokens < cell.tokens && d.measured.time) {
      found.push_back(&d);
    }
  }
  std::ranges::sort(found, {}, [](const Done* d) { return -d->cell.tokens; });
  if (found.size() > 2) found.resize(2);
  return found;
}

// `last` at a length of cell.tokens: in proportion to the tokens, or where the two measured ones
// grew faster, as they did.
double extrapolated(const Cell& cell, const Done& longest, double last, const Done* before,
                    double earlier, double least_power) {
  const auto ratio = [](std::int64_t a, std::int64_t b) {
    return static_cast<double>(a) / static_cast<double>(b);
  };
  double power = least_power;
  if (before != nullptr && earlier > 0 && last > 0) {
    power = std::max(power, std::log(last / earlier) /
                                std::log(ratio(longest.cell.tokens, before->cell.tokens)));
  }
  return last * std::pow(ratio(cell.tokens, longest.cell.tokens), std::min(power, 2.0));
}

Json json_of(const Done& done) {
  return {{"cell", to_json(done.cell)}, {"measured", to_json(done.measured)}};
}

Json json_of(const LeftOut& left) {
  return {{"cell", to_json(left.cell)},
          {"reason", left.reason},
          {"estimated_seconds", base::number_or_null(left.estimate)}};
}

Json json_of(const Accuracy& a) {
  return {
      {"design", a.design}, {"runs", a.runs}, {"worst", a.worst}, {"low", a.low}, {"high", a.high}};
}

void set_floor(Row& row, const std::optional<Rates>& rates) {
  if (!rates || rates->flops <= 0 || rates->read_bytes <= 0) return;
  const double arithmetic = row.flops / rates->flops;
  const double memory = row.bytes.value_or(0) / rates->read_bytes;
  row.floor = std::max(arithmetic, memory);
  row.bound_by_memory = memory > arithmetic;
  row.share = *row.floor / row.time.median;
}

// The rows of one cell: a prompt has two.
std::vector<Row> rows_of_cell(const Done& done) {
  const Cell& cell = done.cell;
  const Measured& measured = done.measured;
  std::vector<Row> rows;
  if (!measured.time) return rows;
  Row row{.design = cell.design,
          .context = cell.tokens,
          .tokens = cell.tokens * cell.batch,
          .time = *measured.time,
          .warmed_up = measured.warmed_up,
          .flops = useful_flops(cell),
          .peak_memory = measured.resident_peak};
  if (measured.resident_peak && measured.resident_before && measured.peak_of_run) {
    row.extra_memory =
        std::max<std::int64_t>(0, *measured.resident_peak - *measured.resident_before);
  }
  switch (cell.operation) {
    case Operation::kRates:
      return rows;
    case Operation::kTrain:
      row.what = What::kTrain;
      break;
    case Operation::kForward:
      row.what = What::kForward;
      break;
    case Operation::kAttention:
      row.what = What::kAttention;
      break;
    case Operation::kPrompt:
      row.what = What::kPrefill;
      break;
  }
  rows.push_back(row);
  if (cell.operation == Operation::kPrompt && measured.decode) {
    rows.push_back({.what = What::kDecode,
                    .design = cell.design,
                    .context = cell.tokens,
                    .tokens = cell.batch,
                    .time = *measured.decode,
                    .flops = decode_flops(cell.config, cell.tokens).total(),
                    .bytes = decode_bytes(cell.config, cell.tokens).total()});
  }
  return rows;
}

}  // namespace

bool is_full(const model::ModelConfig& config) {
  return std::ranges::any_of(config.attention, [](auto k) { return k == AttentionKind::kFull; }) &&
         !model::has_chunked_layer(config);
}

std::string control_of(const Bench& bench, const model::ModelConfig& config) {
  if (is_full(config)) return {};
  const Done* first = nullptr;
  for (const Done& done : bench.done) {
    if (!is_full(done.cell.config)) continue;
    if (done.cell.config.kv_heads == config.kv_heads) return done.cell.design;
    if (first == nullptr) first = &done;
  }
  return first == nullptr ? "" : first->cell.design;
}

const std::vector<std::string>& what_names() {
  static const std::vector<std::string> names = {"train",  "forward",   "prefill",
                                                 "decode", "attention", "memory"};
  return names;
}

bool asks(const BenchOptions& options, What what) {
  return std::ranges::find(options.what, what) != options.what.end();
}

std::vector<Cell> cells_of(const BenchOptions& options) {
  std::vector<Cell> cells;
  const auto add = [&](Operation operation, const NamedDesign& design, std::int64_t tokens) {
    Cell cell{.operation = operation,
              .design = design.name,
              .config = design.config,
              .tokens = tokens,
              .threads = options.threads,
              .repeats = options.repeats,
              .seconds = options.seconds};
    if (operation == Operation::kPrompt && asks(options, What::kDecode)) {
      cell.decode_steps = options.decode_steps;
    }
    if (operation == Operation::kTrain) {
      // As many sequences on every thread.
      const std::int64_t fit = options.step_tokens / (tokens * options.threads);
      cell.batch = options.threads * std::max<std::int64_t>(1, fit);
    }
    cells.push_back(std::move(cell));
  };
  for (const std::int64_t tokens : options.contexts) {
    for (const auto& [what, operation] : {std::pair{What::kTrain, Operation::kTrain},
                                          std::pair{What::kForward, Operation::kForward},
                                          std::pair{What::kPrefill, Operation::kPrompt},
                                          std::pair{What::kAttention, Operation::kAttention}}) {
      const bool asked = operation == Operation::kPrompt
                             ? asks(options, What::kPrefill) || asks(options, What::kDecode) ||
                                   asks(options, What::kMemory)
                             : asks(options, what);
      if (!asked) continue;
      for (const NamedDesign& design : options.designs) add(operation, design, tokens);
    }
  }
  return cells;
}

double useful_flops(const Cell& cell) {
  const auto batch = static_cast<double>(cell.batch);
  switch (cell.operation) {
    case Operation::kRates:
      return 0;
    case Operation::kTrain: {
      const train::TrainOptions training = training_of(cell);
      return kTrainingPasses * batch *
             forward_flops(training.model, cell.tokens, asked_rows(training)).total();
    }
    case Operation::kForward:
      return batch * forward_flops(cell.config, cell.tokens).total();
    case Operation::kPrompt:
      return batch * prefill_flops(cell.config, cell.tokens).total();
    case Operation::kAttention:
      return kTrainingPasses * batch *
             attend_flops(cell.config, cell.config.layers - 1, cell.tokens);
  }
  return 0;
}

std::optional<double> estimated_seconds(const Cell& cell, std::span<const Done> done,
                                        std::optional<double> flops_per_second) {
  const auto shorter = shorter_ones(cell, done);
  if (!shorter.empty()) {
    const Done& longest = *shorter.front();
    const Done* before = shorter.size() > 1 ? shorter[1] : nullptr;
    const double by_work =
        longest.measured.time->median * useful_flops(cell) / useful_flops(longest.cell);
    return std::max(by_work,
                    extrapolated(cell, longest, longest.measured.time->median, before,
                                 before != nullptr ? before->measured.time->median : 0, 0));
  }
  if (!flops_per_second || *flops_per_second <= 0) return std::nullopt;
  return useful_flops(cell) / (kFirstGuess * *flops_per_second);
}

std::optional<double> estimated_memory(const Cell& cell, std::span<const Done> done) {
  const auto extra = [](const Done& d) -> double {
    const Measured& m = d.measured;
    if (!m.resident_peak || !m.resident_before || !m.peak_of_run) return 0;
    return static_cast<double>(*m.resident_peak - *m.resident_before);
  };
  const auto shorter = shorter_ones(cell, done);
  if (shorter.empty() && cell.operation == Operation::kForward) {  // its logits at least
    return static_cast<double>(cell.batch * cell.tokens * cell.config.vocab_size * kNumberBytes);
  }
  if (shorter.empty() || extra(*shorter.front()) <= 0) return std::nullopt;
  const Done* before = shorter.size() > 1 ? shorter[1] : nullptr;
  return extrapolated(cell, *shorter.front(), extra(*shorter.front()), before,
                      before != nullptr ? extra(*before) : 0, 1);
}

std::optional<Rates> best_rates(const Bench& bench) {
  if (bench.rates.empty()) return std::nullopt;
  Rates best = bench.rates.front();
  for (const Rates& rates : bench.rates) {
    if (rates.flops > best.flops) {
      best.flops = rates.flops;
      best.flops_how = rates.flops_how;
    }
    best.mm_flops = std::max(best.mm_flops, rates.mm_flops);
    best.read_bytes = std::max(best.read_bytes, rates.read_bytes);
    best.triad_bytes = std::max(best.triad_bytes, rates.triad_bytes);
  }
  return best;
}

Json to_json(const Bench& bench) {
  Json json = {{"machine", to_json(bench.machine)}, {"threads", bench.threads}};
  json["rates"] = Json::array();
  for (const Rates& rates : bench.rates) {
    json["rates"].push_back(to_json(Measured{.rates = rates}).at("rates"));
  }
  const auto list = [&](const char* key, const auto& items) {
    json[key] = Json::array();
    for (const auto& item : items) json[key].push_back(json_of(item));
  };
  list("done", bench.done);
  list("left_out", bench.left_out);
  list("accuracy", bench.accuracy);
  return json;
}

Bench bench_from_json(const Json& json, std::string_view scope) {
  ObjectReader reader(json, std::string(scope));
  Bench bench;
  bench.machine = machine_from_json(reader.required("machine"), reader.scope() + ".machine");
  bench.threads = reader.integer("threads");
  for (const Json& item : reader.required("rates")) {
    Json measured = to_json(Measured{});
    measured["rates"] = item;
    const Measured read = measured_from_json(measured, reader.scope() + ".rates");
    if (!read.rates) throw base::usage_error(reader.scope(), "expected rates, got null");
    bench.rates.push_back(*read.rates);
  }
  for (const Json& item : reader.required("done")) {
    ObjectReader done(item, reader.scope() + ".done");
    bench.done.push_back(
        {.cell = cell_from_json(done.required("cell"), done.scope() + ".cell"),
         .measured = measured_from_json(done.required("measured"), done.scope() + ".measured")});
    done.finish();
  }
  for (const Json& item : reader.required("left_out")) {
    ObjectReader left(item, reader.scope() + ".left_out");
    bench.left_out.push_back({.cell = cell_from_json(left.required("cell"), left.scope() + ".cell"),
                              .reason = left.text("reason"),
                              .estimate = left.optional_real("estimated_seconds")});
    left.finish();
  }
  for (const Json& item : reader.required("accuracy")) {
    ObjectReader one(item, reader.scope() + ".accuracy");
    bench.accuracy.push_back({.design = one.text("design"),
                              .runs = one.integer("runs"),
                              .worst = one.real("worst"),
                              .low = one.real("low"),
                              .high = one.real("high")});
    one.finish();
  }
  reader.finish();
  return bench;
}

std::vector<Row> rows_of(const Bench& bench) {
  const std::optional<Rates> rates = best_rates(bench);
  std::vector<Row> rows;
  for (const Done& done : bench.done) {
    for (Row& row : rows_of_cell(done)) {
      set_floor(row, rates);
      row.full = is_full(done.cell.config);
      row.control_design = control_of(bench, done.cell.config);
      rows.push_back(std::move(row));
    }
  }
  for (Row& row : rows) {
    const auto reference = std::ranges::find_if(rows, [&](const Row& other) {
      return other.design == row.control_design && other.what == row.what &&
             other.context == row.context;
    });
    if (reference == rows.end()) continue;
    row.control = row.rate() / reference->rate();
  }
  return rows;
}

}  // namespace kvphase::speed
