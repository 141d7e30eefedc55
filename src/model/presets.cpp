#include "model/presets.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <regex>

#include "base/error.h"
#include "base/nearest.h"

namespace kvphase::model {
namespace {

struct Design {
  std::string name;
  std::int64_t kv_heads = 1;
  AttentionKind attention = AttentionKind::kChunked;
  ChunkConfig chunk;
  std::function<void(ModelConfig&)> change;  // beyond the chunk, may be empty
};

ChunkConfig paper_chunk(std::int64_t window, std::int64_t stride) {
  return {.window = window,
          .stride = stride,
          .gate = GateKind::kScalar,
          .gate_maps = GateMaps::kPerOffset,
          .payload = PayloadKind::kPerOffset,
          .entry_position = EntryPosition::kWindowStart};
}

template <typename Change>
ChunkConfig paper_w8s8(Change change) {
  ChunkConfig chunk = paper_chunk(8, 8);
  change(chunk);
  return chunk;
}

ChunkConfig deepseek_chunk(GateKind gate) {
  return {.window = 8,
          .stride = 4,
          .gate = gate,
          .gate_maps = GateMaps::kPerStride,
          .payload = PayloadKind::kPerStride,
          .tied_kv = true,
          .entry_position = EntryPosition::kWindowStart};
}

ChunkConfig uniform(ChunkConfig chunk) {
  chunk.gate = GateKind::kUniform;
  chunk.gate_maps = GateMaps::kShared;
  chunk.gate_bias = false;
  return chunk;
}

void rope_on_an_eighth(ModelConfig& config) { config.rope_dims = config.head_width / 8; }

std::vector<Design> paper_designs() {
  const auto full = AttentionKind::kFull;
  const auto tail = [](ChunkConfig& chunk) { chunk.recent = RecentKind::kUncompressedTail; };
  const auto tied = [](ChunkConfig& chunk) { chunk.tied_kv = true; };
  return {
      {.name = "full-1kv", .kv_heads = 1, .attention = full},
      {.name = "full-2kv", .kv_heads = 2, .attention = full},
      {.name = "full-4kv", .kv_heads = 4, .attention = full},
      {.name = "full-8kv", .kv_heads = 8, .attention = full},
      {.name = "w8s8-1kv", .chunk = paper_chunk(8, 8)},
      {.name = "w4s4-1kv", .chunk = paper_chunk(4, 4)},
      {.name = "w8s4-1kv", .chunk = paper_chunk(8, 4)},
      {.name = "w8s6-1kv", .chunk = paper_chunk(8, 6)},
      {.name = "w12s12-1kv", .chunk = paper_chunk(12, 12)},
      {.name = "w8s8-2kv", .kv_heads = 2, .chunk = paper_chunk(8, 8)},
      {.name = "w8s8-4kv", .kv_heads = 4, .chunk = paper_chunk(8, 8)},
      {.name = "w8s8-8kv", .kv_heads = 8, .chunk = paper_chunk(8, 8)},
      {.name = "w8s8-tied", .chunk = paper_w8s8(tied)},
      {.name = "w8s8-uniform", .chunk = uniform(paper_chunk(8, 8))},
      {.name = "w8s8-uniform-tied-post-norm",
       .chunk = uniform(paper_w8s8(tied)),
       .change = [](ModelConfig& config) { config.post_norm = true; }},
      {.name = "w8s8-vector",
       .chunk = paper_w8s8([](ChunkConfig& chunk) { chunk.gate = GateKind::kVector; })},
      {.name = "w8s8-no-qk-norm",
       .chunk = paper_chunk(8, 8),
       .change = [](ModelConfig& config) { config.qk_norm = false; }},
      {.name = "w8s8-no-gate-bias",
       .chunk = paper_w8s8([](ChunkConfig& chunk) { chunk.gate_bias = false; })},
      {.name = "w8s8-no-rope",
       .chunk = paper_chunk(8, 8),
       .change = [](ModelConfig& config) { config.rope_dims = 0; }},
      {.name = "w8s8-rope-eighth", .chunk = paper_chunk(8, 8), .change = rope_on_an_eighth},
      {.name = "w8s8-tail-1kv", .chunk = paper_w8s8(tail)},
      {.name = "w8s8-tail-8kv", .kv_heads = 8, .chunk = paper_w8s8(tail)},
      {.name = "deepseek-w8s4",
       .chunk = deepseek_chunk(GateKind::kVector),
       .change = rope_on_an_eighth},
      {.name = "deepseek-w8s4-scalar",
       .chunk = deepseek_chunk(GateKind::kScalar),
       .change = rope_on_an_eighth},
      {.name = "w12s12-4kv", .kv_heads = 4, .chunk = paper_chunk(12, 12)},
  };
}

// The paper's designs, each chunked one of several KV heads followed by its staggered twin.
const std::vector<Design>& all_designs() {
  static const std::vector<Design> designs = [] {
    std::vector<Design> all;
    for (Design design : paper_designs()) {
      const bool twin = design.attention == AttentionKind::kChunked && design.kv_heads > 1;
      all.push_back(design);
      if (!twin) continue;
      design.name += "-staggered";
      design.chunk.grid = GridKind::kStaggered;
      all.push_back(std::move(design));
    }
    return all;
  }();
  return designs;
}

// "w6s6-4kv-tail-staggered": the paper's kernel with any window, stride and number of KV heads.
std::optional<Design> design_by_numbers(std::string_view name) {
  static const std::regex kForm(
      "w([1-9][0-9]{0,3})s([1-9][0-9]{0,3})-([1-9][0-9]{0,2})kv(-tail)?(-staggered)?");
  std::cmatch part;
  if (!std::regex_match(name.data(), name.data() + name.size(), part, kForm)) return std::nullopt;
  Design design{.name = std::string(name),
                .kv_heads = std::stoll(part[3]),
                .chunk = paper_chunk(std::stoll(part[1]), std::stoll(part[2]))};
  if (part[4].matched) design.chunk.recent = RecentKind::kUncompressedTail;
  if (part[5].matched) design.chunk.grid = GridKind::kStaggered;
  return design;
}

std::optional<Design> find_design(std::string_view name) {
  for (const Design& design : all_designs()) {
    if (design.name == name) return design;
  }
  return design_by_numbers(name);
}

// The recipes' model: 1 separator, 16 fillers, 64 keys and 64 values; 2 query heads of width 32.
ModelConfig recipe_shape() {
  ModelConfig config;
  config.vocab_size = 145;
  config.context_length = 1024;
  return config;
}

// The same with 4 query heads or the next multiple of the KV heads: with 2, full attention finds
// the lookup from some seeds only.
ModelConfig small_shape(std::int64_t kv_heads) {
  ModelConfig config = recipe_shape();
  config.kv_heads = kv_heads;
  config.query_heads = kv_heads * std::max<std::int64_t>(1, (3 + kv_heads) / kv_heads);
  config.head_width = kv_heads <= 2 ? 32 : 16;
  config.rope_dims = config.head_width;
  config.init = Init::kMatched;
  return config;
}

ModelConfig qwen3_shape(std::int64_t kv_heads) {
  return {.vocab_size = 151936,
          .context_length = 32768,
          .layers = 28,
          .width = 1024,
          .query_heads = 16,
          .kv_heads = kv_heads,
          .head_width = 128,
          .ff_width = 3072,
          .embedding_scale = 1,
          .rope_dims = 128,
          .rope_base = 1e6,
          .local_window = 16,
          .init = Init::kNormal002};
}

ModelConfig apply(const Design& design, ModelConfig config, std::size_t first_layer) {
  config.attention.assign(static_cast<std::size_t>(config.layers), design.attention);
  for (std::size_t layer = 0; layer < first_layer; ++layer) {
    config.attention[layer] = AttentionKind::kLocal;
  }
  config.chunk = design.chunk;
  if (design.change) design.change(config);
  return config;
}

struct Named {
  std::string name;
  ModelConfig config;
};

ModelConfig staggered() {
  ModelConfig config = recipe_shape();
  config.query_heads = 4;
  config.kv_heads = 2;
  config.head_width = 16;
  config.rope_dims = 16;
  config.chunk.grid = GridKind::kStaggered;
  config.attention = {AttentionKind::kLocal, AttentionKind::kChunked};
  return config;
}

ModelConfig at_small(const Design& design) {
  return apply(design, small_shape(design.kv_heads), 1);
}

ModelConfig at_qwen3(const Design& design) {
  return apply(design, qwen3_shape(design.kv_heads), 0);
}

struct Shape {
  std::string name;
  ModelConfig (*at)(const Design& design);
};

const std::vector<Shape>& shapes() {
  static const std::vector<Shape> all = {{"small", at_small}, {"qwen3-0.6b", at_qwen3}};
  return all;
}

const std::vector<Named>& all_presets() {
  static const std::vector<Named> presets = [] {
    std::vector<Named> list;
    const Design control{.name = "", .attention = AttentionKind::kFull};
    list.push_back({"small/control", apply(control, recipe_shape(), 1)});
    list.push_back({"small/chunked", apply(Design{}, recipe_shape(), 1)});
    list.push_back({"small/staggered", staggered()});
    for (const Shape& shape : shapes()) {
      for (const Design& design : all_designs()) {
        list.push_back({shape.name + "/" + design.name, shape.at(design)});
      }
    }
    for (const Named& named : list) validate(named.config, named.name);
    return list;
  }();
  return presets;
}

// What makes two configurations of any size the same design; local layers say nothing.
struct DesignKey {
  std::vector<AttentionKind> kinds;  // distinct, without kLocal
  std::int64_t kv_heads = 1;
  std::optional<ChunkConfig> chunk;
  double rotated = 1;  // share of a head's dims
  bool qk_norm = true;
  bool post_norm = false;
  bool attention_sink = false;

  bool operator==(const DesignKey&) const = default;
};

DesignKey key_of(const ModelConfig& config) {
  DesignKey key{
      .kv_heads = config.kv_heads,
      .rotated = static_cast<double>(config.rope_dims) / static_cast<double>(config.head_width),
      .qk_norm = config.qk_norm,
      .post_norm = config.post_norm,
      .attention_sink = config.attention_sink};
  for (const AttentionKind kind : config.attention) {
    if (kind == AttentionKind::kLocal || std::ranges::find(key.kinds, kind) != key.kinds.end()) {
      continue;
    }
    key.kinds.push_back(kind);
  }
  if (has_chunked_layer(config)) key.chunk = config.chunk;
  return key;
}

}  // namespace

std::optional<std::string> design_of(const ModelConfig& config) {
  const DesignKey key = key_of(config);
  std::vector<std::string> names = design_names();
  const ChunkConfig& chunk = config.chunk;
  names.push_back(fmt::format("w{}s{}-{}kv{}{}", chunk.window, chunk.stride, config.kv_heads,
                              chunk.recent == RecentKind::kUncompressedTail ? "-tail" : "",
                              chunk.grid == GridKind::kStaggered ? "-staggered" : ""));
  for (const std::string& name : names) {
    const std::optional<Design> design = find_design(name);
    if (!design) continue;
    for (const Shape& shape : shapes()) {
      if (key_of(shape.at(*design)) == key) return name;
    }
  }
  return std::nullopt;
}

bool is_design(std::string_view name) {
  const std::optional<Design> design = find_design(name);
  if (!design) return false;
  try {
    validate(shapes().front().at(*design), name);
  } catch (const base::Error&) {
    return false;
  }
  return true;
}

const std::vector<std::string>& design_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> list;
    for (const Design& design : all_designs()) list.push_back(design.name);
    return list;
  }();
  return names;
}

const std::vector<std::string>& shape_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> list;
    for (const Shape& shape : shapes()) list.push_back(shape.name);
    return list;
  }();
  return names;
}

const std::vector<std::string>& preset_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> list;
    for (const Named& named : all_presets()) list.push_back(named.name);
    return list;
  }();
  return names;
}

ModelConfig preset(std::string_view name) {
  for (const Named& named : all_presets()) {
    if (named.name == name) return named.config;
  }
  for (const Shape& shape : shapes()) {
    if (!name.starts_with(shape.name + "/")) continue;
    const std::string_view design_name = name.substr(shape.name.size() + 1);
    const std::optional<Design> design = design_by_numbers(design_name);
    if (!design) continue;
    ModelConfig config = shape.at(*design);
    validate(config, name);
    return config;
  }
  throw base::usage_error("preset", "expected a known preset, got '{}'; did you mean '{}'?", name,
                          base::nearest_name(name, preset_names()));
}

}  // namespace kvphase::model
