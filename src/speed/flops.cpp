#include "speed/flops.h"

#include <algorithm>
#include <vector>

namespace kvphase::speed {
namespace {

using model::AttentionKind;
using model::ChunkConfig;
using model::ModelConfig;

AttentionKind kind_of(const ModelConfig& config, std::int64_t layer) {
  return config.attention.at(static_cast<std::size_t>(layer));
}

// What the query at position t of a query head of KV head `head` sees.
std::int64_t seen(const ModelConfig& config, AttentionKind kind, const kernels::ChunkGrid& grid,
                  std::size_t head, std::int64_t t) {
  const std::int64_t tokens = t + 1;
  if (kind == AttentionKind::kFull) return tokens;
  const std::int64_t local = std::min(tokens, config.local_window);
  if (kind == AttentionKind::kLocal) return local;
  const bool tail = config.chunk.recent == model::RecentKind::kUncompressedTail;
  return grid.completed(head, tokens) + (tail ? tokens - grid.tail_begin(head, tokens) : local);
}

double gate_width(const ModelConfig& config) {
  switch (config.chunk.gate) {
    case model::GateKind::kUniform:
      return 0;
    case model::GateKind::kScalar:
      return 1;
    case model::GateKind::kVector:
      return static_cast<double>(config.head_width);
  }
  return 0;
}

// Of one KV head and branch: `pairs` of a completed window and a token of it, `tokens` in any.
double compression_flops(const ModelConfig& config, double pairs, double tokens) {
  const ChunkConfig& chunk = config.chunk;
  const auto c = static_cast<double>(config.width), d = static_cast<double>(config.head_width);
  const double gates = chunk.gate_maps == model::GateMaps::kShared ? tokens : pairs;
  const double payloads = chunk.payload == model::PayloadKind::kShared ? 0 : pairs;
  const double mean = chunk.gate == model::GateKind::kUniform ? d : 2 * d;
  return 2 * c * gate_width(config) * gates + 2 * c * d * payloads + mean * pairs;
}

double branches(const ModelConfig& config, AttentionKind kind) {
  return kind == AttentionKind::kChunked && config.chunk.tied_kv ? 1 : 2;
}

// Everything of a layer, queries at `queries` positions that see `pairs`.
Flops layer_flops(const ModelConfig& config, std::int64_t layer, std::int64_t tokens,
                  double queries, double pairs) {
  const AttentionKind kind = kind_of(config, layer);
  const auto c = static_cast<double>(config.width), d = static_cast<double>(config.head_width);
  const auto h = static_cast<double>(config.query_heads), g = static_cast<double>(config.kv_heads);
  Flops flops;
  flops.projections = 4 * c * h * d * queries +
                      2 * branches(config, kind) * c * g * d * static_cast<double>(tokens);
  flops.attention = 4 * d * pairs;
  flops.mlp = 6 * c * static_cast<double>(config.ff_width) * queries;
  if (kind != AttentionKind::kChunked) return flops;
  const kernels::ChunkGrid grid = model::chunk_grid(config, layer);
  for (std::size_t head = 0; head < grid.first_end.size(); ++head) {
    const std::int64_t entries = grid.completed(head, tokens);
    double in_windows = 0;
    for (std::int64_t entry = 0; entry < entries; ++entry) {
      in_windows += static_cast<double>(grid.end(head, entry) - grid.begin(head, entry) + 1);
    }
    flops.compression +=
        branches(config, kind) *
        compression_flops(config, in_windows, static_cast<double>(grid.tail_begin(head, tokens)));
  }
  return flops;
}

void add(Flops& sum, const Flops& more) {
  sum.projections += more.projections;
  sum.compression += more.compression;
  sum.attention += more.attention;
  sum.mlp += more.mlp;
  sum.logits += more.logits;
}

double logit_flops(const ModelConfig& config, double rows) {
  return 2 * static_cast<double>(config.width * config.vocab_size) * rows;
}

}  // namespace

double attention_pairs(const ModelConfig& config, std::int64_t layer, std::int64_t tokens,
                       std::span<const std::int64_t> rows) {
  const AttentionKind kind = kind_of(config, layer);
  const kernels::ChunkGrid grid =
      kind == AttentionKind::kChunked ? model::chunk_grid(config, layer) : kernels::ChunkGrid{};
  double sum = 0;
  for (std::int64_t head = 0; head < config.kv_heads; ++head) {
    const auto add_query = [&](std::int64_t t) {
      sum += static_cast<double>(seen(config, kind, grid, static_cast<std::size_t>(head), t));
    };
    if (rows.empty()) {
      for (std::int64_t t = 0; t < tokens; ++t) add_query(t);
    } else {
      std::ranges::for_each(rows, add_query);
    }
  }
  return sum * static_cast<double>(config.query_heads / config.kv_heads);
}

Flops forward_flops(const ModelConfig& config, std::int64_t tokens,
                    std::span<const std::int64_t> rows) {
  const auto all = static_cast<double>(tokens);
  const double asked = rows.empty() ? all : static_cast<double>(rows.size());
  Flops sum;
  for (std::int64_t layer = 0; layer < config.layers; ++layer) {
    const bool last = layer + 1 == config.layers;
    const auto here = last ? rows : std::span<const std::int64_t>{};
    add(sum, layer_flops(config, layer, tokens, last ? asked : all,
                         attention_pairs(config, layer, tokens, here)));
  }
  sum.logits = logit_flops(config, asked);
  return sum;
}

Flops prefill_flops(const ModelConfig& config, std::int64_t tokens) {
  Flops sum;
  for (std::int64_t layer = 0; layer < config.layers; ++layer) {
    const bool last = layer + 1 == config.layers;
    add(sum, last ? layer_flops(config, layer, tokens, 0, 0)
                  : layer_flops(config, layer, tokens, static_cast<double>(tokens),
                                attention_pairs(config, layer, tokens)));
  }
  return sum;
}

Flops decode_flops(const ModelConfig& config, std::int64_t tokens) {
  const std::int64_t row[] = {tokens};
  Flops sum;
  for (std::int64_t layer = 0; layer < config.layers; ++layer) {
    Flops here = layer_flops(config, layer, 1, 1, attention_pairs(config, layer, tokens + 1, row));
    here.compression = 0;
    if (kind_of(config, layer) == AttentionKind::kChunked) {
      const double pairs =
          static_cast<double>(config.chunk.window) / static_cast<double>(config.chunk.stride);
      here.compression = branches(config, AttentionKind::kChunked) *
                         static_cast<double>(config.kv_heads) * compression_flops(config, pairs, 1);
    }
    add(sum, here);
  }
  sum.logits = logit_flops(config, 1);
  return sum;
}

double attend_flops(const ModelConfig& config, std::int64_t layer, std::int64_t tokens) {
  return 4 * static_cast<double>(config.head_width) * attention_pairs(config, layer, tokens);
}

}  // namespace kvphase::speed
