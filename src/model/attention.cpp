#include "model/attention.h"

#include <algorithm>
#include <utility>

#include "compress/gated_pool.h"
#include "kernels/rms_norm.h"

namespace kvphase::model {
namespace {

std::shared_ptr<compress::Compressor> make_compressor(const ModelConfig& config) {
  const ChunkConfig& chunk = config.chunk;
  const std::int64_t gate_width = chunk.gate == GateKind::kUniform  ? 0
                                  : chunk.gate == GateKind::kScalar ? 1
                                                                    : config.head_width;
  return std::make_shared<compress::GatedPool>(compress::GatedPoolOptions{
      .width = config.width,
      .kv_heads = config.kv_heads,
      .head_width = config.head_width,
      .window = chunk.window,
      .stride = chunk.stride,
      .gate_width = gate_width,
      .gate_maps = gate_map_count(chunk),
      .gate_bias = chunk.gate_bias,
      .payload_maps = chunk.payload == PayloadKind::kShared ? 0 : payload_map_count(chunk),
      .tied = chunk.tied_kv});
}

// Positions at which the entries of the grid are rotated: [M, G]. Meaningless entries get a valid
// one.
torch::Tensor entry_positions(const kernels::ChunkGrid& grid, std::int64_t tokens,
                              std::int64_t first, EntryPosition position, torch::Device device) {
  std::vector<std::int64_t> positions;
  const std::int64_t entries = grid.completed(tokens);
  for (std::int64_t entry = 0; entry < entries; ++entry) {
    for (std::size_t head = 0; head < grid.first_end.size(); ++head) {
      const bool at_start = position == EntryPosition::kWindowStart;
      const std::int64_t token = at_start ? grid.begin(head, entry) : grid.end(head, entry);
      positions.push_back(first + std::min(token, tokens - 1));
    }
  }
  return torch::tensor(positions, torch::TensorOptions().dtype(torch::kLong))
      .view({entries, -1})
      .to(device);
}

torch::Tensor append(const torch::Tensor& old, const torch::Tensor& more) {
  return old.defined() && old.size(1) > 0 ? torch::cat({old, more}, 1) : more;
}

// The last tokens from `from` on, in memory of their own.
torch::Tensor keep_from(const torch::Tensor& tokens, std::int64_t from) {
  return tokens.narrow(1, from, tokens.size(1) - from).clone();
}

}  // namespace

torch::Tensor gather_rows(const torch::Tensor& x, const torch::Tensor& rows) {
  const std::int64_t batch = x.size(0), tokens = x.size(1), width = x.size(2);
  const torch::Tensor start = torch::arange(batch, rows.options()).unsqueeze(1) * tokens;
  return x.reshape({batch * tokens, width})
      .index_select(0, (rows + start).reshape(-1))
      .view({batch, rows.size(1), width});
}

Attention::Attention(const ModelConfig& config, std::int64_t layer)
    : config_(config), layer_(layer) {
  const AttentionKind kind = config.attention.at(static_cast<std::size_t>(layer));
  const std::int64_t width = config.width, head = config.head_width;
  chunked_ = kind == AttentionKind::kChunked;
  tied_ = chunked_ && config.chunk.tied_kv;
  shift_grid(0);
  recent_.tail = chunked_ && config.chunk.recent == RecentKind::kUncompressedTail;
  recent_.window = kind == AttentionKind::kFull ? kernels::Recent::kAll : config.local_window;

  const auto weight = [this](const std::string& name, torch::IntArrayRef shape) {
    return register_module(name, std::make_shared<Weight>(shape));
  };
  q_proj_ = weight("q_proj", {config.query_heads * head, width});
  k_proj_ = weight("k_proj", {config.kv_heads * head, width});
  if (!tied_) v_proj_ = weight("v_proj", {config.kv_heads * head, width});
  o_proj_ = weight("o_proj", {width, config.query_heads * head});
  if (config.qk_norm) {
    q_norm_ = weight("q_norm", {head});
    k_norm_ = weight("k_norm", {head});
  }
  if (config.attention_sink) {
    sinks_ = register_parameter("sinks", torch::zeros({config.query_heads}));
  }
  if (chunked_) compressor_ = register_module("compressor", make_compressor(config));
}

void Attention::shift_grid(std::int64_t later) {
  if (chunked_) grid_ = chunk_grid(config_, layer_, later);
}

torch::Tensor Attention::split_heads(const torch::Tensor& x) const {
  return x.unflatten(-1, {-1, config_.head_width});
}

Attention::Projected Attention::project(const torch::Tensor& inputs, bool with_queries) const {
  std::vector<torch::Tensor> matrices = {k_proj_->weight};
  if (with_queries) matrices.push_back(q_proj_->weight);
  if (!tied_) matrices.push_back(v_proj_->weight);
  if (chunked_) {
    for (const torch::Tensor& matrix : compressor_->projections()) matrices.push_back(matrix);
  }
  std::vector<std::int64_t> sizes;
  for (const torch::Tensor& matrix : matrices) sizes.push_back(matrix.size(0));
  const std::vector<torch::Tensor> products =
      torch::linear(inputs, torch::cat(matrices)).split_with_sizes(sizes, -1);
  std::size_t next = 0;
  Projected projected;
  projected.keys = split_heads(products[next++]);
  if (with_queries) projected.queries = split_heads(products[next++]);
  if (!tied_) projected.values = split_heads(products[next++]);
  while (next < products.size()) projected.compressor.push_back(products[next++]);
  return projected;
}

torch::Tensor Attention::finish_query(const torch::Tensor& queries,
                                      const kernels::RopeTable& table) const {
  return kernels::norm_rope(queries, q_norm_ ? q_norm_->weight : torch::Tensor(),
                            config_.norm_epsilon, table);
}

torch::Tensor Attention::finish_key(const torch::Tensor& keys,
                                    const kernels::RopeTable& table) const {
  return kernels::norm_rope(keys, k_norm_ ? k_norm_->weight : torch::Tensor(), config_.norm_epsilon,
                            table);
}

Attention::Keyed Attention::entries(const torch::Tensor& inputs, const Projected& projected,
                                    const kernels::ChunkGrid& grid, std::int64_t first,
                                    const kernels::RopeTable& table) const {
  const compress::Entries pooled =
      compressor_->compress(inputs, projected.compressor, projected.keys, projected.values, grid);
  const torch::Tensor positions = entry_positions(
      grid, projected.keys.size(1), first, config_.chunk.entry_position, projected.keys.device());
  Keyed entries;
  entries.keys = finish_key(pooled.keys, table.at(positions));
  entries.values = tied_ ? entries.keys : pooled.values;
  return entries;
}

torch::Tensor Attention::forward(const torch::Tensor& inputs, const torch::Tensor& rows,
                                 const torch::Tensor& queries, const kernels::RopeTable& table) {
  const std::int64_t batch = inputs.size(0), tokens = inputs.size(1);
  const torch::Tensor all =
      torch::arange(tokens, torch::TensorOptions().dtype(torch::kLong).device(inputs.device()));
  const Projected projected = project(inputs, !rows.defined());

  kernels::Attention attention{.grid = grid_, .recent = recent_};
  attention.keys = finish_key(projected.keys, table.at(all).per_head());
  attention.values = tied_ ? attention.keys : projected.values;
  if (rows.defined()) {
    attention.rows = rows;
    const torch::Tensor chosen = split_heads(torch::linear(queries, q_proj_->weight));
    attention.queries = finish_query(chosen, table.at(rows).per_head());
  } else {
    attention.rows = all.expand({batch, tokens});
    attention.queries = finish_query(projected.queries, table.at(all).per_head());
  }
  if (chunked_ && grid_.completed(tokens) > 0) {
    const Keyed entry = entries(inputs, projected, grid_, 0, table);
    attention.entry_keys = entry.keys;
    attention.entry_values = entry.values;
  }
  attention.sinks = sinks_;
  return torch::linear(kernels::attend(attention).flatten(2), o_proj_->weight);
}

compress::LayerCache Attention::start(std::int64_t batch) const {
  const torch::TensorOptions options = k_proj_->weight.options().requires_grad(false);
  compress::LayerCache cache;
  cache.keys = torch::empty({batch, 0, config_.kv_heads, config_.head_width}, options);
  if (!tied_) cache.values = cache.keys;
  if (!chunked_) return cache;
  const auto heads = static_cast<std::size_t>(config_.kv_heads);
  cache.entry_keys.assign(heads, torch::empty({batch, 0, config_.head_width}, options));
  if (!tied_) cache.entry_values = cache.entry_keys;
  cache.pending = torch::empty({batch, 0, config_.width}, options);
  return cache;
}

kernels::Attention Attention::extend(const torch::Tensor& inputs, compress::LayerCache& cache,
                                     const kernels::RopeTable& table) const {
  const std::int64_t batch = inputs.size(0), added = inputs.size(1);
  const std::int64_t before = cache.tokens, after = before + added;
  const torch::Tensor positions = torch::arange(
      before, after, torch::TensorOptions().dtype(torch::kLong).device(inputs.device()));
  const kernels::RopeTable here = table.at(positions).per_head();

  kernels::Attention attention{.grid = grid_, .recent = recent_};
  attention.rows = positions.expand({batch, added});
  attention.sinks = sinks_;
  attention.first = before - cache.keys.size(1);

  // Windows that need older tokens are projected again from their kept inputs.
  const torch::Tensor waiting = append(cache.pending, inputs);
  const Projected projected = project(waiting, false);
  const std::int64_t old = waiting.size(1) - added, first = before - old;

  attention.keys = append(cache.keys, finish_key(projected.keys.narrow(1, old, added), here));
  attention.values =
      tied_ ? attention.keys : append(cache.values, projected.values.narrow(1, old, added));

  if (chunked_) {
    const kernels::ChunkGrid next = compress::upcoming(grid_, before, first);
    if (next.completed(waiting.size(1)) > 0) {
      const Keyed fresh = entries(waiting, projected, next, first, table);
      for (std::size_t head = 0; head < cache.entry_keys.size(); ++head) {
        const auto index = static_cast<std::int64_t>(head);
        const std::int64_t count = next.completed(head, waiting.size(1));
        const auto extend = [&](torch::Tensor& old_entries, const torch::Tensor& more) {
          old_entries = torch::cat({old_entries, more.select(2, index).narrow(1, 0, count)}, 1);
        };
        extend(cache.entry_keys[head], fresh.keys);
        if (!tied_) extend(cache.entry_values[head], fresh.values);
      }
    }
    attention.entry_keys = compress::join_heads(cache.entry_keys);
    attention.entry_values =
        tied_ ? attention.entry_keys : compress::join_heads(cache.entry_values);
    cache.pending = keep_from(waiting, compress::first_pending(grid_, after) - first);
  }
  const std::int64_t kept = compress::first_recent(recent_, grid_, after) - attention.first;
  cache.keys = keep_from(attention.keys, kept);
  if (!tied_) cache.values = keep_from(attention.values, kept);
  cache.tokens = after;
  return attention;
}

void Attention::absorb(const torch::Tensor& inputs, compress::LayerCache& cache,
                       const kernels::RopeTable& table) {
  extend(inputs, cache, table);
}

torch::Tensor Attention::decode(const torch::Tensor& inputs, compress::LayerCache& cache,
                                const kernels::RopeTable& table, LayerLook* look) {
  kernels::Attention attention = extend(inputs, cache, table);
  attention.queries = finish_query(split_heads(torch::linear(inputs, q_proj_->weight)),
                                   table.at(attention.rows.select(0, 0)).per_head());
  torch::Tensor outputs = kernels::attend(attention);
  if (look != nullptr) {
    if (!look->edits.empty()) outputs = outputs.clone();
    for (const HeadEdit& edit : look->edits) {
      outputs.narrow(0, edit.first_row, edit.rows)
          .narrow(2, edit.first_head, edit.heads)
          .copy_(edit.values);
    }
    look->inputs = inputs;
    look->attention = std::move(attention);
    look->outputs = outputs;
  }
  return torch::linear(outputs.flatten(2), o_proj_->weight);
}

}  // namespace kvphase::model
