#include "compress/gated_pool.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/random.h"

namespace kvphase::compress {
namespace {

using torch::Tensor;

Tensor normal(base::Random& random, torch::IntArrayRef shape) {
  Tensor result = torch::empty(shape, torch::kDouble);
  for (std::int64_t i = 0; i < result.numel(); ++i) result.data_ptr<double>()[i] = random.normal();
  return result;
}

struct Case {
  GatedPoolOptions options;
  kernels::ChunkGrid grid;
  std::string text;
};

Case random_case(base::Random& random, std::int64_t gate_width) {
  const auto index = [&](std::int64_t bound) {
    return static_cast<std::int64_t>(random.uniform_index(static_cast<std::uint64_t>(bound)));
  };
  const std::int64_t window = 1 + index(6), stride = 1 + index(window), heads = 1 + index(3);
  std::vector<std::int64_t> shifts;
  for (std::int64_t head = 0; head < heads; ++head) shifts.push_back(index(stride));
  Case result;
  result.options = {.width = 5,
                    .kv_heads = heads,
                    .head_width = 4,
                    .window = window,
                    .stride = stride,
                    .gate_width = gate_width,
                    .gate_maps = index(2) == 0 ? 1 : window,
                    .gate_bias = index(2) == 0};
  result.grid = kernels::make_chunk_grid(window, stride, shifts);
  result.text = fmt::format("W {} S {} shifts {}", window, stride, fmt::join(shifts, " "));
  return result;
}

void randomise(GatedPool& pool, base::Random& random) {
  pool.to(torch::kDouble);
  torch::NoGradGuard no_grad;
  for (Tensor& parameter : pool.parameters()) parameter.copy_(normal(random, parameter.sizes()));
}

std::vector<Tensor> project(const GatedPool& pool, const Tensor& inputs) {
  std::vector<Tensor> products;
  for (const Tensor& matrix : pool.projections()) products.push_back(torch::linear(inputs, matrix));
  return products;
}

TEST(GatedPool, GateWeightsSumToOneAndSkipWhatPrecedesTheSequence) {
  torch::NoGradGuard no_grad;
  base::Random random(1);
  for (int trial = 0; trial < 40; ++trial) {
    const Case c = random_case(random, trial % 2 == 0 ? 1 : 4);
    GatedPool pool(c.options);
    randomise(pool, random);
    const Tensor inputs = normal(random, {2, 13, 5});
    for (const bool of_values : {false, true}) {
      const Tensor weights = pool.weights(inputs, c.grid, of_values);  // [B, M, G, W, E]
      const double error = (weights.sum(3) - 1).abs().max().item<double>();
      ASSERT_LT(error, 1e-14) << c.text;
      ASSERT_GE(weights.min().item<double>(), 0) << c.text;
      for (std::size_t head = 0; head < c.grid.first_end.size(); ++head) {
        for (std::int64_t entry = 0; entry < c.grid.completed(head, 13); ++entry) {
          const std::int64_t first = c.grid.end(head, entry) - c.grid.window + 1;
          const Tensor own = weights.select(1, entry).select(1, static_cast<std::int64_t>(head));
          for (std::int64_t i = 0; i < c.grid.window; ++i) {
            ASSERT_EQ((own.select(1, i) > 0).all().item<bool>(), first + i >= 0)
                << c.text << ", entry " << entry << ", offset " << i;
          }
        }
      }
    }
  }
}

TEST(GatedPool, UniformGatesAreTheMeanOfTheWindowsTokens) {
  torch::NoGradGuard no_grad;
  base::Random random(2);
  for (int trial = 0; trial < 40; ++trial) {
    const Case c = random_case(random, 0);
    GatedPool pool(c.options);
    EXPECT_TRUE(pool.parameters().empty());
    const std::int64_t heads = c.options.kv_heads;
    const Tensor keys = normal(random, {2, 13, heads, 4}),
                 values = normal(random, {2, 13, heads, 4});
    const Entries entries = pool.compress({}, {}, keys, values, c.grid);
    for (std::int64_t head = 0; head < heads; ++head) {
      const auto h = static_cast<std::size_t>(head);
      for (std::int64_t entry = 0; entry < c.grid.completed(h, 13); ++entry) {
        const std::int64_t begin = c.grid.begin(h, entry), end = c.grid.end(h, entry);
        for (const auto& [got, tokens] :
             {std::pair(entries.keys, keys), {entries.values, values}}) {
          const Tensor mean = tokens.narrow(1, begin, end + 1 - begin).mean(1).select(1, head);
          const Tensor own = got.select(1, entry).select(1, head);
          ASSERT_LT((own - mean).abs().max().item<double>(), 1e-14)
              << c.text << ", head " << head << ", entry " << entry << " of tokens " << begin
              << ".." << end;
        }
      }
    }
  }
}

// Without a bias and with maps of zero, every softmax gate is the mean too.
TEST(GatedPool, GatesWithoutPreferenceAreUniform) {
  torch::NoGradGuard no_grad;
  base::Random random(3);
  for (int trial = 0; trial < 20; ++trial) {
    const Case c = random_case(random, trial % 2 == 0 ? 1 : 4);
    GatedPool gated(c.options);
    gated.to(torch::kDouble);  // parameters start at zero
    GatedPoolOptions uniform_options = c.options;
    uniform_options.gate_width = 0;
    const GatedPool uniform(uniform_options);
    const Tensor inputs = normal(random, {2, 11, 5});
    const Tensor keys = normal(random, {2, 11, c.options.kv_heads, 4});
    const Tensor got = gated.compress(inputs, project(gated, inputs), keys, keys, c.grid).keys;
    const Tensor expected = uniform.compress({}, {}, keys, keys, c.grid).keys;
    for (std::size_t head = 0; head < c.grid.first_end.size(); ++head) {
      const auto h = static_cast<std::int64_t>(head);
      const std::int64_t count = c.grid.completed(head, 11);
      const Tensor gap = (got - expected).select(2, h).narrow(1, 0, count).abs();
      ASSERT_TRUE(count == 0 || gap.max().item<double>() < 1e-14) << c.text;
    }
  }
}

// Entries and gradients against windows taken slot by slot.
TEST(GatedPool, MapsOfTheirOwnAreAppliedWhereTheirOffsetsAre) {
  base::Random random(4);
  int apart = 0;
  for (int trial = 0; trial < 60; ++trial) {
    Case c = random_case(random, trial % 3 == 0 ? 0 : trial % 3 == 1 ? 1 : 4);
    c.options.payload_maps = trial % 2 == 0 ? c.options.window : 1;
    GatedPool pool(c.options);
    randomise(pool, random);
    const std::int64_t window = c.options.window, heads = c.options.kv_heads;
    const std::int64_t tokens = window + static_cast<std::int64_t>(random.uniform_index(12));
    if (c.grid.completed(tokens) == 0) continue;
    const Tensor inputs = normal(random, {2, tokens, 5}).requires_grad_();
    const Tensor exact = normal(random, {2, tokens, heads, 4});
    const Entries got = pool.compress(inputs, project(pool, inputs), exact, exact, c.grid);
    std::int64_t projected = 0;
    for (const Tensor& matrix : pool.projections()) projected += matrix.size(0);
    std::int64_t all = 0;
    for (const Tensor& parameter : pool.parameters()) {
      if (parameter.size(-1) == 5) all += parameter.size(0);
    }
    if (projected < all) ++apart;
    // Slot by slot, from the parameters themselves.
    const auto own = [&](const std::string& what, std::int64_t maps, std::int64_t offset,
                         std::int64_t head, std::int64_t size) {
      const std::int64_t map = maps == 1 ? 0 : offset;
      return pool.named_parameters()[what + ".weight"].narrow(0, (map * heads + head) * size, size);
    };
    Tensor difference = torch::zeros({}, torch::kDouble), sum_got = difference,
           sum_slow = difference;
    for (const auto& [name, entries] : {std::pair("k", got.keys), {"v", got.values}}) {
      const std::string branch = name;
      for (std::int64_t head = 0; head < heads; ++head) {
        const auto h = static_cast<std::size_t>(head);
        for (std::int64_t entry = 0; entry < c.grid.completed(h, tokens); ++entry) {
          std::vector<Tensor> logits, payloads;
          for (std::int64_t t = c.grid.begin(h, entry); t <= c.grid.end(h, entry); ++t) {
            const std::int64_t offset = window - 1 - (c.grid.end(h, entry) - t);
            const Tensor x = inputs.select(1, t);
            Tensor logit = torch::zeros({2, 1}, torch::kDouble);
            if (const std::int64_t size = c.options.gate_width; size > 0) {
              logit =
                  torch::linear(x, own(branch + "_gate", c.options.gate_maps, offset, head, size));
              if (c.options.gate_bias) {
                logit = logit + pool.named_parameters()[branch + "_gate.bias"][offset].narrow(
                                    0, head * size, size);
              }
            }
            logits.push_back(logit);
            payloads.push_back(torch::linear(
                x, own(branch + "_payload", c.options.payload_maps, offset, head, 4)));
          }
          const Tensor weights = torch::softmax(torch::stack(logits), 0);
          const Tensor slow = (weights * torch::stack(payloads)).sum(0);
          const Tensor fast = entries.select(1, entry).select(1, head);
          difference = torch::maximum(difference, (slow - fast).abs().max());
          sum_got = sum_got + fast.tanh().sum();
          sum_slow = sum_slow + slow.tanh().sum();
        }
      }
    }
    ASSERT_LT(difference.item<double>(), 1e-12) << c.text;
    std::vector<Tensor> leaves = pool.parameters();
    leaves.push_back(inputs);
    const auto fast = torch::autograd::grad({sum_got}, leaves, {}, true, false, true);
    const auto slow = torch::autograd::grad({sum_slow}, leaves, {}, true, false, true);
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      ASSERT_EQ(fast[i].defined(), slow[i].defined()) << c.text;
      if (fast[i].defined()) {
        ASSERT_LT((fast[i] - slow[i]).abs().max().item<double>(), 1e-11)
            << c.text << ", leaf " << i;
      }
    }
  }
  EXPECT_GT(apart, 15) << "trials with maps of their own that are not applied to all tokens";
}

}  // namespace
}  // namespace kvphase::compress
