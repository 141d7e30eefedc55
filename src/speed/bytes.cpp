#include "speed/bytes.h"

namespace kvphase::speed {
namespace {

using model::ModelConfig;

// Learned numbers of the compressors of all layers: what the same network lacks when its chunked
// layers are local ones, which with tied K/V have a value projection more.
std::int64_t compressor_numbers(const ModelConfig& config) {
  ModelConfig without = config;
  std::int64_t value_maps = 0;
  for (model::AttentionKind& kind : without.attention) {
    if (kind != model::AttentionKind::kChunked) continue;
    kind = model::AttentionKind::kLocal;
    if (config.chunk.tied_kv) value_maps += config.width * config.kv_heads * config.head_width;
  }
  return model::parameter_count(config) - (model::parameter_count(without) - value_maps);
}

}  // namespace

StepBytes decode_bytes(const ModelConfig& config, std::int64_t tokens) {
  const std::int64_t compressor = compressor_numbers(config);
  auto numbers = static_cast<double>(model::parameter_count(config) - compressor);
  numbers += static_cast<double>(compressor) / static_cast<double>(config.chunk.stride);
  if (!config.tied_embeddings) {
    numbers -= static_cast<double>((config.vocab_size - 1) * config.width);
  }
  const model::CacheSize cache = model::cache_size(config, tokens);
  return {.weights = numbers * static_cast<double>(kNumberBytes),
          .cache = static_cast<double>((cache.entries + cache.exact) * kNumberBytes)};
}

std::int64_t cache_bytes(const ModelConfig& config, std::int64_t tokens) {
  return model::cache_size(config, tokens).total() * kNumberBytes;
}

}  // namespace kvphase::speed
