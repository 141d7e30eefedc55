#include "model/transformer.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "base/error.h"
#include "base/random.h"
#include "kernels/linear.h"
#include "kernels/rms_norm.h"
#include "kernels/swiglu.h"
#include "model/recompute.h"

namespace kvphase::model {

struct Transformer::Mlp : torch::nn::Module {
  explicit Mlp(const ModelConfig& config) {
    gate_proj = register_module("gate_proj", matrix(config.ff_width, config.width));
    up_proj = register_module("up_proj", matrix(config.ff_width, config.width));
    down_proj = register_module("down_proj", matrix(config.width, config.ff_width));
  }

  // few: x has so few rows that joining the matrices costs more than one product saves.
  torch::Tensor forward(const torch::Tensor& x, bool few = false) const {
    const torch::Tensor gate_and_up =
        few ? torch::cat(
                  {kernels::linear(x, gate_proj->weight), kernels::linear(x, up_proj->weight)}, -1)
            : kernels::linear(x, torch::cat({gate_proj->weight, up_proj->weight}));
    return kernels::linear(kernels::swiglu(gate_and_up), down_proj->weight);
  }

  static std::shared_ptr<Weight> matrix(std::int64_t outputs, std::int64_t inputs) {
    return std::make_shared<Weight>(torch::IntArrayRef({outputs, inputs}));
  }

  std::shared_ptr<Weight> gate_proj, up_proj, down_proj;
};

struct Transformer::Layer : torch::nn::Module {
  Layer(const ModelConfig& config, std::int64_t layer) : epsilon(config.norm_epsilon) {
    const auto norm = [&](const std::string& name) {
      return register_module(name, std::make_shared<Weight>(torch::IntArrayRef({config.width})));
    };
    input_norm = norm("input_layernorm");
    self_attn = register_module("self_attn", std::make_shared<Attention>(config, layer));
    if (config.post_norm) after_attention = norm("post_self_attn_layernorm");
    mlp_norm = norm("post_attention_layernorm");
    mlp = register_module("mlp", std::make_shared<Mlp>(config));
    if (config.post_norm) after_mlp = norm("post_mlp_layernorm");
  }

  torch::Tensor normed(const Weight& norm, const torch::Tensor& x) const {
    return kernels::rms_norm(x, norm.weight, epsilon);
  }

  // residual [B, Q, C] and the attention's output for it.
  torch::Tensor finish(const torch::Tensor& residual, const torch::Tensor& attended,
                       bool few = false) const {
    const torch::Tensor x =
        residual + (after_attention ? normed(*after_attention, attended) : attended);
    const torch::Tensor y = mlp->forward(normed(*mlp_norm, x), few);
    return x + (after_mlp ? normed(*after_mlp, y) : y);
  }

  torch::Tensor forward(const torch::Tensor& x, const torch::Tensor& rows,
                        const kernels::RopeTable& table) const {
    const torch::Tensor inputs = normed(*input_norm, x);
    if (!rows.defined()) return finish(x, self_attn->forward(inputs, {}, {}, table));
    const torch::Tensor chosen = gather_rows(x, rows);
    return finish(chosen, self_attn->forward(inputs, rows, normed(*input_norm, chosen), table));
  }

  // inputs: x, normalised
  torch::Tensor decode(const torch::Tensor& x, const torch::Tensor& inputs,
                       compress::LayerCache& cache, const RopeSpan& rope, LayerLook* look) const {
    const bool few = x.size(0) * x.size(1) < kRowsToJoin;
    return finish(x, self_attn->decode(inputs, cache, rope, look), few);
  }

  double epsilon;
  std::shared_ptr<Weight> input_norm, after_attention, mlp_norm, after_mlp;
  std::shared_ptr<Attention> self_attn;
  std::shared_ptr<Mlp> mlp;
};

struct Transformer::Body : torch::nn::Module {
  explicit Body(const ModelConfig& config) {
    embed_tokens = register_module("embed_tokens", Mlp::matrix(config.vocab_size, config.width));
    const auto list = register_module("layers", std::make_shared<torch::nn::ModuleListImpl>());
    for (std::int64_t layer = 0; layer < config.layers; ++layer) {
      layers.push_back(std::make_shared<Layer>(config, layer));
      list->push_back(layers.back());
    }
    norm = register_module("norm", std::make_shared<Weight>(torch::IntArrayRef({config.width})));
  }

  std::shared_ptr<Weight> embed_tokens, norm;
  std::vector<std::shared_ptr<Layer>> layers;
};

namespace {

bool ends_with(const std::string& name, const std::string& end) {
  return name.size() >= end.size() && name.compare(name.size() - end.size(), end.size(), end) == 0;
}

// Standard deviation of a matrix's elements at the start.
double initial_std(const ModelConfig& config, const std::string& name,
                   const torch::Tensor& parameter) {
  if (config.init == Init::kNormal002) return 0.02;
  const double std = std::pow(static_cast<double>(parameter.size(-1)), -0.5);
  const bool closes_a_branch =
      ends_with(name, "o_proj.weight") || ends_with(name, "down_proj.weight");
  return closes_a_branch ? std / std::sqrt(2.0 * static_cast<double>(config.layers)) : std;
}

// Maps that the matrix `name` holds for the offsets of a window. They start alike: an
// entry is then a mean of its tokens, as with one map, and no offset is preferred by chance. Maps
// drawn apart learn several times slower: the query must find each offset's map by itself.
std::int64_t offset_maps(const ModelConfig& config, const std::string& name) {
  if (config.init == Init::kNormal002) return 1;
  if (ends_with(name, "_payload.weight")) return payload_map_count(config.chunk);
  if (ends_with(name, "_gate.weight")) return gate_map_count(config.chunk);
  return 1;
}

// Matches the maps of a layer that were drawn apart (Init::kMatched). Without gradients.
void match(const ModelConfig& config, Attention& attention) {
  const auto drawn = attention.named_parameters();
  const torch::Tensor* const untied = drawn.find("v_proj.weight");
  const torch::Tensor key = drawn["k_proj.weight"];
  const torch::Tensor value = untied != nullptr ? *untied : key;
  for (const auto& [name, exact] : {std::pair{"compressor.k_payload.weight", key},
                                    std::pair{"compressor.v_payload.weight", value}}) {
    if (const torch::Tensor* const payload = drawn.find(name); payload != nullptr) {
      payload->view({-1, exact.size(0), exact.size(1)}).copy_(exact);
    }
  }
  torch::Tensor output = drawn["o_proj.weight"];  // [C, H D]
  const torch::Tensor per_query_head =
      value.view({config.kv_heads, config.head_width, -1})
          .repeat_interleave(config.query_heads / config.kv_heads, 0)
          .flatten(0, 1);  // [H D, C]
  const double std = initial_std(config, "o_proj.weight", output);
  output.copy_(per_query_head.t() * (std / initial_std(config, "v_proj.weight", value)));
}

}  // namespace

std::int64_t DecodeState::bytes() const {
  std::int64_t sum = 0;
  for (const compress::LayerCache& layer : layers) sum += layer.bytes();
  return sum;
}

std::int64_t DecodeState::allocated_bytes() const {
  std::int64_t sum = 0;
  for (const compress::LayerCache& layer : layers) sum += layer.allocated_bytes();
  return sum;
}

DecodeState DecodeState::repeated(std::int64_t times) const {
  DecodeState result{.tokens = tokens, .layers = {}, .rope = rope};
  for (const compress::LayerCache& layer : layers) result.layers.push_back(layer.repeated(times));
  return result;
}

Transformer::Transformer(const ModelConfig& config, std::uint64_t seed) : config_(config) {
  validate(config_, "model");
  body_ = register_module("model", std::make_shared<Body>(config_));
  if (!config_.tied_embeddings) {
    lm_head_ = register_module("lm_head", Mlp::matrix(config_.vocab_size, config_.width));
  }
  initialise(seed);
}

void Transformer::initialise(std::uint64_t seed) {
  torch::NoGradGuard no_grad;
  for (const auto& item : named_parameters()) {
    torch::Tensor parameter = item.value();
    if (ends_with(item.key(), "norm.weight")) {
      parameter.fill_(1);
    } else if (ends_with(item.key(), ".weight")) {
      base::Random random(base::derive_seed(seed, item.key()));
      const double std = initial_std(config_, item.key(), parameter);
      float* const values = parameter.data_ptr<float>();
      const std::int64_t drawn = parameter.numel() / offset_maps(config_, item.key());
      for (std::int64_t i = 0; i < drawn; ++i) {
        values[i] = static_cast<float>(std * random.normal());
      }
      for (std::int64_t i = drawn; i < parameter.numel(); ++i) values[i] = values[i - drawn];
    }  // Gate biases and sinks start at 0.
  }
  if (config_.init != Init::kMatched) return;
  for (const std::shared_ptr<Layer>& layer : body_->layers) match(config_, *layer->self_attn);
}

void Transformer::check(const torch::Tensor& tokens, std::int64_t before) const {
  TORCH_CHECK(tokens.dim() == 2 && tokens.size(1) > 0 && tokens.scalar_type() == torch::kLong,
              "[model] expected int64 tokens [B, T] with T >= 1");
  const std::int64_t length = before + tokens.size(1);
  if (length > config_.context_length) {
    throw base::usage_error("model", "expected at most {} tokens ('context_length'), got {}",
                            config_.context_length, length);
  }
  if (tokens.is_cpu() && tokens.numel() > 0) {
    const auto smallest = tokens.min().item<std::int64_t>();
    const auto largest = tokens.max().item<std::int64_t>();
    if (smallest < 0 || largest >= config_.vocab_size) {
      throw base::usage_error("model", "expected token ids in 0..{}, got {}",
                              config_.vocab_size - 1, smallest < 0 ? smallest : largest);
    }
  }
}

kernels::RopeTable Transformer::rope_table(std::int64_t tokens, std::int64_t first) const {
  return kernels::rope_table(tokens, config_.rope_dims, config_.rope_base,
                             body_->norm->weight.options().requires_grad(false), first);
}

const RopeSpan& Transformer::rope_for(DecodeState& state, std::int64_t added) const {
  constexpr std::int64_t kAhead = 256;  // steps that one table serves
  const std::int64_t longest_window = has_chunked_layer(config_) ? config_.chunk.window : 1;
  const std::int64_t begin = std::max<std::int64_t>(0, state.tokens + 1 - longest_window);
  const std::int64_t end = state.tokens + added;
  if (!state.rope.covers(begin, end)) {
    const std::int64_t count = end + kAhead - begin;
    state.rope = {.first = begin, .count = count, .table = rope_table(count, begin)};
  }
  return state.rope;
}

torch::Tensor Transformer::embed(const torch::Tensor& tokens) const {
  return torch::embedding(body_->embed_tokens->weight, tokens) * config_.embedding_scale;
}

torch::Tensor Transformer::head(const torch::Tensor& x) const {
  const torch::Tensor normed = kernels::rms_norm(x, body_->norm->weight, config_.norm_epsilon);
  return kernels::linear(normed, lm_head_ ? lm_head_->weight : body_->embed_tokens->weight);
}

torch::Tensor Transformer::run(const torch::Tensor& tokens, const torch::Tensor& rows) {
  check(tokens, 0);
  const kernels::RopeTable table = rope_table(tokens.size(1));
  torch::Tensor x = embed(tokens);
  for (std::size_t layer = 0; layer < body_->layers.size(); ++layer) {
    const bool last = layer + 1 == body_->layers.size();
    const auto compute = [table, here = body_->layers[layer],
                          chosen = last ? rows : torch::Tensor()](const torch::Tensor& input) {
      return here->forward(input, chosen, table);
    };
    x = recompute_layers_ ? recomputed(compute, x, body_->layers[layer]->parameters()) : compute(x);
  }
  return head(x);
}

torch::Tensor Transformer::forward(const torch::Tensor& tokens) { return run(tokens, {}); }

torch::Tensor Transformer::forward_at(const torch::Tensor& tokens, const torch::Tensor& rows) {
  TORCH_CHECK(rows.scalar_type() == torch::kLong && rows.numel() > 0,
              "[model] expected int64 rows, at least one");
  // A row beyond its sequence would read the next one's.
  TORCH_CHECK(!rows.is_cpu() || (rows.min().item<std::int64_t>() >= 0 &&
                                 rows.max().item<std::int64_t>() < tokens.size(1)),
              "[model] expected rows within the ", tokens.size(1), " tokens");
  if (rows.dim() == 2) return run(tokens, rows);
  return run(tokens, rows.unsqueeze(0).expand({tokens.size(0), rows.size(0)}));
}

DecodeState Transformer::start(std::int64_t batch, std::int64_t reserved_tokens) const {
  DecodeState state;
  for (const auto& layer : body_->layers) {
    state.layers.push_back(layer->self_attn->start(batch, reserved_tokens));
  }
  return state;
}

void Transformer::shift_grids(std::int64_t later) {
  for (const auto& layer : body_->layers) layer->self_attn->shift_grid(later);
}

const Attention& Transformer::attention(std::int64_t layer) const {
  return *body_->layers.at(static_cast<std::size_t>(layer))->self_attn;
}

void Transformer::prefill_block(const torch::Tensor& tokens, DecodeState& state,
                                std::vector<torch::Tensor>* layer_inputs) {
  const RopeSpan& rope = rope_for(state, tokens.size(1));
  torch::Tensor x = embed(tokens);
  for (std::size_t layer = 0; layer < body_->layers.size(); ++layer) {
    const Layer& here = *body_->layers[layer];
    const torch::Tensor inputs = here.normed(*here.input_norm, x);
    if (layer_inputs != nullptr) layer_inputs->push_back(inputs);
    if (layer + 1 == body_->layers.size()) {
      here.self_attn->absorb(inputs, state.layers[layer], rope);
    } else {
      x = here.decode(x, inputs, state.layers[layer], rope, nullptr);
    }
  }
  state.tokens += tokens.size(1);
}

void Transformer::prefill(const torch::Tensor& tokens, DecodeState& state,
                          std::vector<torch::Tensor>* layer_inputs) {
  check(tokens, state.tokens);
  std::vector<std::vector<torch::Tensor>> parts;
  for (std::int64_t at = 0; at < tokens.size(1); at += kPrefillBlock) {
    const c10::InferenceMode inference;
    const torch::Tensor block = tokens.narrow(1, at, std::min(kPrefillBlock, tokens.size(1) - at));
    prefill_block(block, state, layer_inputs == nullptr ? nullptr : &parts.emplace_back());
  }
  if (layer_inputs == nullptr) return;
  const torch::NoGradGuard no_grad;
  for (std::size_t layer = 0; layer < body_->layers.size(); ++layer) {
    std::vector<torch::Tensor> of_layer;
    for (const auto& part : parts) of_layer.push_back(part[layer]);
    layer_inputs->push_back(torch::cat(of_layer, 1));  // ordinary tensors, as callers expect
  }
}

torch::Tensor Transformer::decode(const torch::Tensor& tokens, DecodeState& state, Look* look) {
  const c10::InferenceMode inference;
  TORCH_CHECK(look == nullptr || look->layers.size() == body_->layers.size(),
              "[model] expected a look into ", body_->layers.size(), " layers");
  check(tokens, state.tokens);
  const RopeSpan& rope = rope_for(state, tokens.size(1));
  torch::Tensor x = embed(tokens);
  for (std::size_t layer = 0; layer < body_->layers.size(); ++layer) {
    const Layer& here = *body_->layers[layer];
    LayerLook* const look_here = look == nullptr ? nullptr : &look->layers[layer];
    x = here.decode(x, here.normed(*here.input_norm, x), state.layers[layer], rope, look_here);
  }
  state.tokens += tokens.size(1);
  return head(x);
}

}  // namespace kvphase::model
