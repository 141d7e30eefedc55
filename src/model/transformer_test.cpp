#include "model/transformer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "base/error.h"
#include "kernels/dispatch.h"
#include "model/presets.h"
#include "model/test_support.h"

namespace kvphase::model {
namespace {

using testing::difference;
using testing::naive_logits;
using testing::random_config;
using testing::random_model;
using testing::random_tokens;

torch::Tensor naive(Transformer& model, const torch::Tensor& tokens) {
  std::vector<torch::Tensor> sequences;
  for (std::int64_t b = 0; b < tokens.size(0); ++b) {
    const torch::Tensor row = tokens[b].contiguous();
    const auto* data = row.data_ptr<std::int64_t>();
    std::vector<torch::Tensor> logits;
    for (const auto& one : naive_logits(model, {data, data + row.numel()})) {
      logits.push_back(torch::tensor(one, torch::kDouble));
    }
    sequences.push_back(torch::stack(logits));
  }
  return torch::stack(sequences);
}

std::string describe(const ModelConfig& config) { return to_json(config).dump(); }

// Payload matrices that the one chunked layer of a preset has.
int payload_matrices(const ModelConfig& config) {
  if (config.attention.back() != AttentionKind::kChunked) return 0;
  return config.chunk.tied_kv ? 1 : 2;
}

TEST(Transformer, EqualsNaiveLoopsOverRandomConfigurations) {
  torch::NoGradGuard no_grad;
  base::Random random(1);
  for (int trial = 0; trial < 150; ++trial) {
    const ModelConfig config = random_config(random);
    const auto model = random_model(config, static_cast<std::uint64_t>(trial));
    const auto length = 1 + static_cast<std::int64_t>(random.uniform_index(14));
    const torch::Tensor tokens = random_tokens(config, 2, length, random);
    const torch::Tensor expected = naive(*model, tokens);
    ASSERT_EQ(difference(model->forward(tokens), expected, 1e-11), "")
        << "T " << length << ", " << describe(config);
    const kernels::PlainKernels plain;
    ASSERT_EQ(difference(model->forward(tokens), expected, 1e-11), "")
        << "plain kernels, T " << length << ", " << describe(config);
  }
}

TEST(Transformer, EqualsNaiveLoopsAtEveryLengthAndGridOffset) {
  torch::NoGradGuard no_grad;
  base::Random random(2);
  for (const auto& [window, stride] : std::vector<std::pair<int, int>>{{3, 3}, {5, 2}, {4, 3}}) {
    ModelConfig config = random_config(random);
    config.layers = 1;
    config.attention = {AttentionKind::kChunked};
    config.kv_heads = config.query_heads = stride;  // staggered: one head for every grid offset
    config.chunk.grid = GridKind::kStaggered;
    config.chunk.window = window;
    config.chunk.stride = stride;
    for (const RecentKind recent : {RecentKind::kLocalWindow, RecentKind::kUncompressedTail}) {
      config.chunk.recent = recent;
      const auto model = random_model(config, 3);
      for (std::int64_t length = 1; length <= 3 * window + 1; ++length) {
        const torch::Tensor tokens = random_tokens(config, 1, length, random);
        ASSERT_EQ(difference(model->forward(tokens), naive(*model, tokens), 1e-11), "")
            << "T " << length << ", " << describe(config);
      }
    }
  }
}

TEST(Transformer, ComputesTheSameLogitsAtChosenRows) {
  torch::NoGradGuard no_grad;
  base::Random random(4);
  for (int trial = 0; trial < 20; ++trial) {
    const ModelConfig config = random_config(random);
    const auto model = random_model(config, static_cast<std::uint64_t>(trial));
    const torch::Tensor tokens = random_tokens(config, 3, 13, random);
    const torch::Tensor all = model->forward(tokens);
    const torch::Tensor shared = torch::tensor({12, 0, 5}, torch::kLong);
    EXPECT_EQ(difference(model->forward_at(tokens, shared), all.index_select(1, shared), 1e-12), "")
        << describe(config);
    const torch::Tensor own = torch::tensor({1, 2, 11, 12, 0, 0}, torch::kLong).view({3, 2});
    const torch::Tensor batch = torch::arange(3).view({3, 1});
    EXPECT_EQ(difference(model->forward_at(tokens, own), all.index({batch, own}), 1e-12), "")
        << describe(config);
  }
}

TEST(Transformer, NoTokenChangesAnOutputBeforeIt) {
  torch::NoGradGuard no_grad;
  base::Random random(5);
  for (int trial = 0; trial < 20; ++trial) {
    const ModelConfig config = random_config(random);
    const auto model = random_model(config, static_cast<std::uint64_t>(trial));
    const torch::Tensor tokens = random_tokens(config, 1, 12, random);
    const torch::Tensor before = model->forward(tokens);
    for (std::int64_t t = 0; t < 12; ++t) {
      torch::Tensor changed = tokens.clone();
      changed[0][t] = (tokens[0][t] + 1) % config.vocab_size;
      const torch::Tensor after = model->forward(changed);
      ASSERT_EQ(difference(after.narrow(1, 0, t), before.narrow(1, 0, t), 0), "")
          << "token " << t << ", " << describe(config);
      ASSERT_GT((after[0][t] - before[0][t]).abs().max().item<double>(), 1e-9) << "at " << t;
    }
  }
}

// One chunked layer and a local window of the query's own token: the output at t depends on token u
// exactly if u = t or a window that holds u is complete at t; also where the grids are shifted.
TEST(Transformer, AnEntryIsVisibleExactlyFromItsCompletionOn) {
  torch::NoGradGuard no_grad;
  base::Random random(6);
  for (int trial = 0; trial < 30; ++trial) {
    ModelConfig config = random_config(random);
    config.layers = 1;
    config.attention = {AttentionKind::kChunked};
    if (config.chunk.grid == GridKind::kStaggeredLayers) config.chunk.grid = GridKind::kAligned;
    config.chunk.recent = RecentKind::kLocalWindow;
    config.local_window = 1;
    const auto model = random_model(config, static_cast<std::uint64_t>(trial));
    const std::int64_t length = 14, window = config.chunk.window, stride = config.chunk.stride;
    const torch::Tensor tokens = random_tokens(config, 1, length, random);
    const std::int64_t later = trial % 3 == 0 ? 0 : trial % stride;
    model->shift_grids(later);
    const torch::Tensor before = model->forward(tokens);
    for (std::int64_t u = 0; u < length; ++u) {
      torch::Tensor changed = tokens.clone();
      changed[0][u] = (tokens[0][u] + 1) % config.vocab_size;
      const torch::Tensor gap = (model->forward(changed) - before).abs().amax({0, 2});
      for (std::int64_t t = 0; t < length; ++t) {
        bool expected = t == u;
        for (std::int64_t head = 0; head < config.kv_heads; ++head) {
          for (std::int64_t end = 0; end <= t; ++end) {
            const bool is_end =
                (end + 1 - window - grid_shift(config, 0, head) - later) % stride == 0;
            if (is_end && u <= end && u > end - window) expected = true;
          }
        }
        ASSERT_EQ(gap[t].item<double>() > 1e-9, expected)
            << "token " << u << ", query " << t << ", later " << later << ", gap "
            << gap[t].item<double>() << ", " << describe(config);
      }
    }
  }
}

// Windows of one token under a softmax over one slot, with the exact tokens' own projections as
// payload and no exact token beside the entries: every query attends to entries 0..t, which are the
// exact tokens 0..t.
TEST(Transformer, OneTokenWindowsAreFullAttention) {
  torch::NoGradGuard no_grad;
  base::Random random(7);
  for (const GateKind gate : {GateKind::kScalar, GateKind::kVector, GateKind::kUniform}) {
    for (const EntryPosition position : {EntryPosition::kWindowStart, EntryPosition::kWindowEnd}) {
      ModelConfig chunked = preset("small/chunked");
      chunked.attention = {AttentionKind::kChunked, AttentionKind::kChunked};
      chunked.chunk.window = chunked.chunk.stride = 1;
      chunked.chunk.gate = gate;
      chunked.chunk.gate_bias = gate != GateKind::kUniform;
      chunked.chunk.entry_position = position;
      chunked.chunk.recent = RecentKind::kUncompressedTail;
      ModelConfig full = chunked;
      full.attention = {AttentionKind::kFull, AttentionKind::kFull};
      const auto model = random_model(chunked, 8);
      Transformer control(full, 9);
      control.to(torch::kDouble);
      auto own = model->named_parameters();
      for (auto& item : control.named_parameters()) item.value().copy_(own[item.key()]);
      const torch::Tensor tokens = random_tokens(full, 2, 20, random);
      EXPECT_EQ(difference(model->forward(tokens), control.forward(tokens), 1e-12), "");
    }
  }
}

TEST(Transformer, SequencesOfABatchDoNotMeet) {
  torch::NoGradGuard no_grad;
  base::Random random(10);
  for (int trial = 0; trial < 20; ++trial) {
    const ModelConfig config = random_config(random);
    const auto model = random_model(config, static_cast<std::uint64_t>(trial));
    const torch::Tensor tokens = random_tokens(config, 4, 11, random);
    const torch::Tensor together = model->forward(tokens);
    for (std::int64_t b = 0; b < 4; ++b) {
      EXPECT_EQ(difference(together.narrow(0, b, 1), model->forward(tokens.narrow(0, b, 1)), 1e-12),
                "")
          << "sequence " << b << ", " << describe(config);
    }
  }
}

TEST(Transformer, DecodingEqualsTheFullForwardAtEverySplitAndHoldsTheBytesItSays) {
  base::Random random(11);
  for (int trial = 0; trial < 40; ++trial) {
    const ModelConfig config = random_config(random);
    const auto model = random_model(config, static_cast<std::uint64_t>(trial));
    const std::int64_t length = 13;
    const torch::Tensor tokens = random_tokens(config, 2, length, random);
    torch::Tensor expected;
    {
      torch::NoGradGuard no_grad;
      expected = model->forward(tokens);
    }
    // Split after `split` tokens, the rest in steps of `step`.
    for (const std::int64_t step : {1, 3}) {
      for (std::int64_t split = 0; split < length; ++split) {
        DecodeState state = model->start(2);
        std::vector<torch::Tensor> parts;
        std::int64_t done = 0;
        while (done < length) {
          const std::int64_t count = std::min(length - done, done == 0 && split > 0 ? split : step);
          parts.push_back(model->decode(tokens.narrow(1, done, count), state));
          done += count;
          ASSERT_EQ(state.bytes(), 2 * 8 * cache_size(config, done).total())
              << "after " << done << " tokens, " << describe(config);
        }
        ASSERT_EQ(difference(torch::cat(parts, 1), expected, 1e-11), "")
            << "split " << split << ", step " << step << ", " << describe(config);
      }
    }
  }
}

TEST(Transformer, GradientsOfEveryParameterAreTheFiniteDifferences) {
  base::Random random(12);
  std::map<std::string, int> checked;  // by the name without layer numbers
  for (int trial = 0; trial < 12; ++trial) {
    std::optional<kernels::PlainKernels> plain;
    if (trial % 3 == 2) plain.emplace();
    const ModelConfig config = random_config(random);
    const auto model = random_model(config, static_cast<std::uint64_t>(trial));
    const torch::Tensor tokens = random_tokens(config, 2, 9, random);
    const torch::Tensor rows = torch::tensor({8, 3, 5}, torch::kLong);
    const torch::Tensor direction =
        torch::tensor(std::vector<double>{0.3, -1.2, 0.7, 0.1, -0.4, 1.1, 0.2}, torch::kDouble);
    const auto loss = [&] {
      return (torch::log_softmax(model->forward(tokens), -1) * direction).sum() +
             (model->forward_at(tokens, rows).tanh() * direction).sum();
    };
    model->zero_grad();
    loss().backward();
    torch::NoGradGuard no_grad;
    for (auto& item : model->named_parameters()) {
      torch::Tensor parameter = item.value();
      ASSERT_TRUE(parameter.grad().defined()) << item.key();
      for (int sample = 0; sample < 2; ++sample) {
        const auto place = static_cast<std::int64_t>(
            random.uniform_index(static_cast<std::uint64_t>(parameter.numel())));
        double& value = parameter.data_ptr<double>()[place];
        const double original = value, step = 1e-4;
        const auto loss_at = [&](double steps) {
          value = original + steps * step;
          return loss().item<double>();
        };
        // Of fourth order: its error does not grow with the second and third derivatives.
        const double numeric =
            (8 * (loss_at(1) - loss_at(-1)) - (loss_at(2) - loss_at(-2))) / (12 * step);
        value = original;
        const double analytic = parameter.grad().flatten()[place].item<double>();
        ASSERT_NEAR(analytic, numeric, 1e-6 * (1 + std::abs(numeric)))
            << item.key() << "[" << place << "], " << describe(config);
      }
      std::string kind = item.key();
      for (char& c : kind) c = c >= '0' && c <= '9' ? '#' : c;
      ++checked[kind];
    }
  }
  const std::vector<std::string> seldom = {"lm_head.weight",
                                           "model.layers.#.self_attn.sinks",
                                           "model.layers.#.self_attn.q_norm.weight",
                                           "model.layers.#.self_attn.compressor.k_gate.weight",
                                           "model.layers.#.self_attn.compressor.k_gate.bias",
                                           "model.layers.#.self_attn.compressor.v_gate.weight",
                                           "model.layers.#.self_attn.compressor.v_gate.bias",
                                           "model.layers.#.self_attn.compressor.k_payload.weight",
                                           "model.layers.#.self_attn.compressor.v_payload.weight",
                                           "model.layers.#.post_self_attn_layernorm.weight",
                                           "model.layers.#.post_mlp_layernorm.weight"};
  for (const std::string& kind : seldom) EXPECT_GT(checked[kind], 0) << kind;
}

TEST(Transformer, RecomputingItsLayersChangesNoGradient) {
  base::Random random(17);
  for (int trial = 0; trial < 20; ++trial) {
    const ModelConfig config = random_config(random);
    Transformer model(config, 3);
    const torch::Tensor tokens = torch::randint(config.vocab_size, {2, 21}, torch::kLong);
    const torch::Tensor rows = torch::tensor({5, 20}, torch::kLong);
    for (const bool everywhere : {true, false}) {
      std::vector<torch::autograd::variable_list> gradients;
      for (const bool recompute : {false, true}) {
        model.recompute_layers(recompute);
        const torch::Tensor logits =
            everywhere ? model.forward(tokens) : model.forward_at(tokens, rows);
        gradients.push_back(torch::autograd::grad({logits.square().sum()}, model.parameters(), {},
                                                  {}, false, /*allow_unused=*/true));
      }
      for (std::size_t i = 0; i < gradients[0].size(); ++i) {
        ASSERT_EQ(gradients[0][i].defined(), gradients[1][i].defined()) << i;
        if (!gradients[0][i].defined()) continue;
        EXPECT_TRUE(torch::equal(gradients[0][i], gradients[1][i]))
            << "parameter " << i << ", difference "
            << (gradients[0][i] - gradients[1][i]).abs().max().item<double>() << "\n"
            << describe(config);
      }
    }
  }
}

TEST(Transformer, HasAsManyParametersAsTheConfigurationCounts) {
  base::Random random(13);
  std::vector<ModelConfig> configs;
  for (int trial = 0; trial < 40; ++trial) configs.push_back(random_config(random));
  for (const std::string& name : preset_names()) {
    if (name.rfind("small/", 0) == 0) configs.push_back(preset(name));
    if (name.rfind("qwen3-0.6b/", 0) == 0) {
      // The widths of its attention; layers, MLP and vocabulary, which all designs share, are the
      // formula's factors and take only time. `kvphase presets --build` takes them whole.
      ModelConfig config = preset(name);
      config.layers = 1;
      config.attention.resize(1);
      config.vocab_size = config.ff_width = 8;
      config.width = 64;
      configs.push_back(config);
    }
  }
  for (const ModelConfig& config : configs) {
    Transformer model(config, 0);
    std::int64_t count = 0;
    for (const torch::Tensor& parameter : model.parameters()) count += parameter.numel();
    EXPECT_EQ(count, parameter_count(config)) << describe(config);
  }
}

TEST(Transformer, NamesItsParametersAsHuggingFaceDoes) {
  Transformer model(preset("small/chunked"), 0);
  std::set<std::string> names;
  for (const auto& item : model.named_parameters()) names.insert(item.key());
  for (const char* name :
       {"model.embed_tokens.weight", "model.norm.weight", "model.layers.0.input_layernorm.weight",
        "model.layers.1.post_attention_layernorm.weight", "model.layers.0.self_attn.q_proj.weight",
        "model.layers.0.self_attn.k_norm.weight", "model.layers.1.self_attn.o_proj.weight",
        "model.layers.1.mlp.down_proj.weight",
        "model.layers.1.self_attn.compressor.k_gate.weight"}) {
    EXPECT_TRUE(names.count(name)) << name;
  }
}

TEST(Transformer, StartsEquallyForEqualSeedsWhereTheDesignsAgree) {
  Transformer chunked(preset("small/chunked"), 5), control(preset("small/control"), 5);
  Transformer other(preset("small/control"), 6);
  const auto own = chunked.named_parameters(), different = other.named_parameters();
  for (const auto& item : control.named_parameters()) {
    EXPECT_TRUE(torch::equal(item.value(), own[item.key()])) << item.key();
    const bool constant = item.key().find("norm.weight") != std::string::npos;
    EXPECT_EQ(torch::equal(item.value(), different[item.key()]), constant) << item.key();
  }
  const double expected = std::pow(64, -0.5);
  EXPECT_NEAR(own["model.embed_tokens.weight"].std().item<double>(), expected, 0.02 * expected);
  EXPECT_NEAR(own["model.layers.0.mlp.down_proj.weight"].std().item<double>(),
              std::pow(128, -0.5) / 2, 0.002);
}

TEST(Transformer, MatchedMapsStartAsTheirPartnersAndTheOthersAsIfTheyWereNot) {
  for (const char* name : {"small/w8s8-2kv", "small/w8s8-tied", "small/full-1kv"}) {
    ModelConfig config = preset(name);
    ASSERT_EQ(config.init, Init::kMatched) << name;
    Transformer matched(config, 5);
    config.init = Init::kScaled;
    Transformer drawn(config, 5);
    const auto own = matched.named_parameters(), others = drawn.named_parameters();
    int alike = 0, payloads = 0;
    for (const auto& item : own) {
      const bool changed = item.key().find("_payload.") != std::string::npos ||
                           item.key().find("o_proj.") != std::string::npos;
      EXPECT_EQ(torch::equal(item.value(), others[item.key()]), !changed) << name << item.key();
      alike += changed ? 0 : 1;
    }
    EXPECT_GT(alike, 10);
    for (int layer = 0; layer < 2; ++layer) {
      const std::string at = "model.layers." + std::to_string(layer) + ".self_attn.";
      const torch::Tensor key = own[at + "k_proj.weight"];
      const torch::Tensor* const untied = own.find(at + "v_proj.weight");
      const torch::Tensor value = untied != nullptr ? *untied : key;
      const torch::Tensor output = own[at + "o_proj.weight"];
      // Head h reads KV head h / (H/G): its columns are that head's values' rows.
      for (std::int64_t head = 0; head < config.query_heads; ++head) {
        const std::int64_t group = head * config.kv_heads / config.query_heads;
        const std::int64_t width = config.head_width;
        const torch::Tensor rows = value.narrow(0, group * width, width).t();
        const torch::Tensor columns = output.narrow(1, head * width, width);
        EXPECT_TRUE(torch::allclose(columns / columns.norm(), rows / rows.norm(), 1e-5, 1e-7))
            << name << " layer " << layer << " head " << head;
      }
      const double expected = others[at + "o_proj.weight"].std().item<double>();
      EXPECT_NEAR(output.std().item<double>(), expected, 0.1 * expected) << name;
      for (const auto& [branch, exact] : {std::pair{"k", key}, std::pair{"v", value}}) {
        const torch::Tensor* const payload =
            own.find(at + "compressor." + branch + "_payload.weight");
        if (payload == nullptr) continue;
        ++payloads;
        EXPECT_TRUE(torch::equal(*payload, exact.repeat({config.chunk.window, 1})))
            << name << branch;
      }
    }
    EXPECT_EQ(payloads, payload_matrices(config)) << name;
  }
}

TEST(Transformer, RefusesWhatItCannotRead) {
  ModelConfig config = preset("small/chunked");
  config.context_length = 8;
  Transformer model(config, 0);
  torch::NoGradGuard no_grad;
  EXPECT_THROW(model.forward(torch::zeros({1, 9}, torch::kLong)), base::Error);
  EXPECT_THROW(model.forward(torch::full({1, 8}, 145, torch::kLong)), base::Error);
  EXPECT_THROW(model.forward(torch::full({1, 8}, -1, torch::kLong)), base::Error);
  for (const std::int64_t row : {-1, 8}) {
    const torch::Tensor rows = torch::full({1}, row, torch::kLong);
    EXPECT_THROW(model.forward_at(torch::zeros({2, 8}, torch::kLong), rows), c10::Error);
  }
  DecodeState state = model.start(1);
  model.decode(torch::zeros({1, 8}, torch::kLong), state);
  EXPECT_THROW(model.decode(torch::zeros({1, 1}, torch::kLong), state), base::Error);
  config.chunk.stride = 5;
  EXPECT_THROW(Transformer(config, 0), base::Error);
}

}  // namespace
}  // namespace kvphase::model
