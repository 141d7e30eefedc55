#include "lab/attention_weights.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "base/error.h"
#include "compress/gated_pool.h"
#include "kernels/pool.h"
#include "kernels/rms_norm.h"

namespace kvphase::lab {
namespace {

using torch::Tensor;

constexpr double kNever = -std::numeric_limits<double>::infinity();

// [B, X, G, D] as [B, X, H, D].
Tensor for_queries(const Tensor& x, std::int64_t heads) {
  return x.repeat_interleave(heads / x.size(2), 2);
}

Tensor logits_of(const Tensor& queries, const Tensor& keys) {
  return torch::einsum("bhd,bxhd->bhx", {queries, for_queries(keys, queries.size(1))});
}

// One row of 0 and -inf per KV head, as [1, H, X].
Tensor mask_of(const std::vector<std::vector<double>>& by_head, std::int64_t heads,
               const Tensor& like) {
  std::vector<double> flat;
  for (const auto& row : by_head) flat.insert(flat.end(), row.begin(), row.end());
  const auto groups = static_cast<std::int64_t>(by_head.size());
  return torch::tensor(flat, torch::kDouble)
      .view({1, groups, -1})
      .repeat_interleave(heads / groups, 1)
      .to(like.scalar_type());
}

Tensor parameter(const Opened& opened, std::int64_t layer, const std::string& name) {
  const Tensor* found = opened.network->named_parameters().find(
      fmt::format("model.layers.{}.self_attn.{}", layer, name));
  return found == nullptr ? Tensor() : *found;
}

// The payload of one token per prompt, [B, C] -> [B, K', G, D].
Tensor payloads(const Opened& opened, std::int64_t layer, const Tensor& inputs) {
  const model::ModelConfig& config = opened.config();
  const char* branch = config.chunk.tied_kv ? "k" : "v";
  Tensor maps = parameter(opened, layer, fmt::format("compressor.{}_payload.weight", branch));
  if (!maps.defined()) maps = parameter(opened, layer, fmt::format("{}_proj.weight", branch));
  return torch::linear(inputs, maps).view({inputs.size(0), -1, config.kv_heads, config.head_width});
}

}  // namespace

bool reaches_far(const Opened& opened, std::int64_t layer) {
  return opened.config().attention.at(static_cast<std::size_t>(layer)) !=
         model::AttentionKind::kLocal;
}

Weights attention_weights(const kernels::Attention& a) {
  TORCH_CHECK(a.queries.size(1) == 1, "[lab] expected one query per sequence");
  const std::int64_t heads = a.queries.size(2), groups = a.keys.size(2), exact = a.keys.size(1);
  const auto row = a.rows[0][0].item<std::int64_t>();
  const Tensor queries = a.queries.select(1, 0) / std::sqrt(static_cast<double>(a.queries.size(3)));
  const bool entries = a.entry_keys.defined() && a.entry_keys.size(1) > 0;
  std::vector<std::vector<double>> token_mask, entry_mask;
  for (std::int64_t g = 0; g < groups; ++g) {
    const auto head = static_cast<std::size_t>(g);
    token_mask.emplace_back();
    for (std::int64_t t = 0; t < exact; ++t) {
      const std::int64_t position = a.first + t;
      const bool visible = a.recent.tail ? position >= a.grid.tail_begin(head, row + 1)
                           : a.recent.window == kernels::Recent::kAll
                               ? true
                               : position > row - a.recent.window;
      token_mask.back().push_back(visible ? 0 : kNever);
    }
    entry_mask.emplace_back();
    for (std::int64_t m = 0; entries && m < a.entry_keys.size(1); ++m) {
      entry_mask.back().push_back(a.grid.end(head, m) <= row ? 0 : kNever);
    }
  }
  std::vector<Tensor> logits = {logits_of(queries, a.keys) + mask_of(token_mask, heads, queries)};
  if (entries) {
    logits.push_back(logits_of(queries, a.entry_keys) + mask_of(entry_mask, heads, queries));
  }
  if (a.sinks.defined()) {
    logits.push_back(a.sinks.detach().view({1, heads, 1}).expand({queries.size(0), heads, 1}));
  }
  const Tensor weights = torch::softmax(torch::cat(logits, -1), -1);
  const std::int64_t count = entries ? a.entry_keys.size(1) : 0;
  return {.exact = weights.narrow(-1, 0, exact),
          .entries = weights.narrow(-1, exact, count),
          .sink = a.sinks.defined() ? weights.select(-1, exact + count)
                                    : torch::zeros({queries.size(0), heads}, weights.options())};
}

Held held(const Opened& opened, std::int64_t layer, const Tensor& inputs,
          const kernels::Attention& attention, const std::vector<std::int64_t>& position) {
  const model::ModelConfig& config = opened.config();
  const auto batch = static_cast<std::int64_t>(position.size());
  const std::int64_t groups = config.kv_heads;
  const auto longs = torch::TensorOptions().dtype(torch::kLong);
  const Tensor rows = torch::arange(batch, longs).unsqueeze(1);    // [B, 1]
  const Tensor heads = torch::arange(groups, longs).unsqueeze(0);  // [1, G]
  const Tensor where = torch::tensor(position, longs).unsqueeze(1);
  if (config.attention[static_cast<std::size_t>(layer)] != model::AttentionKind::kChunked) {
    const Tensor value = attention.values.index({rows, where - attention.first, heads});
    return {.entry = where.expand({batch, groups}), .as_written = value, .alone = value};
  }

  const kernels::ChunkGrid& grid = attention.grid;
  const auto* pool =
      dynamic_cast<const compress::GatedPool*>(opened.network->attention(layer).compressor());
  TORCH_CHECK(pool != nullptr, "[lab] expected a gated pool");
  const std::int64_t tokens = inputs.size(1);
  const Tensor gates = pool->weights(inputs, grid, !config.chunk.tied_kv)
                           .mean(-1)
                           .to(torch::kDouble)
                           .expand({batch, -1, -1, -1})
                           .contiguous();  // [B, M, G, W]
  const auto gate = gates.accessor<double, 4>();
  const Tensor entry = torch::empty({batch, groups}, longs), map = torch::empty_like(entry),
               start = torch::empty_like(entry);
  auto entry_at = entry.accessor<std::int64_t, 2>(), map_at = map.accessor<std::int64_t, 2>(),
       start_at = start.accessor<std::int64_t, 2>();
  Tensor payload = payloads(opened, layer, inputs.index({rows.squeeze(1), where.squeeze(1)}));
  for (std::int64_t b = 0; b < batch; ++b) {
    const std::int64_t p = position[static_cast<std::size_t>(b)];
    for (std::int64_t g = 0; g < groups; ++g) {
      const auto head = static_cast<std::size_t>(g);
      double best = -1;
      for (std::int64_t m = 0; m < grid.completed(head, tokens); ++m) {
        const std::int64_t offset = p - (grid.end(head, m) - grid.window + 1);
        if (offset < 0 || offset >= grid.window || gate[b][m][g][offset] <= best) continue;
        best = gate[b][m][g][offset];
        entry_at[b][g] = m;
        map_at[b][g] = kernels::map_of_offset(grid, payload.size(1), offset);
        start_at[b][g] = config.chunk.entry_position == model::EntryPosition::kWindowStart
                             ? grid.begin(head, m)
                             : grid.end(head, m);
      }
      if (best < 0) {
        throw base::usage_error("readout",
                                "expected the answer inside a complete window, got position {} of "
                                "{}; use more --demonstrations",
                                p, tokens);
      }
    }
  }
  Held result{.entry = entry, .as_written = attention.entry_values.index({rows, entry, heads})};
  result.alone = payload.index({rows, map, heads});  // [B, G, D]
  if (config.chunk.tied_kv) {
    // Tied values are keys: normalised and rotated where their entry is.
    const kernels::RopeTable table =
        kernels::rope_table(tokens, config.rope_dims, config.rope_base, inputs.options());
    const Tensor norm = parameter(opened, layer, "k_norm.weight");
    result.alone = kernels::norm_rope(result.alone.unsqueeze(1).contiguous(), norm,
                                      config.norm_epsilon, table.at(start.unsqueeze(1)))
                       .squeeze(1);
  }
  return result;
}

}  // namespace kvphase::lab
