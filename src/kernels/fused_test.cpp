// The fused kernels against the plain compositions, forward and gradient, in double; and once in
// float, where the fused ones have an exponential of their own.
#include "kernels/fused.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>

#include "base/random.h"
#include "kernels/dispatch.h"
#include "kernels/rms_norm.h"
#include "kernels/swiglu.h"

namespace kvphase::kernels {
namespace {

using torch::Tensor;
using Inputs = std::vector<Tensor>;

class Draw {
 public:
  explicit Draw(std::uint64_t seed) : random_(seed) {}

  Tensor normal(torch::IntArrayRef shape) {
    Tensor result = torch::empty(shape, torch::kDouble);
    for (std::int64_t i = 0; i < result.numel(); ++i) {
      result.data_ptr<double>()[i] = random_.normal();
    }
    return result;
  }
  std::int64_t index(std::int64_t bound) {
    return static_cast<std::int64_t>(random_.uniform_index(static_cast<std::uint64_t>(bound)));
  }
  bool coin() { return index(2) == 1; }

 private:
  base::Random random_;
};

// Runs both on copies of the inputs (undefined ones stay so), and compares values and gradients
// under a random downstream gradient.
void expect_equal(const std::function<Tensor(const Inputs&)>& fused,
                  const std::function<Tensor(const Inputs&)>& plain, const Inputs& inputs,
                  torch::ScalarType type, double tolerance, const std::string& what) {
  const auto copies = [&] {
    Inputs copy;
    for (const Tensor& input : inputs) {
      copy.push_back(input.defined() ? input.to(type).clone().requires_grad_(true) : input);
    }
    return copy;
  };
  const Inputs left = copies(), right = copies();
  const Tensor got = fused(left), expected = plain(right);
  ASSERT_EQ(got.sizes(), expected.sizes()) << what;
  Draw draw(99);
  const Tensor direction = draw.normal(got.sizes()).to(type);
  const auto compare = [&](const Tensor& a, const Tensor& b, const std::string& name) {
    const double gap = (a - b).abs().max().item<double>();
    const double size = b.abs().max().item<double>();
    ASSERT_TRUE(gap <= tolerance * (1 + size))
        << name << " differs by " << gap << " of " << size << ", " << what;
  };
  compare(got, expected, "the output");
  got.backward(direction);
  expected.backward(direction);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].defined()) continue;
    ASSERT_TRUE(left[i].grad().defined() || !right[i].grad().defined()) << i << " " << what;
    if (!right[i].grad().defined()) continue;
    compare(left[i].grad(), right[i].grad(), "gradient " + std::to_string(i));
  }
}

void in_both_types(const std::function<Tensor(const Inputs&)>& fused,
                   const std::function<Tensor(const Inputs&)>& plain, const Inputs& inputs,
                   const std::string& what) {
  expect_equal(fused, plain, inputs, torch::kDouble, 1e-12, what + " in double");
  expect_equal(fused, plain, inputs, torch::kFloat, 2e-5, what + " in float");
}

TEST(Fused, NormAndRopeEqualThePlainComposition) {
  Draw draw(1);
  for (const std::int64_t width : {4, 6, 16, 32, 64}) {
    for (const std::int64_t dims : {std::int64_t{0}, std::int64_t{2}, width / 4 * 4}) {
      for (const bool norm : {false, true}) {
        const Inputs inputs = {draw.normal({3, 5, 2, width}),
                               norm ? draw.normal({width}) : Tensor()};
        for (const bool per_head : {false, true}) {
          const auto table = [&](const Tensor& x) {
            const RopeTable all = rope_table(10, dims, 100, x.options().requires_grad(false));
            if (!per_head) return all.at(torch::tensor({7, 0, 2, 2, 9})).per_head();
            return all.at(torch::arange(10).view({5, 2}));
          };
          in_both_types(
              [&](const Inputs& in) { return fused_norm_rope(in[0], in[1], 1e-6, table(in[0])); },
              [&](const Inputs& in) { return norm_rope_plain(in[0], in[1], 1e-6, table(in[0])); },
              inputs, fmt::format("D {} r {}", width, dims));
        }
      }
    }
  }
}

TEST(Fused, SwiGluEqualsThePlainComposition) {
  Draw draw(2);
  const Inputs inputs = {draw.normal({3, 7, 10}) * 4};
  in_both_types([](const Inputs& in) { return fused_swiglu(in[0]); },
                [](const Inputs& in) { return swiglu_plain(in[0]); }, inputs, "swiglu");
}

ChunkGrid random_grid(Draw& draw, std::int64_t heads) {
  const std::int64_t window = 1 + draw.index(6), stride = 1 + draw.index(window);
  std::vector<std::int64_t> shifts;
  for (std::int64_t head = 0; head < heads; ++head) shifts.push_back(draw.index(stride));
  return make_chunk_grid(window, stride, shifts);
}

std::string describe(const ChunkGrid& grid) {
  return fmt::format("W {} S {} first ends {}", grid.window, grid.stride,
                     fmt::join(grid.first_end, " "));
}

// Entries that no query sees are meaningless: blank them.
Tensor meaningful(const Tensor& entries, const ChunkGrid& grid, std::int64_t tokens) {
  Tensor mask = torch::zeros({1, entries.size(1), entries.size(2), 1}, entries.options());
  for (std::size_t head = 0; head < grid.first_end.size(); ++head) {
    for (std::int64_t entry = 0; entry < grid.completed(head, tokens); ++entry) {
      mask[0][entry][static_cast<std::int64_t>(head)][0] = 1;
    }
  }
  return entries * mask;
}

TEST(Fused, PoolingEqualsThePlainComposition) {
  Draw draw(3);
  for (int trial = 0; trial < 60; ++trial) {
    const std::int64_t heads = 1 + draw.index(3), width = 4, tokens = 6 + draw.index(12);
    const ChunkGrid grid = random_grid(draw, heads);
    const std::int64_t per_stride = (grid.window + grid.stride - 1) / grid.stride;
    const std::int64_t maps[] = {1, per_stride, grid.window};
    const std::int64_t gate_width = draw.coin() ? 1 : width;
    const bool gated = draw.index(4) > 0, bias = gated && draw.coin();
    const Inputs inputs = {
        gated ? draw.normal({2, tokens, maps[draw.index(3)], heads, gate_width}) * 2 : Tensor(),
        bias ? draw.normal({grid.window, heads, gate_width}) : Tensor(),
        draw.normal({2, tokens, maps[draw.index(3)], heads, width})};
    in_both_types(
        [&](const Inputs& in) {
          return meaningful(fused_pool_chunks({in[0], in[1]}, in[2], grid), grid, tokens);
        },
        [&](const Inputs& in) {
          return meaningful(pool_chunks_plain({in[0], in[1]}, in[2], grid), grid, tokens);
        },
        inputs, fmt::format("{} T {}", describe(grid), tokens));
  }
}

TEST(Fused, AttentionEqualsThePlainComposition) {
  Draw draw(4);
  for (int trial = 0; trial < 80; ++trial) {
    const std::int64_t groups = 1 + draw.index(3), heads = groups * (1 + draw.index(2));
    const std::int64_t widths[] = {4, 6, 16, 32}, width = widths[draw.index(4)];
    const std::int64_t tokens = 1 + draw.index(16), queries = 1 + draw.index(5);
    const bool chunked = draw.coin();
    const ChunkGrid grid = chunked ? random_grid(draw, groups) : ChunkGrid{};
    const std::int64_t entries = chunked ? grid.completed(tokens) : 0;
    Tensor rows = torch::empty({2, queries}, torch::kLong);
    for (std::int64_t i = 0; i < rows.numel(); ++i) {
      rows.data_ptr<std::int64_t>()[i] = draw.index(tokens);
    }
    Recent recent;
    if (chunked && draw.coin()) {
      recent.tail = true;
    } else if (draw.coin()) {
      recent.window = 1 + draw.index(6);
    }
    const Inputs inputs = {draw.normal({2, queries, heads, width}) * 2,
                           draw.normal({2, tokens, groups, width}),
                           draw.normal({2, tokens, groups, width}),
                           entries > 0 ? draw.normal({2, entries, groups, width}) : Tensor(),
                           entries > 0 ? draw.normal({2, entries, groups, width}) : Tensor(),
                           draw.coin() ? draw.normal({heads}) : Tensor()};
    const auto attention = [&](const Inputs& in) {
      return Attention{.queries = in[0],
                       .rows = rows,
                       .keys = in[1],
                       .values = in[2],
                       .entry_keys = in[3],
                       .entry_values = in[4],
                       .sinks = in[5],
                       .grid = grid,
                       .recent = recent};
    };
    in_both_types(
        [&](const Inputs& in) { return fused_attend(attention(in)); },
        [&](const Inputs& in) { return attend_plain(attention(in)); }, inputs,
        fmt::format("{} T {} tail {} N {}", describe(grid), tokens, recent.tail, recent.window));
  }
}

// T x T scores of this sequence would take 40 GB.
TEST(Attention, TheLocalWindowNeedsNoMemoryForEveryPairOfTokens) {
  torch::NoGradGuard no_grad;
  Draw draw(7);
  const std::int64_t tokens = 100000;
  const Tensor x = draw.normal({1, tokens, 1, 2}).to(torch::kFloat);
  const Attention attention{.queries = x,
                            .rows = torch::arange(tokens).view({1, tokens}),
                            .keys = x,
                            .values = x,
                            .recent = {.window = 3}};
  const Tensor fused = fused_attend(attention), plain = attend_plain(attention);
  EXPECT_LT((fused - plain).abs().max().item<float>(), 1e-5);
}

TEST(Fused, GradientsOfGradientsAreRefusedAndLeftToThePlainKernels) {
  Draw draw(5);
  const auto second_order = [&] {
    Tensor x = draw.normal({2, 3, 8}).requires_grad_(true);
    const Tensor weight = torch::ones({8}, torch::kDouble);
    const Tensor first =
        torch::autograd::grad({rms_norm(x, weight, 1e-6).pow(3).sum()}, {x}, {}, true, true)[0];
    first.pow(2).sum().backward();
    return x.grad().abs().sum().item<double>();
  };
  EXPECT_THROW(second_order(), c10::Error);
  const PlainKernels plain;
  EXPECT_GT(second_order(), 0);
}

TEST(Fused, ResultsDoNotDependOnTheNumberOfThreads) {
  Draw draw(6);
  const Tensor x = draw.normal({600, 4, 64}).to(torch::kFloat);
  const Tensor weight = draw.normal({64}).to(torch::kFloat);
  const auto gradient = [&] {
    Tensor own = weight.clone().requires_grad_(true);
    fused_norm_rope(x, own, 1e-6, {}).pow(2).sum().backward();
    return own.grad();
  };
  const int before = at::get_num_threads();
  at::set_num_threads(1);
  const Tensor one = gradient();
  at::set_num_threads(2);
  EXPECT_TRUE(torch::equal(gradient(), one));
  at::set_num_threads(before);
}

}  // namespace
}  // namespace kvphase::kernels
