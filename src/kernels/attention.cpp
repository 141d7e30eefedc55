#include "kernels/attention.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/dispatch.h"
#include "kernels/fused.h"

namespace kvphase::kernels {
namespace {

struct Scores {
  torch::Tensor logits;   // [B, Q, G, R, X], R = H/G, X candidates
  torch::Tensor visible;  // bool, broadcastable to logits
};

torch::Tensor first_ends(const Attention& a) {
  return torch::tensor(a.grid.first_end, torch::TensorOptions().dtype(torch::kLong))
      .to(a.rows.device());
}

// Every exact token: X = T.
Scores all_token_scores(const Attention& a, const torch::Tensor& queries) {
  const torch::Tensor token = a.first + torch::arange(a.keys.size(1), a.rows.options());  // [T]
  const torch::Tensor visible = token <= a.rows.unsqueeze(-1);  // [B, Q, T]
  return {.logits = torch::einsum("bqgrd,btgd->bqgrt", {queries, a.keys}),
          .visible = visible.unsqueeze(2).unsqueeze(2)};
}

struct Band {
  torch::Tensor index;    // [B, Q, N] into the exact tokens, clamped
  torch::Tensor visible;  // [B, Q, G or 1, 1, N]
};

// The last N tokens of every query: X = N.
Band band(const Attention& a) {
  const std::int64_t longest_tail = std::max<std::int64_t>(1, a.grid.stride - 1);
  const std::int64_t width = a.recent.tail ? longest_tail : a.recent.window;
  const torch::Tensor token =
      a.rows.unsqueeze(-1) - (width - 1) + torch::arange(width, a.rows.options());  // [B, Q, N]
  torch::Tensor visible = (token >= 0).unsqueeze(2);                                // [B, Q, 1, N]
  if (a.recent.tail) {
    const torch::Tensor first_end = first_ends(a);
    const torch::Tensor row = a.rows.unsqueeze(-1);  // [B, Q, 1]
    const torch::Tensor entries =
        torch::div(row - first_end, a.grid.stride, "floor").clamp_min(-1) + 1;  // [B, Q, G]
    const torch::Tensor begin =
        torch::where(entries > 0, first_end + (entries - 1) * a.grid.stride + 1, 0 * entries);
    visible = visible.logical_and(token.unsqueeze(2) >= begin.unsqueeze(-1));
  }
  return {.index = (token - a.first).clamp(0, a.keys.size(1) - 1), .visible = visible.unsqueeze(3)};
}

torch::Tensor gather_band(const torch::Tensor& tokens, const Band& band) {
  const torch::Tensor batch = torch::arange(tokens.size(0), band.index.options()).view({-1, 1, 1});
  return tokens.index({batch, band.index});  // [B, Q, N, G, D]
}

Scores entry_scores(const Attention& a, const torch::Tensor& queries) {
  const torch::Tensor entry = torch::arange(a.entry_keys.size(1), a.rows.options());
  const torch::Tensor end = first_ends(a).unsqueeze(-1) + entry * a.grid.stride;  // [G, M]
  const torch::Tensor visible = end <= a.rows.unsqueeze(-1).unsqueeze(-1);        // [B, Q, G, M]
  return {.logits = torch::einsum("bqgrd,bmgd->bqgrm", {queries, a.entry_keys}),
          .visible = visible.unsqueeze(3)};
}

}  // namespace

torch::Tensor attend(const Attention& a) {
  const bool fused =
      use_fused({a.queries, a.keys, a.values, a.entry_keys, a.entry_values, a.sinks});
  return fused ? fused_attend(a) : attend_plain(a);
}

torch::Tensor attend_plain(const Attention& a) {
  const std::int64_t batch = a.queries.size(0), rows = a.queries.size(1), heads = a.queries.size(2),
                     width = a.queries.size(3), groups = a.keys.size(2);
  const torch::Tensor queries = a.queries.view({batch, rows, groups, heads / groups, width}) /
                                std::sqrt(static_cast<double>(width));
  const bool all = !a.recent.tail && a.recent.window == Recent::kAll;
  const Band recent = all ? Band{} : band(a);
  const torch::Tensor band_values = all ? torch::Tensor() : gather_band(a.values, recent);

  std::vector<Scores> parts;
  if (all) {
    parts.push_back(all_token_scores(a, queries));
  } else {
    parts.push_back(
        {.logits = torch::einsum("bqgrd,bqngd->bqgrn", {queries, gather_band(a.keys, recent)}),
         .visible = recent.visible});
  }
  const bool entries = a.entry_keys.defined() && a.entry_keys.size(1) > 0;
  if (entries) parts.push_back(entry_scores(a, queries));

  std::vector<torch::Tensor> logits;
  for (const Scores& part : parts) {
    logits.push_back(part.logits.masked_fill(part.visible.logical_not(),
                                             -std::numeric_limits<double>::infinity()));
  }
  if (a.sinks.defined()) {
    logits.push_back(a.sinks.view({1, 1, groups, heads / groups, 1})
                         .expand({batch, rows, groups, heads / groups, 1}));
  }
  const torch::Tensor joined = torch::cat(logits, -1);
  const bool wide = joined.scalar_type() == torch::kDouble;
  const torch::Tensor weights =
      torch::softmax(joined, -1, wide ? torch::kDouble : torch::kFloat).to(joined.scalar_type());

  const std::int64_t exact = parts[0].logits.size(-1);
  const torch::Tensor exact_weights = weights.narrow(-1, 0, exact);
  torch::Tensor output = all ? torch::einsum("bqgrt,btgd->bqgrd", {exact_weights, a.values})
                             : torch::einsum("bqgrn,bqngd->bqgrd", {exact_weights, band_values});
  if (entries) {
    output = output +
             torch::einsum("bqgrm,bmgd->bqgrd",
                           {weights.narrow(-1, exact, parts[1].logits.size(-1)), a.entry_values});
  }
  return output.reshape({batch, rows, heads, width});
}

}  // namespace kvphase::kernels
