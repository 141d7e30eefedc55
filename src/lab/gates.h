// Gates (Zhu et al., arXiv 2609.36322): which offsets of a window a compressor keeps, over stated
// text. Per layer, KV head and branch (key, value), with alpha the weights of a window's W tokens
// and H the Shannon entropy in nats:
//   static effective offsets      exp(H(E[alpha]))   few: the same offsets in every window
//   per-window effective offsets  E[exp(H(alpha))]   few: each window keeps few, not the same ones
// Both are 1 for one-hot gates and W for uniform ones. Vector gates have one distribution per
// channel: both measures are means over channels. Windows cut at the sequence's start are left out.
// Knows no tensors here.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "lab/lookup_run.h"
#include "record/findings.h"
#include "task/lookup.h"

namespace kvphase::lab {

struct GateOptions {
  task::LookupOptions lookup;  // the text
  std::int64_t prompts = 480;  // of other items each, all residues alike often
  std::uint64_t seed = 1;      // of the bootstrap
  std::int64_t replicates = 2000;
  RunOptions run;
};

// One gate's sums over the windows of each prompt.
struct GateSums {
  std::int64_t layer = 0;
  std::int64_t head = 0;
  bool of_values = false;
  std::int64_t window = 0;                    // W
  std::int64_t channels = 1;                  // E
  std::vector<std::int64_t> phase_of_offset;  // [W], of the token there
  // [prompts, E * W + 2]: sums of alpha by channel and offset, of the channels' mean exp(H(alpha)),
  // and the number of windows.
  std::vector<double> rows;
};

struct GateReading {
  std::int64_t prompts = 0;
  std::int64_t tokens = 0;      // of each prompt
  std::vector<GateSums> gates;  // empty: no chunked layer
};

// exp of the Shannon entropy of weights that are >= 0 and sum to `total` > 0.
double effective_offsets(std::span<const double> weights, double total);

GateReading read_gates(const std::filesystem::path& checkpoint, const GateOptions& options,
                       record::RunContext& context, const OnProgress& progress = {});

record::Findings gate_findings(const GateReading& reading, const GateOptions& options,
                               const record::RunContext& context);

}  // namespace kvphase::lab
