#include "model/gate_measures.h"

#include <fmt/format.h>

#include <cmath>

namespace kvphase::model {

std::string name_of(const GatePlace& gate) {
  return fmt::format("layer {} head {} {}", gate.layer, gate.head,
                     gate.of_values ? "value" : "key");
}

double effective_offsets(std::span<const double> weights, double total) {
  double entropy = 0;
  for (const double weight : weights) {
    const double share = weight / total;
    if (share > 0) entropy -= share * std::log(share);
  }
  return std::exp(entropy);
}

std::optional<GateMeasures> measure_gate(const GatePlace& gate, std::span<const double> sums) {
  const auto W = static_cast<std::size_t>(gate.window);
  const auto E = static_cast<std::size_t>(gate.channels);
  const double windows = sums[E * W + 1];
  if (windows <= 0) return std::nullopt;
  const auto channels = static_cast<double>(E);
  GateMeasures measures{.per_window = sums[E * W] / windows, .profile = std::vector<double>(W)};
  for (std::size_t e = 0; e < E; ++e) {
    const auto channel = sums.subspan(e * W, W);
    measures.fixed += effective_offsets(channel, windows) / channels;
    for (std::size_t i = 0; i < W; ++i) measures.profile[i] += channel[i];
  }
  for (double& mass : measures.profile) {
    mass = mass / channels / windows * static_cast<double>(W);
  }
  return measures;
}

std::string why_no_gates(const ModelConfig& config) {
  if (!has_chunked_layer(config)) return "no layer is chunked, so there are no gates";
  if (config.chunk.gate == GateKind::kUniform) {
    return "its entries are plain means over their windows (uniform gates), so no gate chooses";
  }
  return "";
}

}  // namespace kvphase::model
