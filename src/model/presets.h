// Named configurations: the designs of the paper on phase sensitivity (Zhu et al., arXiv
// 2609.36322), each at two shapes, and the three models of the demonstration.
//
// The paper's list, counted by design, has 24 entries: full attention with 1, 4 and 8 KV heads;
// W8/S8 with 1 KV head; W4/S4, W8/S4, W8/S6 and W12/S12; W8/S8 with 2, 4 and 8 KV heads; and, with
// 1 KV head unless said, tied K/V, uniform averaging, uniform + tied + post-norm, vector gates, no
// Q/K norm, no gate bias, no RoPE, RoPE on an eighth of the dims, uncompressed tail with 1 and 8 KV
// heads, the DeepSeek-style kernel with vector and with scalar gates, and W12/S12 with 4 KV heads.
// W8/S8 with 1 KV head was trained from four seeds, 42 to 45: a seed is an option of training, not
// of the configuration, so it makes no preset of its own. (With the three more seeds the list gives
// 27 runs; the paper speaks of 26 models and does not say which it counts.)
//
// Shapes: "qwen3-0.6b" (28 layers, C 1024, H 16, D 128, local window 16, every layer of the
// design's kind) and "small" (2 layers, C 64, layer 0 local only, layer 1 of the design's kind,
// since two layers of full attention hardly learn the lookup at this size; 4 query heads, or the
// next multiple of the KV heads; D 32, with 4 or 8 KV heads 16; maps that start matched,
// model/config.h). What the paper does not say is assumed: gate and payload maps per offset.
//
// Full attention with 2 KV heads is ours: the control of the designs with 2.
// Beyond the list, wWsS-Gkv, wWsS-Gkv-tail and their -staggered twins are designs for any window,
// stride and number of KV heads: "small/w6s6-4kv-staggered" is W8/S8's kernel at W = S = 6.
// Every chunked design of the list with two or more KV heads also has a twin on staggered grids,
// "-staggered": KV head g's windows start floor(g*S/G) tokens later; as many parameters and cache
// entries.
//
// The demonstration's: small/control, small/chunked (W4/S4, one KV head of width 32) and
// small/staggered (two KV heads of width 16, whose grids are 2 tokens apart: the same cache bytes).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/config.h"

namespace kvphase::model {

// "small/w8s8-1kv", ...: every preset of the lists, in the order of the list above, the small shape
// first.
const std::vector<std::string>& preset_names();

// The paper's designs and their staggered twins, without a shape: "w8s8-1kv", ...
const std::vector<std::string>& design_names();

// "small" and "qwen3-0.6b".
const std::vector<std::string>& shape_names();

// Is it one of design_names(), or by its numbers a valid one at the small shape?
bool is_design(std::string_view name);

// "SHAPE/DESIGN" or one of the demonstration's. Throws a usage error with the nearest valid name.
ModelConfig preset(std::string_view name);

// The design that a configuration has, at any size: the same attention beside local layers, KV
// heads, compressor, norms and share of rotated dims. Empty: none of them.
std::optional<std::string> design_of(const ModelConfig& config);

}  // namespace kvphase::model
