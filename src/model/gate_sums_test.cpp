#include "model/gate_sums.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "compress/gated_pool.h"
#include "model/test_support.h"

namespace kvphase::model {
namespace {

using torch::Tensor;

constexpr std::int64_t kBatch = 3, kLength = 23;

// Window by window and channel by channel, in doubles.
std::vector<double> naive_sums(const Transformer& network, const GatePlace& gate,
                               const Tensor& input, std::int64_t row) {
  const auto* pool =
      dynamic_cast<const compress::GatedPool*>(network.attention(gate.layer).compressor());
  const kernels::ChunkGrid& grid = network.attention(gate.layer).grid();
  const Tensor all = pool->weights(input, grid, gate.of_values);  // [B, M, G, W, E]
  std::vector<double> sums(static_cast<std::size_t>(gate.sums()));
  for (std::int64_t j = 0; grid.end(static_cast<std::size_t>(gate.head), j) < kLength; ++j) {
    if (grid.end(static_cast<std::size_t>(gate.head), j) < gate.window - 1) continue;  // cut
    double effective = 0;
    for (std::int64_t e = 0; e < gate.channels; ++e) {
      double entropy = 0;
      for (std::int64_t i = 0; i < gate.window; ++i) {
        const auto alpha = all.index({row, j, gate.head, i, e}).item<double>();
        if (alpha > 0) entropy -= alpha * std::log(alpha);
        sums[static_cast<std::size_t>(e * gate.window + i)] += alpha;
      }
      effective += std::exp(entropy) / static_cast<double>(gate.channels);
    }
    sums[sums.size() - 2] += effective;
    sums.back() += 1;
  }
  return sums;
}

TEST(GateSums, AreThoseOfLoopsOverWholeWindowsForEveryKindOfGate) {
  base::Random random(7);
  int compared = 0, without = 0;
  for (int trial = 0; trial < 40; ++trial) {
    const ModelConfig config = testing::random_config(random);
    const auto network = testing::random_model(config, static_cast<std::uint64_t>(trial));
    const std::vector<GatePlace> gates = gates_of(*network);
    EXPECT_EQ(gates.empty(), !why_no_gates(config).empty()) << to_json(config).dump();
    without += gates.empty() ? 1 : 0;
    DecodeState state = network->start(kBatch);
    std::vector<Tensor> inputs;
    network->prefill(testing::random_tokens(config, kBatch, kLength, random), state, &inputs);
    for (const GatePlace& gate : gates) {
      const Tensor sums = gate_sums(*network, gate, inputs);
      for (std::int64_t row = 0; row < kBatch; ++row) {
        const auto expected =
            naive_sums(*network, gate, inputs[static_cast<std::size_t>(gate.layer)], row);
        for (std::size_t k = 0; k < expected.size(); ++k) {
          const auto got = sums.index({row, static_cast<std::int64_t>(k)}).item<double>();
          ASSERT_NEAR(got, expected[k], 1e-9)
              << name_of(gate) << ", sequence " << row << ", sum " << k << "\n"
              << to_json(config).dump();
          ++compared;
        }
      }
    }
  }
  std::printf("compared %d sums; %d of 40 configurations have no gates\n", compared, without);
  EXPECT_GT(compared, 1000);
  EXPECT_GT(without, 0);
}

TEST(GateSums, OfATextShorterThanAWindowAreZero) {
  base::Random random(8);
  ModelConfig config = testing::random_config(random);
  while (!why_no_gates(config).empty() || config.chunk.window < 3) {
    config = testing::random_config(random);
  }
  const auto network = testing::random_model(config, 1);
  DecodeState state = network->start(1);
  std::vector<Tensor> inputs;
  network->prefill(testing::random_tokens(config, 1, config.chunk.window - 1, random), state,
                   &inputs);
  for (const GatePlace& gate : gates_of(*network)) {
    EXPECT_EQ(gate_sums(*network, gate, inputs).abs().sum().item<double>(), 0) << name_of(gate);
  }
}

}  // namespace
}  // namespace kvphase::model
