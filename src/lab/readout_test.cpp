#include "lab/readout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "base/random.h"
#include "lab/attention_weights.h"
#include "lab/test_support.h"
#include "model/test_support.h"

namespace kvphase::lab {
namespace {

using model::testing::random_config;
using model::testing::random_model;
using model::testing::random_tokens;
using ::testing::HasSubstr;
using torch::Tensor;

constexpr std::int64_t kBatch = 2, kLength = 15;

// A random model after its last token, looked into.
struct Case {
  Opened opened;
  model::Look look;
  std::vector<Tensor> inputs;  // [B, T, C] per layer
  std::string text;
};

Case random_case(const model::ModelConfig& config, int trial, base::Random& random,
                 const std::function<void(model::Transformer&)>& change = {}) {
  Case c{.opened = {.network = random_model(config, static_cast<std::uint64_t>(trial))},
         .text = fmt::format("trial {}: {}", trial, model::to_json(config).dump())};
  const torch::NoGradGuard no_grad;
  if (change) change(*c.opened.network);
  const Tensor tokens = random_tokens(config, kBatch, kLength, random);
  model::DecodeState state = c.opened.network->start(kBatch);
  c.opened.network->prefill(tokens.narrow(1, 0, kLength - 1), state, &c.inputs);
  c.look = look_into(*c.opened.network);
  c.opened.network->decode(tokens.narrow(1, kLength - 1, 1), state, &c.look);
  for (std::size_t layer = 0; layer < c.inputs.size(); ++layer) {
    c.inputs[layer] = torch::cat({c.inputs[layer], c.look.layers[layer].inputs}, 1);
  }
  return c;
}

TEST(Readout, AttentionWeightsSumToOneAndWeighTheValuesToTheOutputsThatWereComputed) {
  base::Random random(1);
  for (int trial = 0; trial < 60; ++trial) {
    const Case c = random_case(random_config(random), trial, random);
    for (const model::LayerLook& layer : c.look.layers) {
      const kernels::Attention& a = layer.attention;
      const Weights w = attention_weights(a);
      const Tensor total = w.exact.sum(-1) + w.entries.sum(-1) + w.sink;
      ASSERT_LT((total - 1).abs().max().item<double>(), 1e-12) << c.text;
      const std::int64_t group = a.queries.size(2) / a.keys.size(2);
      Tensor output =
          torch::einsum("bht,bthd->bhd", {w.exact, a.values.repeat_interleave(group, 2)});
      if (w.entries.size(-1) > 0) {
        output = output + torch::einsum("bhm,bmhd->bhd",
                                        {w.entries, a.entry_values.repeat_interleave(group, 2)});
      }
      const Tensor difference = (output - layer.outputs.select(1, 0)).abs();
      ASSERT_LT(difference.max().item<double>(), 1e-10) << c.text;
    }
  }
}

// With a bias that leaves one offset of every window, the written value is that token's alone.
TEST(Readout, AnEntryWhoseGateKeepsTheTokenAloneHoldsTheTokenAlone) {
  base::Random random(2);
  std::int64_t compared = 0;
  for (int trial = 0; trial < 120; ++trial) {
    model::ModelConfig config = random_config(random);
    if (config.chunk.gate == model::GateKind::kUniform || !config.chunk.gate_bias) continue;
    const auto layer = static_cast<std::size_t>(config.layers - 1);  // chunked
    const std::int64_t offset = config.chunk.window - 1;
    const Case c = random_case(config, trial, random, [&](model::Transformer& network) {
      for (auto& item : network.named_parameters()) {
        if (item.key().find("_gate.bias") != std::string::npos) item.value()[offset].fill_(1e5);
      }
    });
    // A token that every head keeps: the grids of staggered heads differ, so one head is asked.
    const kernels::ChunkGrid& grid = c.opened.network->attention(config.layers - 1).grid();
    const std::int64_t last = grid.completed(0, kLength) - 1;
    const std::vector<std::int64_t> position(kBatch, grid.end(0, last));
    std::optional<Held> found;
    try {
      found = held(c.opened, config.layers - 1, c.inputs[layer], c.look.layers[layer].attention,
                   position);
    } catch (const base::Error&) {  // in no complete window of another head
      continue;
    }
    const Tensor gap = (found->as_written.select(1, 0) - found->alone.select(1, 0)).abs();
    ASSERT_LT(gap.max().item<double>(), 1e-9) << c.text;
    ASSERT_EQ(found->entry[0][0].item<std::int64_t>(), last) << c.text;
    ++compared;
  }
  EXPECT_GT(compared, 20);
}

ReadoutOptions options_for(const std::filesystem::path& checkpoint) {
  ReadoutOptions options;
  options.lookup = lookup_of(checkpoint, 24);
  options.stride = 4;
  options.calibration = 96;
  options.replicates = 100;
  return options;
}

double share(const record::Findings& f, const char* name) {
  for (const base::Json& s : f.data.at("phases").back().at("shares")) {
    if (s.at("name") == name) return s.at("value").get<double>();
  }
  return -1;
}

TEST(Readout, InFullAttentionNothingIsUnwrittenAndAHandedTokenDecidesTheAnswer) {
  const ReadoutOptions options = options_for(lab::model("full-attention"));
  record::RunContext context;
  const ReadoutAnswers a = run_readout(lab::model("full-attention"), options, context);
  const auto& entry = a.right[static_cast<std::size_t>(Handed::kEntry)];
  EXPECT_EQ(entry, a.right[static_cast<std::size_t>(Handed::kToken)]);
  const record::Findings f = readout_findings(a, options, context);
  EXPECT_EQ(f.data.at("phases").back().at("not_written"), 0);
  // Made right everywhere, nothing has a cause.
  ReadoutAnswers all_right = a;
  auto& clean = all_right.right[static_cast<std::size_t>(Handed::kNothing)];
  std::ranges::fill(clean, 1);
  const record::Findings none = readout_findings(all_right, options, context);
  ASSERT_EQ(none.figures.size(), 1U);
  EXPECT_EQ(none.figures.front().id, "attention");
  EXPECT_GT(share(f, "stays right, token handed"), 0.8) << f.sentence;
  EXPECT_GT(share(f, "other record's answer, its token"), 0.7) << f.sentence;
}

TEST(Readout, TheCausesOfAChunkedModelsWrongAnswersAddUpAtEveryPhase) {
  const ReadoutOptions options = options_for(lab::model("chunked-w4s4"));
  record::RunContext context;
  const ReadoutAnswers a = run_readout(lab::model("chunked-w4s4"), options, context);
  const record::Findings f = readout_findings(a, options, context);
  double wrong = 0;
  for (const base::Json& phase : f.data.at("phases")) {
    EXPECT_EQ(phase.at("wrong").get<double>(), phase.at("not_found").get<double>() +
                                                   phase.at("not_written").get<double>() +
                                                   phase.at("not_read_out").get<double>())
        << phase;
    wrong = phase.at("wrong").get<double>();
  }
  EXPECT_GT(wrong, 10) << "a model without wrong answers compares nothing";
  EXPECT_GT(share(f, "other record's answer, its token"), 0.5) << f.sentence;
  for (const Shares& s : a.shares) {
    for (std::size_t i = 0; i < s.sink.size(); ++i) {
      ASSERT_NEAR(s.answer_entries[i] + s.other_entries[i] + s.exact[i] + s.sink[i], 1, 1e-5);
    }
  }
}

// Two phases: at 0 everything is right and survives, at 1 half is wrong and of the right ones a
// quarter survives.
TEST(Readout, NotWrittenIsAtMostWhereRightAnswersDoNotSurviveTheEntryAtTheWrongPhases) {
  constexpr std::int64_t kItems = 80;
  ReadoutAnswers a{.items = kItems,
                   .modulus = 4,
                   .readers = {{.heads = 1, .name = "layer 1"}},
                   .reader_of_phase = {0, 0},
                   .calibrated = {{1, 1}}};
  for (auto& right : a.right) right.assign(4 * kItems, 0);
  const auto at = [&](Handed handed) -> auto& { return a.right[static_cast<std::size_t>(handed)]; };
  at(Handed::kToken).assign(4 * kItems, 1);
  for (std::size_t i = 0; i < at(Handed::kNothing).size(); ++i) {
    const std::size_t item = i / 4;
    const bool strong = i % 2 == 0;
    at(Handed::kNothing)[i] = strong || item % 2 == 0;
    at(Handed::kEntry)[i] = strong || item % 8 == 0;
  }
  ReadoutOptions options;
  options.stride = 2;
  options.replicates = 200;
  const record::Findings f = readout_findings(a, options, {});
  EXPECT_NEAR(share(f, "stays right, entry handed"), 0.75, 1e-9) << "all phases together hide it";
  const base::Json& survives = f.data.at("stays_right_where_wrong");
  EXPECT_NEAR(survives.at("value").get<double>(), 0.25, 1e-9) << f.data.dump();
  EXPECT_LT(survives.at("low").get<double>(), 0.25);
  EXPECT_EQ(f.data.at("not_written_is_an_upper_bound"), true);
  EXPECT_THAT(f.sentence, HasSubstr("at most 100.0% not written"));
  EXPECT_THAT(f.sentence, HasSubstr("25.0% survive being handed the entry at the phases"));
  // One head's own entry does what all heads' together do not.
  at(Handed::kAnyEntry) = at(Handed::kNothing);
  const record::Findings single = readout_findings(a, options, {});
  EXPECT_EQ(single.data.at("stays_right_where_wrong").at("value"), 1.0);
  EXPECT_THAT(single.sentence, HasSubstr(", 100.0% not written"));
  for (std::size_t i = 1; i < at(Handed::kAnyEntry).size(); i += 2) at(Handed::kAnyEntry)[i] = 1;
  EXPECT_EQ(readout_findings(a, options, {}).data.at("phases").back().at("not_written"), 0);
}

}  // namespace
}  // namespace kvphase::lab
