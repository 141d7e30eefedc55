// The decoder: embedding, L pre-norm layers of attention and SwiGLU, a final norm and a head (the
// embedding itself when tied), as Qwen3 without biases (arXiv 2505.09388), with the attention of
// model/attention.h.
// Parameters carry the names of Hugging Face's qwen3 (model.embed_tokens.weight,
// model.layers.0.self_attn.q_proj.weight, ...), and beyond them self_attn.sinks,
// self_attn.compressor.*, post_self_attn_layernorm and post_mlp_layernorm.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "compress/chunk_cache.h"
#include "model/attention.h"
#include "model/config.h"
#include "model/look.h"

namespace kvphase::model {

// What decoding keeps between calls, of B sequences of equal length. A copy is a snapshot and costs
// nothing: what both have seen is kept once, and each goes on by itself (compress/rows.h). Copies
// may be used on different threads at once.
struct DecodeState {
  std::int64_t tokens = 0;  // seen so far
  std::vector<compress::LayerCache> layers;
  RopeSpan rope;  // of the positions that are at work

  // What is kept, without the rope's few rows, and the memory that it lies in.
  std::int64_t bytes() const;
  std::int64_t allocated_bytes() const;
  // Every sequence as many times: row k * B + b is row b.
  DecodeState repeated(std::int64_t times) const;
};

class Transformer : public torch::nn::Module {
 public:
  // float32 on the CPU; to(torch::kDouble) or to(device) converts it. Parameters of the same name
  // and shape are equal for equal seeds, whatever else the configurations differ in.
  Transformer(const ModelConfig& config, std::uint64_t seed);

  const ModelConfig& config() const { return config_; }

  // Gradients of forward() and forward_at() compute every layer twice and keep only its input
  // (model/recompute.h): a third more time, and memory for the activations of one layer, not of L.
  void recompute_layers(bool on) { recompute_layers_ = on; }

  // Every chunked layer's windows `later` tokens later than the configuration says, until another
  // call: sequences that are begun afterwards meet the grids as if `later` tokens fewer stood
  // before them.
  void shift_grids(std::int64_t later);

  // tokens [B, T] int64 -> logits [B, T, V]. Throws a usage error when T exceeds the context or a
  // token is not in the vocabulary.
  torch::Tensor forward(const torch::Tensor& tokens);

  // Logits only at the positions rows, [Q] or [B, Q] int64 -> [B, Q, V]. The last layer computes
  // queries, attention and MLP only there.
  torch::Tensor forward_at(const torch::Tensor& tokens, const torch::Tensor& rows);

  // Incremental decoding, in inference mode (what it returns cannot be given gradients later, which
  // saves a quarter of a small network's step): tokens [B, n], n >= 1, follow what state has seen;
  // returns logits [B, n, V]. The state's bytes are cache_size(config, tokens) * B * element size.
  // Memory for what grows is taken at once for `reserved_tokens`, or else by halves as it grows.
  DecodeState start(std::int64_t batch, std::int64_t reserved_tokens = 0) const;
  // look: null, or L layers of what to replace in this call; filled with what they saw.
  torch::Tensor decode(const torch::Tensor& tokens, DecodeState& state, Look* look = nullptr);
  // The same state afterwards, for less: no logits, and of the last layer only its cache. Reads
  // kPrefillBlock tokens at a time: beside the cache, memory is needed for those.
  // layer_inputs: null, or filled with [B, n, C] per layer, normalised.
  static constexpr std::int64_t kPrefillBlock = 1024;
  void prefill(const torch::Tensor& tokens, DecodeState& state,
               std::vector<torch::Tensor>* layer_inputs = nullptr);

  const Attention& attention(std::int64_t layer) const;

 private:
  struct Mlp;
  struct Layer;
  struct Body;

  void initialise(std::uint64_t seed);
  torch::Tensor run(const torch::Tensor& tokens, const torch::Tensor& rows);
  torch::Tensor embed(const torch::Tensor& tokens) const;
  torch::Tensor head(const torch::Tensor& x) const;
  kernels::RopeTable rope_table(std::int64_t tokens, std::int64_t first = 0) const;
  // The state's rope for `added` tokens more.
  const RopeSpan& rope_for(DecodeState& state, std::int64_t added) const;
  void prefill_block(const torch::Tensor& tokens, DecodeState& state,
                     std::vector<torch::Tensor>* layer_inputs);
  void check(const torch::Tensor& tokens, std::int64_t before) const;

  ModelConfig config_;
  bool recompute_layers_ = false;
  std::shared_ptr<Body> body_;
  std::shared_ptr<Weight> lm_head_;  // null when tied
};

}  // namespace kvphase::model
