// The shape of a decoder and of its attention: one JSON file, checked as a whole. Knows no tensors.
// Dimensions: C width, H query heads, G KV heads, D head width, V vocabulary, L layers, W window, S
// stride.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "kernels/chunk_grid.h"

namespace kvphase::model {

enum class AttentionKind {
  kFull,     // every earlier token, exactly
  kLocal,    // the last local_window tokens only, exactly
  kChunked,  // compressed entries of complete windows, and recent exact tokens, in one softmax
};

enum class GateKind {
  kScalar,   // one gate logit per offset
  kVector,   // one per offset and channel
  kUniform,  // no gate: the mean over the window's offsets
};

// How many maps the offsets of a window have between them.
enum class GateMaps {
  kShared,     // one Z for all offsets; only the bias tells them apart
  kPerStride,  // offset i uses map floor(i / S): DeepSeek's "previous" and "current" halves
  kPerOffset,  // its own Z_i for every offset
};

enum class PayloadKind {
  kPerOffset,  // its own map C_i for every offset
  kPerStride,  // offset i uses map floor(i / S), as above
  kShared,     // one map for all offsets: the exact tokens' own k_proj and v_proj
};

enum class GridKind {
  kAligned,          // every KV head's windows start at multiples of S
  kStaggered,        // KV head g's windows start floor(g*S/G) tokens later
  kStaggeredLayers,  // those of the l-th of n chunked layers start floor(l*S/n) tokens later
};

enum class RecentKind {
  kLocalWindow,       // the last local_window tokens, also after they were compressed
  kUncompressedTail,  // only the tokens after the last completed window (of the same KV head)
};

enum class EntryPosition {
  kWindowStart,  // an entry's key is rotated at its window's first token
  kWindowEnd,    // ... at its last token
};

enum class Init {
  // Linear maps: std fan_in^-0.5, output and down projections also times (2L)^-0.5; embedding: std
  // C^-0.5. Gate and payload maps of a window's offsets start alike.
  kScaled,
  kNormal002,  // every matrix: std 0.02, as Qwen3
  // kScaled, and maps that work on the same vectors start matched: a compressor's payload maps as
  // the
  // exact tokens' key and value projections, and each query head's output projection as its value
  // projection transposed (of keys, where K/V are tied), scaled to the standard deviation it has
  // otherwise. A head then starts by copying what it attends to, after the mimetic initialisation
  // of Trockman and Kolter (2023). Lookups are learned several times sooner, and from every seed.
  kMatched,
};

// The chunk compressor; used by the layers whose attention is kChunked.
struct ChunkConfig {
  std::int64_t window = 4;  // W: tokens that one entry is built from
  std::int64_t stride = 4;  // S <= W: a new window starts every S tokens
  GridKind grid = GridKind::kAligned;
  GateKind gate = GateKind::kVector;
  GateMaps gate_maps = GateMaps::kShared;  // without meaning for uniform gates
  bool gate_bias = true;  // a learned bias per offset (and channel), 0 at the start
  PayloadKind payload = PayloadKind::kShared;
  bool tied_kv = false;  // values reuse the normalised, rotated keys, exact tokens' too
  EntryPosition entry_position = EntryPosition::kWindowEnd;
  RecentKind recent = RecentKind::kLocalWindow;

  friend bool operator==(const ChunkConfig&, const ChunkConfig&) = default;
};

struct ModelConfig {
  std::int64_t vocab_size = 0;
  std::int64_t context_length = 0;  // longest sequence, tokens
  std::int64_t layers = 2;
  std::int64_t width = 64;
  std::int64_t query_heads = 2;  // a multiple of kv_heads
  std::int64_t kv_heads = 1;
  std::int64_t head_width = 32;
  std::int64_t ff_width = 128;
  bool tied_embeddings = true;
  double embedding_scale = 4;  // the embedding is multiplied by this; kScaled wants 0.5 sqrt(C)
  bool qk_norm = true;
  bool post_norm = false;       // RMSNorm also after attention and after the MLP
  bool attention_sink = false;  // a learned logit per query head in the softmax's denominator
  double norm_epsilon = 1e-6;
  std::int64_t rope_dims = 32;  // even, 0..head_width; 0: no RoPE
  double rope_base = 1e4;
  // Exact recent tokens incl. the query's own, in kLocal layers and in kChunked ones with
  // kLocalWindow.
  std::int64_t local_window = 8;
  Init init = Init::kScaled;
  std::vector<AttentionKind> attention;  // one per layer
  ChunkConfig chunk;

  friend bool operator==(const ModelConfig&, const ModelConfig&) = default;
};

// True iff some layer's attention is kChunked.
bool has_chunked_layer(const ModelConfig& config);

// How much later the windows of a KV head of a chunked layer start, in tokens: see GridKind.
// Windows that would begin before the sequence are cut at token 0 (see kernels/chunk_grid.h), so no
// token is lost.
std::int64_t grid_shift(const ModelConfig& config, std::int64_t layer, std::int64_t kv_head);

// The windows of every KV head of a chunked layer, all `later` tokens later.
kernels::ChunkGrid chunk_grid(const ModelConfig& config, std::int64_t layer,
                              std::int64_t later = 0);

// Maps that the offsets of a window have between them: 1, ceil(W/S) or W.
std::int64_t gate_map_count(const ChunkConfig& chunk);
std::int64_t payload_map_count(const ChunkConfig& chunk);

// Throws a usage error naming the contradictory keys (S > W, W = 0, heads not divisible, odd
// rope_dims, ...).
void validate(const ModelConfig& config, std::string_view scope);

// Keys without meaning for the configuration (chunk without a chunked layer, ...) are left out.
base::Json to_json(const ModelConfig& config);
// "attention" is a list with one kind per layer or one kind for all. Unknown keys are refused with
// the nearest valid one, and so are keys that the rest makes meaningless; the result is validated.
ModelConfig config_from_json(const base::Json& json, std::string_view scope);

// Learned numbers of the network; a tied embedding counts once.
std::int64_t parameter_count(const ModelConfig& config);

// What one sequence's decoding state holds after `tokens` tokens, all layers together, in numbers
// (multiply by the element's bytes). With R = min(tokens, N) recent tokens, N the local window, a
// layer of G KV heads of width D holds
//   full      2 G D tokens
//   local     2 G D R
//   chunked   f D sum_g M_g entries, f G D R' recent, C P pending, f = 1 if tied else 2,
// M_g = completed windows of head g, R' = R or, with an uncompressed tail, the tokens after the
// earliest "last completed window" of any head, P = tokens from the earliest start of a window that
// is still incomplete (their layer inputs wait for its completion).
struct CacheSize {
  std::int64_t entries = 0;
  std::int64_t exact = 0;
  std::int64_t pending = 0;
  std::int64_t total() const { return entries + exact + pending; }
};
CacheSize cache_size(const ModelConfig& config, std::int64_t tokens);

}  // namespace kvphase::model
