#include "model/look.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "model/test_support.h"

namespace kvphase::model {
namespace {

using testing::difference;
using testing::random_config;
using testing::random_model;
using testing::random_tokens;
using torch::Tensor;

constexpr std::int64_t kBatch = 3, kLength = 13;

struct Case {
  ModelConfig config;
  std::shared_ptr<Transformer> model;
  Tensor tokens;
  DecodeState before;  // all but the last token
  std::string text;

  Tensor last() const { return tokens.narrow(1, kLength - 1, 1); }
  Look look() const {
    return {.layers = std::vector<LayerLook>(static_cast<std::size_t>(config.layers))};
  }
  // Logits [B, V] of the last token and the state behind it.
  std::pair<Tensor, DecodeState> ask(Look* look) const {
    DecodeState state = before;
    const Tensor logits = model->decode(last(), state, look);
    return {logits.select(1, 0), state};
  }
};

Case random_case(int trial, base::Random& random) {
  Case c;
  c.config = random_config(random);
  c.model = random_model(c.config, static_cast<std::uint64_t>(trial));
  c.tokens = random_tokens(c.config, kBatch, kLength, random);
  c.before = c.model->start(kBatch);
  c.model->prefill(c.tokens.narrow(1, 0, kLength - 1), c.before);
  c.text = fmt::format("trial {}: {}", trial, to_json(c.config).dump());
  return c;
}

std::vector<Tensor> tensors_of(const DecodeState& state) {
  std::vector<Tensor> all;
  for (const compress::LayerCache& layer : state.layers) {
    for (const Tensor& t : layer.tensors()) all.push_back(t);
  }
  return all;
}

TEST(Look, APrefillLeavesTheStateThatDecodingLeavesAndItsNextLogitsAreTheFullForwards) {
  base::Random random(1);
  for (int trial = 0; trial < 30; ++trial) {
    const Case c = random_case(trial, random);
    DecodeState decoded = c.model->start(kBatch);
    c.model->decode(c.tokens.narrow(1, 0, kLength - 1), decoded);
    const std::vector<Tensor> got = tensors_of(c.before), expected = tensors_of(decoded);
    ASSERT_EQ(got.size(), expected.size()) << c.text;
    for (std::size_t i = 0; i < got.size(); ++i) {
      ASSERT_TRUE(torch::equal(got[i], expected[i])) << "tensor " << i << ", " << c.text;
    }
    torch::NoGradGuard no_grad;
    const Tensor full = c.model->forward(c.tokens).select(1, kLength - 1);
    ASSERT_EQ(difference(c.ask(nullptr).first, full, 1e-10), "") << c.text;
  }
}

TEST(Look, RecordingAndWritingBackWhatWasThereChangesNoBit) {
  base::Random random(2);
  for (int trial = 0; trial < 30; ++trial) {
    const Case c = random_case(trial, random);
    const Tensor clean = c.ask(nullptr).first;
    Look recorded = c.look();
    ASSERT_TRUE(torch::equal(c.ask(&recorded).first, clean)) << c.text;
    Look same = c.look();
    for (std::size_t layer = 0; layer < same.layers.size(); ++layer) {
      same.layers[layer].edits.push_back({.first_row = 0,
                                          .rows = kBatch,
                                          .first_head = 0,
                                          .heads = c.config.query_heads,
                                          .values = recorded.layers[layer].outputs});
    }
    ASSERT_TRUE(torch::equal(c.ask(&same).first, clean)) << c.text;
  }
}

// The law of a knockout: the named outputs become what was asked for; the other heads of that
// layer, every earlier layer, every other row and everything cached before stay as they were, bit
// by bit; and the next call without a look is the clean one again.
TEST(Look, AnEditChangesTheNamedOutputsAtTheNamedRowsAndPositionsAndNothingElse) {
  base::Random random(3);
  std::int64_t compared = 0;
  for (int trial = 0; trial < 40; ++trial) {
    const Case c = random_case(trial, random);
    const std::vector<Tensor> before = tensors_of(c.before);
    std::vector<Tensor> kept;
    for (const Tensor& t : before) kept.push_back(t.clone());
    Look clean = c.look();
    const Tensor clean_logits = c.ask(&clean).first;
    const std::int64_t group = c.config.query_heads / c.config.kv_heads;
    for (std::int64_t layer = 0; layer < c.config.layers; ++layer) {
      for (std::int64_t head = 0; head < c.config.kv_heads; ++head) {
        const auto l = static_cast<std::size_t>(layer);
        const std::int64_t row = 1;  // of 0..2
        const Tensor values = torch::full({1, 1, group, c.config.head_width}, 0.5, torch::kDouble);
        Look look = c.look();
        look.layers[l].edits.push_back({.first_row = row,
                                        .rows = 1,
                                        .first_head = head * group,
                                        .heads = group,
                                        .values = values});
        const auto [logits, state] = c.ask(&look);
        const std::string where = fmt::format("layer {}, head {}, {}", layer, head, c.text);

        for (std::int64_t other = 0; other < layer; ++other) {
          const auto o = static_cast<std::size_t>(other);
          ASSERT_TRUE(torch::equal(look.layers[o].outputs, clean.layers[o].outputs)) << where;
        }
        Tensor expected = clean.layers[l].outputs.clone();
        expected[row].narrow(1, head * group, group).fill_(0.5);
        ASSERT_TRUE(torch::equal(look.layers[l].outputs, expected)) << where;
        for (const std::int64_t other : {0, 2}) {
          ASSERT_TRUE(torch::equal(logits[other], clean_logits[other])) << where;
        }
        ASSERT_GT((logits[row] - clean_logits[row]).abs().max().item<double>(), 1e-9) << where;

        // What was cached before stays in place; the state behind it begins with it.
        for (std::size_t i = 0; i < kept.size(); ++i) {
          ASSERT_TRUE(torch::equal(before[i], kept[i])) << "tensor " << i << ", " << where;
        }
        for (std::size_t i = 0; i < state.layers.size(); ++i) {
          if (!state.layers[i].entry_keys.defined()) continue;
          for (std::int64_t g = 0; g < c.config.kv_heads; ++g) {
            const Tensor old = c.before.layers[i].entry_keys.head(g);
            const Tensor now = state.layers[i].entry_keys.head(g).narrow(1, 0, old.size(1));
            ASSERT_TRUE(torch::equal(now, old)) << where;
          }
        }
        ASSERT_TRUE(torch::equal(c.ask(nullptr).first, clean_logits)) << where;
        ++compared;
      }
    }
  }
  EXPECT_GT(compared, 80);
}

// An oracle that shares nothing with the edit: where only the last position asks in the last layer,
// a head whose output is zero there is a head whose columns of o_proj are zero.
TEST(Look, AZeroedHeadOfTheLastLayerIsAModelWithoutItsOutputColumns) {
  torch::NoGradGuard no_grad;
  base::Random random(4);
  for (int trial = 0; trial < 30; ++trial) {
    const Case c = random_case(trial, random);
    const std::int64_t head = static_cast<std::int64_t>(
        random.uniform_index(static_cast<std::uint64_t>(c.config.query_heads)));
    Look look = c.look();
    look.layers.back().edits.push_back(
        {.first_row = 0,
         .rows = kBatch,
         .first_head = head,
         .heads = 1,
         .values = torch::zeros({1, 1, 1, c.config.head_width}, torch::kDouble)});
    const Tensor got = c.ask(&look).first;
    const std::string name =
        fmt::format("model.layers.{}.self_attn.o_proj.weight", c.config.layers - 1);
    c.model->named_parameters()[name]
        .narrow(1, head * c.config.head_width, c.config.head_width)
        .zero_();
    const Tensor expected = c.model->forward(c.tokens).select(1, kLength - 1);
    ASSERT_EQ(difference(got, expected, 1e-10), "") << "head " << head << ", " << c.text;
  }
}

}  // namespace
}  // namespace kvphase::model
