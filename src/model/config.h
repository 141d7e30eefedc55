// The shape of a decoder and of its attention: one JSON file, checked as a whole. Knows no tensors.
// Dimensions: C width, H query heads, G KV heads, D head width, V vocabulary, L layers, W window, S
// stride.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

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

enum class PayloadKind {
  kPerOffset,  // its own map C_i for every offset
  kShared,     // one map for all offsets
};

enum class GridKind {
  kAligned,    // every KV head's windows start at multiples of S
  kStaggered,  // KV head g's windows start round(g*S/G) tokens later
};

enum class RecentKind {
  kLocalWindow,       // the last local_window tokens, also after they were compressed
  kUncompressedTail,  // only the tokens of the current incomplete window
};

enum class EntryPosition {
  kWindowStart,  // an entry's key is rotated at its window's first token
  kWindowEnd,    // ... at its last token
};

// The chunk compressor; used by the layers whose attention is kChunked.
struct ChunkConfig {
  std::int64_t window = 4;  // W: tokens that one entry is built from
  std::int64_t stride = 4;  // S <= W: a new window starts every S tokens
  GridKind grid = GridKind::kAligned;
  GateKind gate = GateKind::kVector;
  bool gate_bias = true;  // a learned bias per offset (and channel), 0 at the start
  PayloadKind payload = PayloadKind::kShared;
  bool tied_kv = false;  // values reuse the normalised, rotated keys
  EntryPosition entry_position = EntryPosition::kWindowEnd;
  RecentKind recent = RecentKind::kLocalWindow;
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
  bool qk_norm = true;
  bool post_norm = false;       // RMSNorm also after attention and after the MLP
  bool attention_sink = false;  // a learned logit per query head in the softmax's denominator
  double norm_epsilon = 1e-6;
  std::int64_t rope_dims = 32;  // even, 0..head_width; 0: no RoPE
  double rope_base = 1e4;
  std::int64_t local_window =
      8;  // exact recent tokens incl. the query's own, in kLocal and kChunked layers
  std::vector<AttentionKind> attention;  // one per layer
  ChunkConfig chunk;
};

// First token of KV head g's second window grid shift: round(g*S/G) if staggered, else 0. Tokens
// before the first full window form a shorter first window, so none is lost.
std::int64_t grid_shift(const ModelConfig& config, std::int64_t kv_head);

// Throws a usage error naming the contradictory keys (S > W, W = 0, heads not divisible, odd
// rope_dims, ...).
void validate(const ModelConfig& config, std::string_view scope);

base::Json to_json(const ModelConfig& config);
// Unknown keys are refused with the nearest valid one; the result is validated.
ModelConfig config_from_json(const base::Json& json, std::string_view scope);

}  // namespace kvphase::model
