// What a training logs about its gates: gates.jsonl in its folder. The first line says over which
// text (GateTraceText), every further one is a gate at a step: after 0 steps, after every
// `interval` and after the last. Knows no tensors.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "model/gate_measures.h"

namespace kvphase::train {

inline constexpr const char* kGateTrace = "gates.jsonl";

// The same sequences at every step.
struct GateTraceText {
  std::string source;          // in words
  std::int64_t sequences = 0;  // B
  std::int64_t tokens = 0;     // T, of each
  std::int64_t interval = 0;   // steps between two
};

struct GateTraceRow {
  std::int64_t step = 0;  // done
  std::int64_t layer = 0;
  std::int64_t head = 0;
  bool of_values = false;
  model::GateMeasures measures;
};

struct GateTrace {
  GateTraceText text;
  std::vector<GateTraceRow> rows;  // step by step, at every step the same gates
};

// Lines of the file, without newline; numbers to six decimals.
std::string to_line(const GateTraceText& text);
std::string to_line(const GateTraceRow& row);

// Empty where the folder has none; a torn last line is left out. Throws a usage error for a file
// that is none or whose steps do not have the same gates.
std::optional<GateTrace> read_gate_trace(const std::filesystem::path& folder);

base::Json to_json(const GateTraceText& text);
base::Json to_json(const GateTraceRow& row);

}  // namespace kvphase::train
