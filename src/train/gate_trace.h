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
  std::string warning;             // what the file's end lacks; empty: it is whole
};

// Lines of the file, without newline; numbers to six decimals.
std::string to_line(const GateTraceText& text);
std::string to_line(const GateTraceRow& row);

// Empty where the folder has none. What a killed training leaves at the end, a torn last line and a
// last step without all of its gates, is left out with a warning; of a file without a whole line
// nothing is left but that. Throws a usage error with file and line for anything else that is no
// trace: a line that is no gate, a step with other gates.
std::optional<GateTrace> read_gate_trace(const std::filesystem::path& folder);

base::Json to_json(const GateTraceText& text);
base::Json to_json(const GateTraceRow& row);

}  // namespace kvphase::train
