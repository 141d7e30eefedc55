// Decoding by cache: the same numbers as one pass over the whole, however the tokens come.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>

#include "model/presets.h"
#include "model/test_support.h"

namespace kvphase::model {
namespace {

using testing::difference;
using testing::random_config;
using testing::random_model;
using testing::random_tokens;
using torch::Tensor;

std::int64_t draw(base::Random& random, std::int64_t least, std::int64_t most) {
  return least + static_cast<std::int64_t>(
                     random.uniform_index(static_cast<std::uint64_t>(most - least + 1)));
}

Tensor whole(Transformer& model, const Tensor& tokens) {
  torch::NoGradGuard no_grad;
  return model.forward(tokens);
}

// Within the tolerance times the largest expected number.
std::string relative_difference(const Tensor& got, const Tensor& expected, double tolerance) {
  return difference(got, expected, tolerance * std::max(1.0, expected.abs().max().item<double>()));
}

void count_options(const ModelConfig& config, std::map<std::string, int>& seen) {
  const ChunkConfig& chunk = config.chunk;
  const auto json = to_json(config);
  for (const char* key : {"grid", "gate", "gate_maps", "payload", "entry_position", "recent"}) {
    if (json["chunk"].contains(key)) {
      ++seen[fmt::format("{} {}", key, json["chunk"][key].get<std::string>())];
    }
  }
  if (chunk.tied_kv) ++seen["tied"];
  if (config.attention_sink) ++seen["sink"];
  if (chunk.window > chunk.stride) ++seen["overlap"];
  if (chunk.window % chunk.stride != 0) ++seen["overlap by part of a stride"];
  if (chunk.stride == 1) ++seen["a window at every token"];
  ++seen[fmt::format("KV heads {}", config.kv_heads)];
  ++seen[fmt::format("first layer {}", json["attention"][0].get<std::string>())];
}

TEST(Decoding, ByTokensByBlocksAndAtOnceAgreeAndTheCacheHoldsTheBytesItSays) {
  base::Random random(1);
  std::map<std::string, int> seen;
  std::int64_t compared = 0;
  for (int trial = 0; trial < 150; ++trial) {
    const ModelConfig config = random_config(random);
    count_options(config, seen);
    const auto model = random_model(config, static_cast<std::uint64_t>(trial));
    const std::int64_t batch = draw(random, 1, 3), length = draw(random, 15, 40);
    const std::int64_t later = trial % 4 == 0 ? draw(random, 1, 7) : 0;
    model->shift_grids(later);
    const Tensor tokens = random_tokens(config, batch, length, random);
    for (const auto type : {torch::kDouble, torch::kFloat}) {
      model->to(type);
      const double tolerance = type == torch::kDouble ? 1e-12 : 1e-5;
      const std::int64_t element = type == torch::kDouble ? 8 : 4;
      const Tensor expected = whole(*model, tokens);
      for (const std::int64_t longest : {1, 3, 20}) {
        DecodeState state = model->start(batch, longest == 3 ? length : 0);
        for (std::int64_t done = 0; done < length;) {
          const std::int64_t count = std::min(length - done, draw(random, 1, longest));
          const Tensor block = tokens.narrow(1, done, count);
          const std::string where =
              fmt::format("tokens {} to {}, blocks of at most {}, batch {}, later {}, {}", done,
                          done + count, longest, batch, later, to_json(config).dump());
          if (draw(random, 0, 3) == 0) {
            model->prefill(block, state);
          } else {
            ASSERT_EQ(relative_difference(model->decode(block, state),
                                          expected.narrow(1, done, count), tolerance),
                      "")
                << where;
            ++compared;
          }
          done += count;
          if (later > 0) continue;
          ASSERT_EQ(state.bytes(), batch * element * cache_size(config, done).total()) << where;
        }
      }
    }
  }
  for (const auto& [option, times] : seen) {
    EXPECT_GE(times, 5) << option;
    std::printf("%s: %d; ", option.c_str(), times);
  }
  std::printf("\n%ld blocks compared\n", static_cast<long>(compared));
}

TEST(Decoding, SnapshotsAreNotDisturbedByEachOther) {
  base::Random random(2);
  struct Sequence {
    DecodeState state;
    Tensor tokens, logits;  // [B, n], [B, n, V]
  };
  std::int64_t compared = 0;
  for (int trial = 0; trial < 60; ++trial) {
    const ModelConfig config = random_config(random);
    const auto model = random_model(config, static_cast<std::uint64_t>(trial));
    constexpr std::int64_t kBatch = 2;
    const Tensor none = torch::empty({kBatch, 0}, torch::kLong);
    std::vector<Sequence> all = {{model->start(kBatch, trial % 2 == 0 ? 64 : 0), none,
                                  torch::empty({kBatch, 0, config.vocab_size}, torch::kDouble)}};
    for (int step = 0; step < 25; ++step) {
      const auto at = static_cast<std::size_t>(draw(random, 0, std::ssize(all) - 1));
      if (const auto what = draw(random, 0, 4); what == 0 && all.size() < 5) {
        all.push_back(Sequence(all[at]));
      } else if (what == 1 && all.size() > 1) {
        all.erase(all.begin() + static_cast<std::ptrdiff_t>(at));
      } else if (all[at].tokens.size(1) < 50) {
        Sequence& one = all[at];
        const Tensor more = random_tokens(config, kBatch, draw(random, 1, 6), random);
        one.logits = torch::cat({one.logits, model->decode(more, one.state)}, 1);
        one.tokens = torch::cat({one.tokens, more}, 1);
      }
    }
    for (const Sequence& one : all) {
      if (one.tokens.size(1) == 0) continue;
      ASSERT_EQ(relative_difference(one.logits, whole(*model, one.tokens), 1e-12), "")
          << "trial " << trial << ", " << to_json(config).dump();
      ASSERT_EQ(one.state.bytes(), kBatch * 8 * cache_size(config, one.tokens.size(1)).total());
      ++compared;
    }
  }
  std::printf("%ld sequences compared\n", static_cast<long>(compared));
}

TEST(Decoding, ManyStepsAndManyBlocksAgreeWithTheWhole) {
  for (const char* name : {"small/full-1kv", "small/w4s4-1kv", "small/w8s4-1kv"}) {
    ModelConfig config = preset(name);
    config.context_length = 4096;
    if (config.chunk.window == 8) config.chunk.entry_position = EntryPosition::kWindowStart;
    Transformer model(config, 4);
    torch::manual_seed(5);
    const std::int64_t length = 2 * Transformer::kPrefillBlock + 400;
    const Tensor tokens = torch::randint(config.vocab_size, {2, length}, torch::kLong);
    const Tensor expected = whole(model, tokens);
    DecodeState state = model.start(2);
    std::vector<Tensor> inputs;
    const std::int64_t read = 2 * Transformer::kPrefillBlock + 50;
    model.prefill(tokens.narrow(1, 0, read), state, &inputs);
    EXPECT_EQ(std::ssize(inputs), config.layers);
    EXPECT_EQ(inputs[0].sizes(), (std::vector<std::int64_t>{2, read, config.width}));
    std::vector<Tensor> logits;
    for (std::int64_t at = read; at < length; ++at) {
      logits.push_back(model.decode(tokens.narrow(1, at, 1), state));
    }
    const Tensor got = torch::cat(logits, 1), wanted = expected.narrow(1, read, length - read);
    EXPECT_EQ(relative_difference(got, wanted, 1e-5), "") << name;
    std::printf("%s: largest difference %.2g of %.2g\n", name,
                (got - wanted).abs().max().item<double>(), wanted.abs().max().item<double>());
  }
}

TEST(Decoding, TakesTheMemoryThatWasReservedOrHalfAsMuchAgain) {
  ModelConfig config = preset("small/full-1kv");
  config.context_length = 4096;
  config.attention.assign(config.attention.size(), AttentionKind::kFull);
  Transformer model(config, 4);
  const Tensor tokens = torch::zeros({1, 700}, torch::kLong);
  DecodeState reserved = model.start(1, 700), grown = model.start(1);
  for (const std::int64_t block : {300, 1, 1, 398}) {
    for (DecodeState* state : {&reserved, &grown}) {
      model.prefill(tokens.narrow(1, state->tokens, block), *state);
    }
    EXPECT_EQ(reserved.allocated_bytes(), 4 * cache_size(config, 700).total());
    EXPECT_LE(grown.allocated_bytes(), grown.bytes() * 3 / 2 + 4);
  }
  EXPECT_EQ(reserved.bytes(), reserved.allocated_bytes());
}

}  // namespace
}  // namespace kvphase::model
