// What gates do, in numbers (Zhu et al., arXiv 2609.36322). With alpha the weights that a gate
// gives a window's W tokens and H the Shannon entropy in nats:
//   static effective offsets      exp(H(E[alpha]))   few: the same offsets in every window
//   per-window effective offsets  E[exp(H(alpha))]   few: each window keeps few, not the same ones
//   profile                       W E[alpha]         1 is the uniform share
// The first two are 1 for one-hot gates and W for uniform ones. Vector gates have one distribution
// per channel: all are means over channels. Knows no tensors.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "model/config.h"

namespace kvphase::model {

// One gate of a network: a KV head's key or value branch in a chunked layer.
struct GatePlace {
  std::int64_t layer = 0;
  std::int64_t head = 0;
  bool of_values = false;
  std::int64_t window = 0;                    // W
  std::int64_t channels = 1;                  // E
  std::vector<std::int64_t> phase_of_offset;  // [W], of the token there

  // Sums that measure_gate reads: by channel and offset of alpha, of the channels' mean
  // exp(H(alpha)), and the number of windows.
  std::int64_t sums() const { return channels * window + 2; }
};

std::string name_of(const GatePlace& gate);  // "layer 1 head 0 key"

// exp of the Shannon entropy of weights that are >= 0 and sum to `total` > 0.
double effective_offsets(std::span<const double> weights, double total);

struct GateMeasures {
  double fixed = 0;  // static effective offsets
  double per_window = 0;
  std::vector<double> profile;  // [W]
};

// Empty for no windows.
std::optional<GateMeasures> measure_gate(const GatePlace& gate, std::span<const double> sums);

// Why a network of this configuration has no gates; empty: it has.
std::string why_no_gates(const ModelConfig& config);

}  // namespace kvphase::model
