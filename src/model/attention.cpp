#include "model/attention.h"

#include <algorithm>
#include <utility>

#include "compress/gated_pool.h"
#include "kernels/linear.h"
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

// What is attended to in memory of its own: a cache's may be written again when the cache is gone.
kernels::Attention detached(kernels::Attention attention, bool tied) {
  for (torch::Tensor* tensor : {&attention.keys, &attention.entry_keys}) {
    if (tensor->defined()) *tensor = tensor->clone();
  }
  for (torch::Tensor* tensor : {&attention.values, &attention.entry_values}) {
    if (tensor->defined() && !tied) *tensor = tensor->clone();
  }
  if (tied) {
    attention.values = attention.keys;
    attention.entry_values = attention.entry_keys;
  }
  return attention;
}

}  // namespace

torch::Tensor gather_rows(const torch::Tensor& x, const torch::Tensor& rows) {
  const std::int64_t batch = x.size(0), tokens = x.size(1), width = x.size(2);
  const torch::Tensor start = torch::arange(batch, rows.options()).unsqueeze(1) * tokens;
  return x.reshape({batch * tokens, width})
      .index_select(0, (rows + start).reshape(-1))
      .view({batch, rows.size(1), width});
}

kernels::RopeTable RopeSpan::at(std::int64_t begin, std::int64_t n) const {
  if (!table.cos.defined()) return {};
  return kernels::RopeTable{.cos = table.cos.narrow(0, begin - first, n),
                            .sin = table.sin.narrow(0, begin - first, n)}
      .per_head();
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

Attention::Projected Attention::project(const torch::Tensor& inputs, bool with_queries,
                                        bool with_compressor) const {
  std::vector<torch::Tensor> matrices = {k_proj_->weight};
  if (with_queries) matrices.push_back(q_proj_->weight);
  if (!tied_) matrices.push_back(v_proj_->weight);
  if (with_compressor) {
    for (const torch::Tensor& matrix : compressor_->projections()) matrices.push_back(matrix);
  }
  std::vector<std::int64_t> sizes;
  for (const torch::Tensor& matrix : matrices) sizes.push_back(matrix.size(0));
  const std::vector<torch::Tensor> products =
      kernels::linear(inputs, torch::cat(matrices)).split_with_sizes(sizes, -1);
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

compress::Entries Attention::entries(const torch::Tensor& inputs, const Projected& projected,
                                     const kernels::ChunkGrid& grid, std::int64_t first,
                                     const RopeSpan& rope) const {
  compress::Entries entries =
      compressor_->compress(inputs, projected.compressor, projected.keys, projected.values, grid);
  const torch::Tensor positions =
      entry_positions(grid, projected.keys.size(1), first - rope.first,
                      config_.chunk.entry_position, projected.keys.device());
  entries.keys = finish_key(entries.keys, rope.table.at(positions));
  if (tied_) entries.values = entries.keys;
  return entries;
}

torch::Tensor Attention::forward(const torch::Tensor& inputs, const torch::Tensor& rows,
                                 const torch::Tensor& queries, const kernels::RopeTable& table) {
  const std::int64_t batch = inputs.size(0), tokens = inputs.size(1);
  const torch::Tensor all =
      torch::arange(tokens, torch::TensorOptions().dtype(torch::kLong).device(inputs.device()));
  const Projected projected = project(inputs, !rows.defined(), chunked_);

  kernels::Attention attention{.grid = grid_, .recent = recent_};
  attention.keys = finish_key(projected.keys, table.at(all).per_head());
  attention.values = tied_ ? attention.keys : projected.values;
  if (rows.defined()) {
    attention.rows = rows;
    const torch::Tensor chosen = split_heads(kernels::linear(queries, q_proj_->weight));
    attention.queries = finish_query(chosen, table.at(rows).per_head());
  } else {
    attention.rows = all.expand({batch, tokens});
    attention.queries = finish_query(projected.queries, table.at(all).per_head());
  }
  if (chunked_ && grid_.completed(tokens) > 0) {
    const compress::Entries entry =
        entries(inputs, projected, grid_, 0, {.count = tokens, .table = table});
    attention.entry_keys = entry.keys;
    attention.entry_values = entry.values;
  }
  attention.sinks = sinks_;
  return kernels::linear(kernels::attend(attention).flatten(2), o_proj_->weight);
}

compress::LayerCache Attention::start(std::int64_t batch, std::int64_t reserved_tokens) const {
  const torch::TensorOptions options = k_proj_->weight.options().requires_grad(false);
  const torch::Tensor token =
      torch::empty({batch, 0, config_.kv_heads, config_.head_width}, options);
  const bool all = !chunked_ && recent_.window == kernels::Recent::kAll;
  compress::LayerCache cache;
  cache.keys = compress::Rows(token, all ? reserved_tokens : 0);
  if (!tied_) cache.values = cache.keys;
  if (!chunked_) return cache;
  cache.entry_keys = compress::HeadRows(token, grid_.completed(reserved_tokens));
  if (!tied_) cache.entry_values = cache.entry_keys;
  cache.pending = compress::Rows(torch::empty({batch, 0, config_.width}, options));
  return cache;
}

void Attention::add_entries(const torch::Tensor& waiting, const Projected& projected,
                            std::int64_t before, compress::LayerCache& cache,
                            const RopeSpan& rope) const {
  const std::int64_t length = waiting.size(1), first = cache.tokens - length;
  const kernels::ChunkGrid next = compress::upcoming(grid_, before, first);
  if (next.completed(length) == 0) return;
  const compress::Entries fresh = entries(waiting, projected, next, first, rope);
  std::vector<std::int64_t> counts;
  for (std::size_t head = 0; head < next.first_end.size(); ++head) {
    counts.push_back(next.completed(head, length));
  }
  cache.entry_keys.append(fresh.keys, counts);
  if (!tied_) cache.entry_values.append(fresh.values, counts);
}

void Attention::add_windows(const torch::Tensor& waiting, std::int64_t before,
                            compress::LayerCache& cache, const RopeSpan& rope) const {
  const std::int64_t first = cache.tokens - waiting.size(1), width = config_.head_width;
  const auto all = static_cast<std::size_t>(config_.kv_heads);
  for (std::size_t head = 0, next = 0; head < all; head = next) {
    next = head + 1;  // heads on one grid go together
    while (next < all && grid_.first_end[next] == grid_.first_end[head]) ++next;
    const std::int64_t entry = grid_.completed(head, before);
    if (grid_.completed(head, cache.tokens) == entry) continue;
    const auto first_head = static_cast<std::int64_t>(head);
    const auto heads = static_cast<std::int64_t>(next - head);
    const std::int64_t begin = grid_.begin(head, entry), end = grid_.end(head, entry);
    const auto rows_of = [&](const std::shared_ptr<Weight>& matrix) {
      return matrix ? matrix->weight.narrow(0, first_head * width, heads * width) : torch::Tensor();
    };
    const compress::Entries fresh =
        compressor_->compress_window(waiting.narrow(1, begin - first, end - begin + 1), first_head,
                                     heads, rows_of(k_proj_), rows_of(v_proj_));
    const bool at_start = config_.chunk.entry_position == EntryPosition::kWindowStart;
    cache.entry_keys.append_one(finish_key(fresh.keys, rope.at(at_start ? begin : end, 1)),
                                first_head);
    if (!tied_) cache.entry_values.append_one(fresh.values, first_head);
  }
}

kernels::Attention Attention::extend(const torch::Tensor& inputs, compress::LayerCache& cache,
                                     const RopeSpan& rope) const {
  const std::int64_t batch = inputs.size(0), added = inputs.size(1), before = cache.tokens;
  const torch::Tensor positions = torch::arange(
      before, before + added, torch::TensorOptions().dtype(torch::kLong).device(inputs.device()));
  cache.tokens += added;

  kernels::Attention attention{.grid = grid_, .recent = recent_};
  attention.rows = positions.expand({batch, added});
  attention.sinks = sinks_;
  attention.first = before - cache.keys.size();

  torch::Tensor waiting = inputs;
  if (chunked_) {
    cache.pending.append(inputs);
    waiting = cache.pending.view();
  }
  const bool all_at_once = chunked_ && added > grid_.stride;
  Projected projected;
  if (all_at_once || batch * added >= kRowsToJoin) {
    projected = project(all_at_once ? waiting : inputs, false, all_at_once);
  } else {
    projected.keys = split_heads(kernels::linear(inputs, k_proj_->weight));
    if (!tied_) projected.values = split_heads(kernels::linear(inputs, v_proj_->weight));
  }
  if (all_at_once) {
    add_entries(waiting, projected, before, cache, rope);
  } else if (chunked_) {
    add_windows(waiting, before, cache, rope);
  }
  const std::int64_t old = projected.keys.size(1) - added;
  cache.keys.append(finish_key(projected.keys.narrow(1, old, added), rope.at(before, added)));
  if (!tied_) cache.values.append(projected.values.narrow(1, old, added));

  attention.keys = cache.keys.view();
  attention.values = tied_ ? attention.keys : cache.values.view();
  if (chunked_) {
    attention.entry_keys = cache.entry_keys.view();
    attention.entry_values = tied_ ? attention.entry_keys : cache.entry_values.view();
  }
  return attention;
}

void Attention::forget(compress::LayerCache& cache) const {
  const std::int64_t tokens = cache.tokens;
  const std::int64_t kept = tokens - compress::first_recent(recent_, grid_, tokens);
  cache.keys.drop_front(cache.keys.size() - kept);
  if (!tied_) cache.values.drop_front(cache.values.size() - kept);
  if (!chunked_) return;
  const std::int64_t waiting = tokens - compress::first_pending(grid_, tokens);
  cache.pending.drop_front(cache.pending.size() - waiting);
}

void Attention::absorb(const torch::Tensor& inputs, compress::LayerCache& cache,
                       const RopeSpan& rope) {
  extend(inputs, cache, rope);
  forget(cache);
}

torch::Tensor Attention::decode(const torch::Tensor& inputs, compress::LayerCache& cache,
                                const RopeSpan& rope, LayerLook* look) {
  const std::int64_t before = cache.tokens;
  kernels::Attention attention = extend(inputs, cache, rope);
  attention.queries = finish_query(split_heads(kernels::linear(inputs, q_proj_->weight)),
                                   rope.at(before, inputs.size(1)));
  torch::Tensor outputs = kernels::attend(attention);
  if (look != nullptr) {
    if (!look->edits.empty()) outputs = outputs.clone();
    for (const HeadEdit& edit : look->edits) {
      outputs.narrow(0, edit.first_row, edit.rows)
          .narrow(2, edit.first_head, edit.heads)
          .copy_(edit.values);
    }
    look->inputs = inputs;
    look->attention = detached(std::move(attention), tied_);
    look->outputs = outputs;
  }
  forget(cache);  // only now: what is dropped may be written by a copy of the cache
  return kernels::linear(outputs.flatten(2), o_proj_->weight);
}

}  // namespace kvphase::model
