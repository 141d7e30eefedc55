#include "model/config.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "base/error.h"

namespace kvphase::model {
namespace {

// In the enumerators' order.
const std::vector<std::string> kAttentionNames = {"full", "local", "chunked"};
const std::vector<std::string> kGateNames = {"scalar", "vector", "uniform"};
const std::vector<std::string> kGateMapsNames = {"shared", "per_stride", "per_offset"};
const std::vector<std::string> kPayloadNames = {"per_offset", "per_stride", "shared"};
const std::vector<std::string> kGridNames = {"aligned", "staggered", "staggered_layers"};
const std::vector<std::string> kRecentNames = {"local_window", "uncompressed_tail"};
const std::vector<std::string> kEntryPositionNames = {"window_start", "window_end"};
const std::vector<std::string> kInitNames = {"scaled", "normal_0.02", "matched"};

template <typename Enum>
const std::string& name_of(Enum value, const std::vector<std::string>& names) {
  return names.at(static_cast<std::size_t>(value));
}

template <typename Enum>
Enum read_choice(base::ObjectReader& reader, const std::string& key,
                 const std::vector<std::string>& names, Enum fallback) {
  return static_cast<Enum>(reader.choice(key, names, static_cast<std::size_t>(fallback)));
}

bool uses_local_window(const ModelConfig& config) {
  return std::any_of(config.attention.begin(), config.attention.end(), [&](AttentionKind kind) {
    return kind == AttentionKind::kLocal ||
           (kind == AttentionKind::kChunked && config.chunk.recent == RecentKind::kLocalWindow);
  });
}

void check_size(std::string_view scope, const char* key, std::int64_t value) {
  // The bound keeps every product of two sizes far from overflow.
  constexpr std::int64_t kLargest = std::int64_t{1} << 24;
  if (value < 1 || value > kLargest) {
    throw base::usage_error(scope, "expected '{}' in 1..{}, got {}", key, kLargest, value);
  }
}

void check_positive(std::string_view scope, const char* key, double value) {
  if (!(std::isfinite(value) && value > 0)) {
    throw base::usage_error(scope, "expected '{}' to be finite and > 0, got {}", key, value);
  }
}

void validate_chunk(const ModelConfig& config, std::string_view scope) {
  const ChunkConfig& chunk = config.chunk;
  check_size(scope, "chunk.window", chunk.window);
  check_size(scope, "chunk.stride", chunk.stride);
  if (chunk.stride > chunk.window) {
    throw base::usage_error(scope,
                            "expected 'chunk.stride' <= 'chunk.window', got {} > {}; tokens "
                            "between windows would be lost",
                            chunk.stride, chunk.window);
  }
  if (chunk.gate == GateKind::kUniform && chunk.gate_bias) {
    throw base::usage_error(scope,
                            "expected 'chunk.gate_bias' false with 'chunk.gate' uniform, got true; "
                            "a mean has no gate to bias");
  }
  if (chunk.grid == GridKind::kStaggered && config.kv_heads < 2) {
    throw base::usage_error(scope,
                            "expected at least 2 'kv_heads' with 'chunk.grid' staggered, got {}; "
                            "one head has nothing to be staggered against",
                            config.kv_heads);
  }
  if (chunk.grid == GridKind::kStaggeredLayers &&
      std::ranges::count(config.attention, AttentionKind::kChunked) < 2) {
    throw base::usage_error(scope,
                            "expected at least 2 chunked layers with 'chunk.grid' "
                            "staggered_layers, got 1; one layer has nothing to be staggered "
                            "against");
  }
}

ChunkConfig chunk_from_json(const base::Json& json, const std::string& scope) {
  base::ObjectReader reader(json, scope);
  ChunkConfig chunk;
  chunk.window = reader.integer("window", chunk.window);
  chunk.stride = reader.integer("stride", chunk.window);
  chunk.grid = read_choice(reader, "grid", kGridNames, chunk.grid);
  chunk.gate = read_choice(reader, "gate", kGateNames, chunk.gate);
  const bool gated = chunk.gate != GateKind::kUniform;
  if (!gated && json.contains("gate_maps")) {
    throw base::usage_error(scope, "expected no 'gate_maps' with 'gate' uniform, got {}",
                            json.at("gate_maps").dump());
  }
  chunk.gate_maps = read_choice(reader, "gate_maps", kGateMapsNames, chunk.gate_maps);
  chunk.gate_bias = reader.boolean("gate_bias", gated);
  chunk.payload = read_choice(reader, "payload", kPayloadNames, chunk.payload);
  chunk.tied_kv = reader.boolean("tied_kv", chunk.tied_kv);
  chunk.entry_position =
      read_choice(reader, "entry_position", kEntryPositionNames, chunk.entry_position);
  chunk.recent = read_choice(reader, "recent", kRecentNames, chunk.recent);
  reader.finish();
  return chunk;
}

std::vector<AttentionKind> attention_from_json(const base::Json& json, std::int64_t layers,
                                               const std::string& scope) {
  base::Json list = json;
  if (json.is_string()) list = std::vector<std::string>(static_cast<std::size_t>(layers), json);
  base::Json object;
  object["attention"] = list;
  std::vector<AttentionKind> kinds;
  for (const std::string& text : base::ObjectReader(object, scope).texts("attention")) {
    base::Json one;
    one["attention"] = text;
    base::ObjectReader reader(one, scope);
    kinds.push_back(static_cast<AttentionKind>(reader.choice("attention", kAttentionNames)));
  }
  return kinds;
}

}  // namespace

bool has_chunked_layer(const ModelConfig& config) {
  return std::find(config.attention.begin(), config.attention.end(), AttentionKind::kChunked) !=
         config.attention.end();
}

std::int64_t grid_shift(const ModelConfig& config, std::int64_t layer, std::int64_t kv_head) {
  switch (config.chunk.grid) {
    case GridKind::kAligned:
      return 0;
    case GridKind::kStaggered:
      return kv_head * config.chunk.stride / config.kv_heads;
    case GridKind::kStaggeredLayers: {
      const auto begin = config.attention.begin();
      const auto before = std::count(begin, begin + layer, AttentionKind::kChunked);
      const auto all = std::ranges::count(config.attention, AttentionKind::kChunked);
      return before * config.chunk.stride / all;
    }
  }
  return 0;
}

kernels::ChunkGrid chunk_grid(const ModelConfig& config, std::int64_t layer, std::int64_t later) {
  std::vector<std::int64_t> shifts;
  for (std::int64_t head = 0; head < config.kv_heads; ++head) {
    shifts.push_back(grid_shift(config, layer, head) + later);
  }
  return kernels::make_chunk_grid(config.chunk.window, config.chunk.stride, shifts);
}

std::int64_t gate_map_count(const ChunkConfig& chunk) {
  switch (chunk.gate_maps) {
    case GateMaps::kShared:
      return 1;
    case GateMaps::kPerStride:
      return (chunk.window + chunk.stride - 1) / chunk.stride;
    case GateMaps::kPerOffset:
      return chunk.window;
  }
  return 1;
}

std::int64_t payload_map_count(const ChunkConfig& chunk) {
  switch (chunk.payload) {
    case PayloadKind::kShared:
      return 1;
    case PayloadKind::kPerStride:
      return (chunk.window + chunk.stride - 1) / chunk.stride;
    case PayloadKind::kPerOffset:
      return chunk.window;
  }
  return 1;
}

void validate(const ModelConfig& config, std::string_view scope) {
  check_size(scope, "vocab_size", config.vocab_size);
  check_size(scope, "context_length", config.context_length);
  check_size(scope, "layers", config.layers);
  check_size(scope, "width", config.width);
  check_size(scope, "query_heads", config.query_heads);
  check_size(scope, "kv_heads", config.kv_heads);
  check_size(scope, "head_width", config.head_width);
  check_size(scope, "ff_width", config.ff_width);
  check_size(scope, "local_window", config.local_window);
  check_positive(scope, "norm_epsilon", config.norm_epsilon);
  check_positive(scope, "rope_base", config.rope_base);
  check_positive(scope, "embedding_scale", config.embedding_scale);
  if (config.query_heads % config.kv_heads != 0) {
    throw base::usage_error(scope,
                            "expected 'query_heads' to be a multiple of 'kv_heads', got {} and {}",
                            config.query_heads, config.kv_heads);
  }
  if (config.rope_dims < 0 || config.rope_dims > config.head_width || config.rope_dims % 2 != 0) {
    throw base::usage_error(scope, "expected 'rope_dims' even and in 0..{} ('head_width'), got {}",
                            config.head_width, config.rope_dims);
  }
  if (static_cast<std::int64_t>(config.attention.size()) != config.layers) {
    throw base::usage_error(scope,
                            "expected 'attention' to name one kind for each of the {} 'layers', "
                            "got {}",
                            config.layers, config.attention.size());
  }
  if (has_chunked_layer(config)) validate_chunk(config, scope);
}

base::Json to_json(const ModelConfig& config) {
  base::Json json;
  json["vocab_size"] = config.vocab_size;
  json["context_length"] = config.context_length;
  json["layers"] = config.layers;
  json["width"] = config.width;
  json["query_heads"] = config.query_heads;
  json["kv_heads"] = config.kv_heads;
  json["head_width"] = config.head_width;
  json["ff_width"] = config.ff_width;
  json["tied_embeddings"] = config.tied_embeddings;
  json["embedding_scale"] = config.embedding_scale;
  json["qk_norm"] = config.qk_norm;
  json["post_norm"] = config.post_norm;
  json["attention_sink"] = config.attention_sink;
  json["norm_epsilon"] = config.norm_epsilon;
  json["rope_dims"] = config.rope_dims;
  if (config.rope_dims > 0) json["rope_base"] = config.rope_base;
  if (uses_local_window(config)) json["local_window"] = config.local_window;
  json["init"] = name_of(config.init, kInitNames);
  json["attention"] = base::Json::array();
  for (const AttentionKind kind : config.attention) {
    json["attention"].push_back(name_of(kind, kAttentionNames));
  }
  if (has_chunked_layer(config)) {
    const ChunkConfig& chunk = config.chunk;
    base::Json& out = json["chunk"];
    out["window"] = chunk.window;
    out["stride"] = chunk.stride;
    out["grid"] = name_of(chunk.grid, kGridNames);
    out["gate"] = name_of(chunk.gate, kGateNames);
    if (chunk.gate != GateKind::kUniform) {
      out["gate_maps"] = name_of(chunk.gate_maps, kGateMapsNames);
    }
    out["gate_bias"] = chunk.gate_bias;
    out["payload"] = name_of(chunk.payload, kPayloadNames);
    out["tied_kv"] = chunk.tied_kv;
    out["entry_position"] = name_of(chunk.entry_position, kEntryPositionNames);
    out["recent"] = name_of(chunk.recent, kRecentNames);
  }
  return json;
}

ModelConfig config_from_json(const base::Json& json, std::string_view scope) {
  base::ObjectReader reader(json, std::string(scope));
  ModelConfig config;
  config.vocab_size = reader.integer("vocab_size");
  config.context_length = reader.integer("context_length");
  config.layers = reader.integer("layers", config.layers);
  config.width = reader.integer("width", config.width);
  config.query_heads = reader.integer("query_heads", config.query_heads);
  config.kv_heads = reader.integer("kv_heads", config.kv_heads);
  config.head_width = reader.integer("head_width", config.head_width);
  config.ff_width = reader.integer("ff_width", config.ff_width);
  config.tied_embeddings = reader.boolean("tied_embeddings", config.tied_embeddings);
  config.embedding_scale = reader.real("embedding_scale", config.embedding_scale);
  config.qk_norm = reader.boolean("qk_norm", config.qk_norm);
  config.post_norm = reader.boolean("post_norm", config.post_norm);
  config.attention_sink = reader.boolean("attention_sink", config.attention_sink);
  config.norm_epsilon = reader.real("norm_epsilon", config.norm_epsilon);
  config.rope_dims = reader.integer("rope_dims", config.head_width);
  if (config.rope_dims == 0 && reader.has("rope_base")) {
    throw base::usage_error(scope, "expected no 'rope_base' with 'rope_dims' 0, got {}",
                            json.at("rope_base").dump());
  }
  config.rope_base = reader.real("rope_base", config.rope_base);
  config.init = read_choice(reader, "init", kInitNames, config.init);
  check_size(scope, "layers", config.layers);  // before a list of that length is built
  config.attention =
      attention_from_json(reader.required("attention"), config.layers, reader.scope());
  if (reader.has("chunk")) {
    if (!has_chunked_layer(config)) {
      throw base::usage_error(scope,
                              "expected no 'chunk' when no layer's 'attention' is chunked, got {}",
                              json.at("chunk").dump());
    }
    config.chunk = chunk_from_json(json.at("chunk"), reader.scope() + ".chunk");
  }
  if (reader.has("local_window") && !uses_local_window(config)) {
    throw base::usage_error(scope,
                            "expected no 'local_window' when no layer keeps one, got {}; layers "
                            "with attention local, or chunked with 'recent' local_window, do",
                            json.at("local_window").dump());
  }
  config.local_window = reader.integer("local_window", config.local_window);
  reader.finish();
  validate(config, scope);
  return config;
}

std::int64_t parameter_count(const ModelConfig& config) {
  const std::int64_t c = config.width, d = config.head_width;
  const std::int64_t q_width = config.query_heads * d, kv_width = config.kv_heads * d;
  std::int64_t count = config.vocab_size * c * (config.tied_embeddings ? 1 : 2) + c;
  for (const AttentionKind kind : config.attention) {
    const bool chunked = kind == AttentionKind::kChunked;
    const std::int64_t branches = chunked && config.chunk.tied_kv ? 1 : 2;
    count += 2 * c * q_width + branches * c * kv_width + 3 * c * config.ff_width;
    count += (config.post_norm ? 4 : 2) * c;
    if (config.qk_norm) count += 2 * d;
    if (config.attention_sink) count += config.query_heads;
    if (!chunked) continue;
    const ChunkConfig& chunk = config.chunk;
    if (chunk.gate != GateKind::kUniform) {
      const std::int64_t scores = chunk.gate == GateKind::kVector ? kv_width : config.kv_heads;
      count += branches * gate_map_count(chunk) * scores * c;
      if (chunk.gate_bias) count += branches * chunk.window * scores;
    }
    if (chunk.payload != PayloadKind::kShared) {
      count += branches * payload_map_count(chunk) * kv_width * c;
    }
  }
  return count;
}

CacheSize cache_size(const ModelConfig& config, std::int64_t tokens) {
  CacheSize size;
  const std::int64_t kv_width = config.kv_heads * config.head_width;
  const std::int64_t recent = std::min(tokens, config.local_window);
  for (std::int64_t layer = 0; layer < config.layers; ++layer) {
    const AttentionKind kind = config.attention[static_cast<std::size_t>(layer)];
    if (kind == AttentionKind::kFull) size.exact += 2 * kv_width * tokens;
    if (kind == AttentionKind::kLocal) size.exact += 2 * kv_width * recent;
    if (kind != AttentionKind::kChunked) continue;
    const kernels::ChunkGrid grid = chunk_grid(config, layer);
    const std::int64_t branches = config.chunk.tied_kv ? 1 : 2;
    std::int64_t tail_begin = tokens, pending_begin = tokens;
    for (std::size_t head = 0; head < grid.first_end.size(); ++head) {
      const std::int64_t entries = grid.completed(head, tokens);
      size.entries += branches * config.head_width * entries;
      tail_begin = std::min(tail_begin, grid.tail_begin(head, tokens));
      pending_begin = std::min(pending_begin, grid.begin(head, entries));
    }
    const bool tail = config.chunk.recent == RecentKind::kUncompressedTail;
    size.exact += branches * kv_width * (tail ? tokens - tail_begin : recent);
    size.pending += config.width * (tokens - pending_begin);
  }
  return size;
}

}  // namespace kvphase::model
