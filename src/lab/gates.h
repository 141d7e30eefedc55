// Gates: which offsets of a window a compressor keeps, over stated text and, where the training
// logged them (train/gate_trace.h), over its steps; the measures are those of
// model/gate_measures.h. Windows cut at the sequence's start are left out. Knows no tensors here.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "lab/lookup_run.h"
#include "model/gate_measures.h"
#include "record/findings.h"
#include "task/lookup.h"
#include "train/gate_trace.h"

namespace kvphase::lab {

struct GateOptions {
  task::LookupOptions lookup;  // the text ...
  // ... unless these folders of token shards (train/token_set.h) are: windows of their validation
  // part at random places, as long as the model's context, at most 512 tokens.
  std::vector<std::string> text;
  std::int64_t prompts = 480;  // of other items each, all residues alike often; or windows
  std::uint64_t seed = 1;      // of the windows and of the bootstrap
  std::int64_t replicates = 2000;
  RunOptions run;
};

// One gate's sums over the windows of each prompt: [prompts, place.sums()].
struct GateSums {
  model::GatePlace place;
  std::vector<double> rows;
};

struct GateReading {
  std::int64_t prompts = 0;
  std::int64_t tokens = 0;      // of each prompt
  base::Json shards;            // of the text, by SHA-256; null: lookup prompts
  std::vector<GateSums> gates;  // empty: why_none says why
  std::string why_none;
  std::optional<train::GateTrace> trace;
};

GateReading read_gates(const std::filesystem::path& checkpoint, const GateOptions& options,
                       record::RunContext& context, const OnProgress& progress = {});

record::Findings gate_findings(const GateReading& reading, const GateOptions& options,
                               const record::RunContext& context);

}  // namespace kvphase::lab
