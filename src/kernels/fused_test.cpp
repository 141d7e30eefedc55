// The fused kernels against the plain compositions, forward and gradient, in double; and once in
// float, where the fused ones have an exponential of their own.
#include "kernels/fused.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <hwy/highway.h>

#include <functional>

#include "base/random.h"
#include "kernels/dispatch.h"
#include "kernels/linear.h"
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
// under a random downstream gradient. Tolerances are relative to the greatest number; a gradient's
// may be twice as large.
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
  const auto compare = [&](const Tensor& a, const Tensor& b, double allowed,
                           const std::string& name) {
    const double gap = (a - b).abs().max().item<double>();
    const double size = b.abs().max().item<double>();
    ASSERT_TRUE(gap <= allowed) << name << " differs by " << gap << " of " << size << ", " << what;
  };
  compare(got, expected, tolerance * expected.abs().max().item<double>(), "the output");
  got.backward(direction);
  expected.backward(direction);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].defined()) continue;
    ASSERT_TRUE(left[i].grad().defined() || !right[i].grad().defined()) << i << " " << what;
    if (!right[i].grad().defined()) continue;
    const double size = right[i].grad().abs().max().item<double>();
    compare(left[i].grad(), right[i].grad(), 2 * tolerance * (1 + size),
            fmt::format("gradient {}", i));
  }
}

void in_both_types(const std::function<Tensor(const Inputs&)>& fused,
                   const std::function<Tensor(const Inputs&)>& plain, const Inputs& inputs,
                   const std::string& what) {
  expect_equal(fused, plain, inputs, torch::kDouble, 1e-12, what + " in double");
  expect_equal(fused, plain, inputs, torch::kFloat, 1e-5, what + " in float");
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

// A random attention: some with queries enough for tiles (attend_tiles.h), some decoding a few.
struct AttentionCase {
  Inputs inputs;  // queries, keys, values, entry keys, entry values, sinks
  Attention settings;
  bool head_by_head = false;
  std::string what;

  Attention with(const Inputs& in) const {
    const auto laid_out = [&](const Tensor& keys) {  // as a cache may have them
      if (!head_by_head || !keys.defined()) return keys;
      return torch::constant_pad_nd(keys, {0, 0, 0, 0, 0, 3})
          .transpose(1, 2)
          .contiguous()
          .transpose(1, 2)
          .narrow(1, 0, keys.size(1));
    };
    Attention attention = settings;
    attention.queries = in[0];
    attention.keys = laid_out(in[1]);
    attention.values = in[2];
    attention.entry_keys = laid_out(in[3]);
    attention.entry_values = laid_out(in[4]);
    attention.sinks = in[5];
    return attention;
  }
};

AttentionCase random_attention(Draw& draw) {
  const bool many = draw.coin();
  const std::int64_t groups = 1 + draw.index(3), heads = groups * (1 + draw.index(4));
  const std::int64_t widths[] = {4, 6, 8, 16, 32, 48, 64, 128};
  const std::int64_t width = widths[many ? 2 + draw.index(6) : draw.index(5)];
  const std::int64_t tokens = 1 + draw.index(many ? 150 : 16), batch = 1 + draw.index(2);
  const std::int64_t queries = 1 + draw.index(many ? 80 : 5);
  const bool chunked = draw.coin();
  AttentionCase c;
  Recent& recent = c.settings.recent;
  if (chunked && draw.coin()) {
    recent.tail = true;
  } else if (draw.coin()) {
    recent.window = 1 + draw.index(draw.coin() ? 6 : 60);
  }
  // Tokens before the first are those that no query's window reaches.
  const bool later = !recent.tail && recent.window <= tokens && draw.coin();
  const std::int64_t first = later ? draw.index(4) : 0;
  const std::int64_t early = later ? recent.window - 1 : 0;
  c.head_by_head = draw.coin();
  c.settings.first = first;
  c.settings.grid = chunked ? random_grid(draw, groups) : ChunkGrid{};
  const std::int64_t entries = chunked ? c.settings.grid.completed(first + tokens) : 0;
  c.settings.rows = torch::empty({batch, queries}, torch::kLong);
  const bool in_order = draw.coin();
  for (std::int64_t i = 0; i < c.settings.rows.numel(); ++i) {
    c.settings.rows.data_ptr<std::int64_t>()[i] =
        first + early +
        (in_order ? i % queries * (tokens - early) / queries : draw.index(tokens - early));
  }
  c.inputs = {draw.normal({batch, queries, heads, width}) * 2,
              draw.normal({batch, tokens, groups, width}),
              draw.normal({batch, tokens, groups, width}),
              entries > 0 ? draw.normal({batch, entries, groups, width}) : Tensor(),
              entries > 0 ? draw.normal({batch, entries, groups, width}) : Tensor(),
              draw.coin() ? draw.normal({heads}) : Tensor()};
  c.what = fmt::format("{} B {} H {} G {} D {} first {} T {} Q {} tail {} N {}",
                       describe(c.settings.grid), batch, heads, groups, width, first, tokens,
                       queries, c.settings.recent.tail, c.settings.recent.window);
  return c;
}

void compare_attention(std::uint64_t seed, int trials, const std::string& what) {
  const int threads = at::get_num_threads();
  at::set_num_threads(1);  // small ones: threads only cost time
  Draw draw(seed);
  for (int trial = 0; trial < trials; ++trial) {
    const AttentionCase c = random_attention(draw);
    in_both_types([&](const Inputs& in) { return fused_attend(c.with(in)); },
                  [&](const Inputs& in) { return attend_plain(c.with(in)); }, c.inputs,
                  fmt::format("{}trial {}: {}", what, trial, c.what));
    if (testing::Test::HasFatalFailure()) break;
  }
  at::set_num_threads(threads);
}

TEST(Fused, AttentionEqualsThePlainCompositionInAThousandConfigurations) {
  compare_attention(4, 1000, "");
}

// The processor here would choose only one of them.
TEST(Fused, AttentionEqualsThePlainCompositionUnderEverySetOfInstructions) {
  const std::vector<std::int64_t> targets = hwy::SupportedAndGeneratedTargets();
  EXPECT_FALSE(targets.empty());
  for (const std::int64_t target : targets) {
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    compare_attention(5, 60, std::string(hwy::TargetName(target)) + ", ");
    const Tensor x = torch::randn({5, 37}), weight = torch::randn({11, 37});
    EXPECT_LT((kernels::linear(x, weight) - torch::matmul(x, weight.t())).abs().max().item<float>(),
              1e-4F)
        << hwy::TargetName(target);
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

// Large scores: what a streaming softmax that forgets to rescale, or overflows, would get wrong.
TEST(Fused, AttentionOfVeryLargeScoresEqualsThePlainComposition) {
  Draw draw(8);
  for (int trial = 0; trial < 20; ++trial) {
    AttentionCase c = random_attention(draw);
    c.inputs[0] = c.inputs[0] * 100;
    const std::function<Tensor(const Inputs&)> fused = [&](const Inputs& in) {
      return fused_attend(c.with(in));
    };
    expect_equal(
        fused, [&](const Inputs& in) { return attend_plain(c.with(in)); }, c.inputs, torch::kDouble,
        1e-11, c.what);
    if (HasFatalFailure()) return;
  }
}

// A decoding step: one query, so many keys that several parts of them are merged.
TEST(Fused, OneQueryOverManyKeysEqualsThePlainCompositionWhateverTheThreads) {
  const torch::NoGradGuard no_grad;
  Draw draw(9);
  const ChunkGrid grid = make_chunk_grid(4, 2, {0, 1});
  const std::int64_t tokens = 9000, entries = grid.completed(tokens);
  for (const bool all : {false, true}) {
    const Attention wide{.queries = draw.normal({2, 1, 6, 16}),
                         .rows = torch::full({2, 1}, tokens - 1, torch::kLong),
                         .keys = draw.normal({2, tokens, 2, 16}),
                         .values = draw.normal({2, tokens, 2, 16}),
                         .entry_keys = all ? Tensor() : draw.normal({2, entries, 2, 16}),
                         .entry_values = all ? Tensor() : draw.normal({2, entries, 2, 16}),
                         .sinks = draw.normal({6}),
                         .grid = all ? ChunkGrid{} : grid,
                         .recent = {.window = all ? Recent::kAll : 2500}};
    const Tensor plain = attend_plain(wide), fused = fused_attend(wide);
    EXPECT_LT((fused - plain).abs().max().item<double>(), 1e-13);
    const int threads = at::get_num_threads();
    at::set_num_threads(threads == 1 ? 2 : 1);
    EXPECT_TRUE(torch::equal(fused_attend(wide), fused));
    at::set_num_threads(threads);
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
  const Tensor tokens = draw.normal({1, 700, 1, 32}).to(torch::kFloat);
  const auto gradients = [&] {
    Inputs own = {weight.clone().requires_grad_(true), tokens.clone().requires_grad_(true)};
    fused_norm_rope(x, own[0], 1e-6, {}).pow(2).sum().backward();
    const Attention attention{.queries = own[1],  // several threads share its one KV head
                              .rows = torch::arange(700).view({1, 700}),
                              .keys = own[1],
                              .values = own[1]};
    fused_attend(attention).pow(2).sum().backward();
    return Inputs{own[0].grad(), own[1].grad()};
  };
  const int before = at::get_num_threads();
  at::set_num_threads(1);
  const Inputs one = gradients();
  at::set_num_threads(2);
  const Inputs two = gradients();
  EXPECT_TRUE(torch::equal(two[0], one[0]));
  EXPECT_TRUE(torch::equal(two[1], one[1]));
  at::set_num_threads(before);
}

}  // namespace
}  // namespace kvphase::kernels
