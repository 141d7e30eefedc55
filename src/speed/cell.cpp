#include "speed/cell.h"

#include <algorithm>
#include <cassert>

#include "base/error.h"

namespace kvphase::speed {
namespace {

using base::Json;
using base::ObjectReader;

Json to_json(const std::optional<Spread>& spread) {
  if (!spread) return {};
  return {{"median", spread->median},
          {"low", spread->low},
          {"high", spread->high},
          {"runs", spread->runs}};
}

std::optional<Spread> read_spread(ObjectReader& outer, const std::string& key) {
  const Json& json = outer.required(key);
  if (json.is_null()) return std::nullopt;
  ObjectReader reader(json, outer.scope() + "." + key);
  const Spread spread{.median = reader.real("median"),
                      .low = reader.real("low"),
                      .high = reader.real("high"),
                      .runs = reader.integer("runs")};
  reader.finish();
  return spread;
}

Json to_json(const std::optional<Rates>& rates) {
  if (!rates) return {};
  return {{"flops_per_second", rates->flops},
          {"flops_how", rates->flops_how},
          {"mm_flops_per_second", rates->mm_flops},
          {"read_bytes_per_second", rates->read_bytes},
          {"triad_bytes_per_second", rates->triad_bytes},
          {"buffer_bytes", rates->buffer}};
}

std::optional<Rates> read_rates(ObjectReader& outer) {
  const Json& json = outer.required("rates");
  if (json.is_null()) return std::nullopt;
  ObjectReader reader(json, outer.scope() + ".rates");
  Rates rates{.flops = reader.real("flops_per_second"),
              .flops_how = reader.text("flops_how"),
              .mm_flops = reader.real("mm_flops_per_second"),
              .read_bytes = reader.real("read_bytes_per_second"),
              .triad_bytes = reader.real("triad_bytes_per_second"),
              .buffer = reader.integer("buffer_bytes")};
  reader.finish();
  return rates;
}

Json integer_or_null(const std::optional<std::int64_t>& value) {
  return value ? Json(*value) : Json();
}

std::optional<std::int64_t> optional_integer(ObjectReader& reader, const std::string& key) {
  if (reader.required(key).is_null()) return std::nullopt;
  return reader.integer(key);
}

}  // namespace

const std::vector<std::string>& operation_names() {
  static const std::vector<std::string> names = {"rates", "train", "forward", "prompt",
                                                 "attention"};
  return names;
}

const std::string& name_of(Operation operation) {
  return operation_names().at(static_cast<std::size_t>(operation));
}

Spread spread_of(std::vector<double> seconds) {
  assert(!seconds.empty());
  std::ranges::sort(seconds);
  const std::size_t half = seconds.size() / 2;
  return {
      .median = seconds.size() % 2 == 1 ? seconds[half] : (seconds[half - 1] + seconds[half]) / 2,
      .low = seconds.front(),
      .high = seconds.back(),
      .runs = std::ssize(seconds)};
}

Json to_json(const Cell& c) {
  return {{"operation", name_of(c.operation)},
          {"design", c.design},
          {"model", c.operation == Operation::kRates ? Json() : model::to_json(c.config)},
          {"tokens", c.tokens},
          {"batch", c.batch},
          {"threads", c.threads},
          {"repeats", c.repeats},
          {"decode_steps", c.decode_steps},
          {"seconds", c.seconds}};
}

Cell cell_from_json(const Json& json, std::string_view scope) {
  ObjectReader reader(json, std::string(scope));
  Cell c;
  c.operation = static_cast<Operation>(reader.choice("operation", operation_names()));
  c.design = reader.text("design");
  const Json& config = reader.required("model");
  if (c.operation != Operation::kRates) {
    c.config = model::config_from_json(config, std::string(scope) + ".model");
  }
  c.tokens = reader.integer("tokens");
  c.batch = reader.integer("batch");
  c.threads = reader.integer("threads");
  c.repeats = reader.integer("repeats");
  c.decode_steps = reader.integer("decode_steps");
  c.seconds = reader.real("seconds");
  reader.finish();
  const bool sized = c.operation == Operation::kRates || (c.tokens > 0 && c.batch > 0);
  if (!sized || c.threads < 1 || c.repeats < 1 || c.decode_steps < 0) {
    throw base::usage_error(scope, "expected positive sizes, got {}", json.dump());
  }
  return c;
}

Json to_json(const Measured& m) {
  return {{"rates", to_json(m.rates)},
          {"time", to_json(m.time)},
          {"decode", to_json(m.decode)},
          {"warmed_up", m.warmed_up},
          {"resident_before", integer_or_null(m.resident_before)},
          {"resident_peak", integer_or_null(m.resident_peak)},
          {"peak_of_run", m.peak_of_run},
          {"bytes", integer_or_null(m.bytes)}};
}

Measured measured_from_json(const Json& json, std::string_view scope) {
  ObjectReader reader(json, std::string(scope));
  Measured m;
  m.rates = read_rates(reader);
  m.time = read_spread(reader, "time");
  m.decode = read_spread(reader, "decode");
  m.warmed_up = reader.boolean("warmed_up");
  m.resident_before = optional_integer(reader, "resident_before");
  m.resident_peak = optional_integer(reader, "resident_peak");
  m.peak_of_run = reader.boolean("peak_of_run");
  m.bytes = optional_integer(reader, "bytes");
  reader.finish();
  return m;
}

}  // namespace kvphase::speed
