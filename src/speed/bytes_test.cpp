#include "speed/bytes.h"

#include <gtest/gtest.h>

#include "model/presets.h"

namespace kvphase::speed {
namespace {

using model::ModelConfig;

TEST(StepBytes, OfFullAttentionAreEveryWeightAndTheWholeCache) {
  const ModelConfig config = model::preset("small/full-1kv");  // tied embedding
  const StepBytes bytes = decode_bytes(config, 1000);
  EXPECT_EQ(bytes.weights, 4 * model::parameter_count(config));
  // Layer 0 holds 8 tokens, layer 1 all: keys and values of one head of 32.
  EXPECT_EQ(bytes.cache, 4 * 2 * 32 * (8 + 1000));
  EXPECT_EQ(bytes.total(), bytes.weights + bytes.cache);
  EXPECT_EQ(cache_bytes(config, 1000), 4 * 2 * 32 * (8 + 1000));
}

TEST(StepBytes, OfAnUntiedEmbeddingAreOneRow) {
  ModelConfig config = model::preset("small/full-1kv");
  const double tied = decode_bytes(config, 10).weights;
  config.tied_embeddings = false;
  EXPECT_EQ(decode_bytes(config, 10).weights, tied + 4.0 * 64);
}

TEST(StepBytes, OfACompressorAreReadOnceAStride) {
  const ModelConfig config = model::preset("small/w4s4-1kv");  // C 64, D 32, W maps, scalar gates
  // Per branch: W payload maps [32, 64], W gate maps [1, 64] and W biases.
  const double compressor = 2 * 4 * (32 * 64 + 64 + 1);
  EXPECT_EQ(
      decode_bytes(config, 100).weights,
      4 * (static_cast<double>(model::parameter_count(config)) - compressor + compressor / 4));
  // 25 entries, 8 recent tokens in both layers; nothing waits after 100 = 25 * 4 tokens.
  EXPECT_EQ(decode_bytes(config, 100).cache, 4 * 2 * 32 * (25 + 8 + 8));
  EXPECT_EQ(cache_bytes(config, 100), decode_bytes(config, 100).cache);
  // Inputs that wait are held, but need not be read.
  EXPECT_EQ(cache_bytes(config, 102), decode_bytes(config, 102).cache + 4 * 2 * 64);
}

TEST(StepBytes, OfTiedKeysAndValuesHaveOneBranch) {
  const ModelConfig config = model::preset("small/w8s8-tied");
  const double compressor = 8 * (32 * 64 + 64 + 1);
  EXPECT_EQ(
      decode_bytes(config, 80).weights,
      4 * (static_cast<double>(model::parameter_count(config)) - compressor + compressor / 8));
}

}  // namespace
}  // namespace kvphase::speed
