#include "speed/flops.h"

#include <gtest/gtest.h>

#include <vector>

#include "model/presets.h"

namespace kvphase::speed {
namespace {

using model::AttentionKind;
using model::ModelConfig;

// C 8, H 2, G 1, D 4, F 16, V 10; one layer.
ModelConfig tiny(AttentionKind kind) {
  ModelConfig config{.vocab_size = 10,
                     .context_length = 64,
                     .layers = 1,
                     .width = 8,
                     .query_heads = 2,
                     .kv_heads = 1,
                     .head_width = 4,
                     .ff_width = 16,
                     .rope_dims = 4,
                     .local_window = 2};
  config.attention = {kind};
  return config;
}

TEST(Flops, OfFullAttentionAreThoseCountedByHand) {
  const Flops f = forward_flops(tiny(AttentionKind::kFull), 3);
  // Queries and outputs 2 * (2*8*8) a token, keys and values 2 * (2*8*4).
  EXPECT_EQ(f.projections, 3 * (2 * 128 + 2 * 64));
  EXPECT_EQ(f.attention, 2 * (1 + 2 + 3) * (2 * 4 + 2 * 4));  // heads, causal pairs, score + value
  EXPECT_EQ(f.mlp, 3 * 3 * (2 * 8 * 16));
  EXPECT_EQ(f.logits, 3 * (2 * 8 * 10));
  EXPECT_EQ(f.compression, 0);
  EXPECT_EQ(f.total(), f.projections + f.attention + f.mlp + f.logits);
}

TEST(Flops, OfTheLastLayerAreCountedAtTheAskedPositionsAlone) {
  ModelConfig config = tiny(AttentionKind::kFull);
  const std::vector<std::int64_t> rows = {2};
  const Flops one = forward_flops(config, 3, rows);
  EXPECT_EQ(one.projections, 2 * 128 + 3 * 2 * 64);
  EXPECT_EQ(one.attention, 2 * 3 * 16);
  EXPECT_EQ(one.mlp, 3 * (2 * 8 * 16));
  EXPECT_EQ(one.logits, 2 * 8 * 10);
  config.layers = 2;
  config.attention = {AttentionKind::kFull, AttentionKind::kFull};
  const Flops two = forward_flops(config, 3, rows);
  EXPECT_EQ(two.attention, 2 * (6 + 3) * 16);
  EXPECT_EQ(two.logits, one.logits);
  // Prefill has no logits, and of the last layer keys and values only.
  const Flops prefill = prefill_flops(config, 3);
  EXPECT_EQ(prefill.projections, 3 * (2 * 128 + 2 * 64) + 3 * 2 * 64);
  EXPECT_EQ(prefill.attention, 2 * 6 * 16);
  EXPECT_EQ(prefill.mlp, 3 * 3 * (2 * 8 * 16));
  EXPECT_EQ(prefill.logits, 0);
}

TEST(Flops, OfALocalWindowStopGrowing) {
  const ModelConfig config = tiny(AttentionKind::kLocal);
  EXPECT_EQ(attention_pairs(config, 0, 5), 2 * (1 + 2 + 2 + 2 + 2));
  EXPECT_EQ(decode_flops(config, 5).attention, 2 * 2 * 16);
  EXPECT_EQ(decode_flops(config, 50).total(), decode_flops(config, 5).total());
}

TEST(Flops, OfCompressionFollowTheMapsOfAWindow) {
  ModelConfig config = tiny(AttentionKind::kChunked);
  model::ChunkConfig& chunk = config.chunk;
  chunk.window = chunk.stride = 2;  // vector gates and payloads shared by the offsets
  // 5 tokens: entries end at 1 and 3. t 0..4 see 1, 2 + 1, 2 + 1, 2 + 2, 2 + 2.
  EXPECT_EQ(attention_pairs(config, 0, 5), 2 * (1 + 3 + 3 + 4 + 4));
  const auto compression = [&] { return forward_flops(config, 5).compression; };
  // 2 branches; 4 tokens in windows: gate 2*8*4 each, weighted mean 2*4 each.
  EXPECT_EQ(compression(), 2 * (4 * 64 + 4 * 8));
  chunk.payload = model::PayloadKind::kPerOffset;  // and 2*8*4 per token of a window
  EXPECT_EQ(compression(), 2 * (4 * 64 + 4 * 64 + 4 * 8));
  chunk.gate = model::GateKind::kScalar;
  chunk.gate_maps = model::GateMaps::kPerOffset;
  EXPECT_EQ(compression(), 2 * (4 * 16 + 4 * 64 + 4 * 8));
  chunk.window = 4;  // windows -2..1 (cut), 0..3: 2 + 4 pairs
  EXPECT_EQ(compression(), 2 * (6 * 16 + 6 * 64 + 6 * 8));
  chunk.tied_kv = true;
  EXPECT_EQ(compression(), 6 * 16 + 6 * 64 + 6 * 8);
  // One token more, on average: W/S = 2 pairs.
  EXPECT_EQ(decode_flops(config, 5).compression, 2 * 16 + 2 * 64 + 2 * 8);
  chunk.gate = model::GateKind::kUniform;
  chunk.gate_maps = model::GateMaps::kShared;
  chunk.gate_bias = false;
  EXPECT_EQ(compression(), 6 * 64 + 6 * 4);
}

TEST(Flops, OfAnUncompressedTailSeeEntriesAndWhatIsBehindThem) {
  ModelConfig config = tiny(AttentionKind::kChunked);
  config.chunk.window = config.chunk.stride = 3;
  config.chunk.recent = model::RecentKind::kUncompressedTail;
  // Entries end at 2 and 5: t 0..6 see 1, 2, 1, 1 + 1, 1 + 2, 2, 2 + 1.
  EXPECT_EQ(attention_pairs(config, 0, 7), 2 * (1 + 2 + 1 + 2 + 3 + 2 + 3));
}

TEST(Flops, OfDecodingAreTheDifferenceThatOneTokenMakes) {
  for (const char* name : {"small/full-1kv", "small/w4s4-1kv", "small/w8s8-4kv-staggered",
                           "small/w8s4-1kv", "small/deepseek-w8s4", "qwen3-0.6b/w8s8-8kv"}) {
    const ModelConfig config = model::preset(name);
    // Over a whole number of strides the average is exact.
    const std::int64_t from = 240, steps = config.chunk.stride * 4;
    double sum = 0;
    for (std::int64_t t = from; t < from + steps; ++t) sum += decode_flops(config, t).total();
    const double difference =
        forward_flops(config, from + steps).total() - forward_flops(config, from).total();
    EXPECT_NEAR(sum / difference, 1, 1e-9) << name << ": " << sum << " and " << difference;
  }
}

}  // namespace
}  // namespace kvphase::speed
