// Which tokens one compressed entry is built from, and from when on it is visible. Knows no
// tensors.
//
// KV head g's windows are W tokens long and a new one starts every S <= W tokens, on a grid that
// reaches back before the sequence: the windows that begin before token 0 but end in the sequence
// are cut at token 0 (their missing offsets have gate weight 0). So with W = S and shift s > 0 a
// short first window holds the tokens 0..s-1, and with W > S the first windows have no predecessor
// to overlap with, as in DeepSeek's kernel. Entry j of head g has
//   end(j) = first_end[g] + j S,  begin(j) = max(0, end(j) - W + 1),  j = 0, 1, ...
// A token keeps its offset when its window is cut: the last token always has offset W - 1.
//
// Visibility: the entry is written when its last token is processed, and the query at that very
// token already sees it: entry j is visible to the query at t iff end(j) <= t.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace kvphase::kernels {

struct ChunkGrid {
  std::int64_t window = 1;              // W
  std::int64_t stride = 1;              // S, 1..W
  std::vector<std::int64_t> first_end;  // [G] last token of each KV head's first window, >= 0

  std::int64_t end(std::size_t head, std::int64_t entry) const {
    return first_end[head] + entry * stride;
  }
  std::int64_t begin(std::size_t head, std::int64_t entry) const {
    return std::max<std::int64_t>(0, end(head, entry) - window + 1);
  }
  // Entries complete within the first `tokens` tokens = entries visible to the query at tokens - 1.
  std::int64_t completed(std::size_t head, std::int64_t tokens) const {
    return tokens <= first_end[head] ? 0 : (tokens - 1 - first_end[head]) / stride + 1;
  }
  // The most over heads.
  std::int64_t completed(std::int64_t tokens) const {
    std::int64_t most = 0;
    for (std::size_t head = 0; head < first_end.size(); ++head) {
      most = std::max(most, completed(head, tokens));
    }
    return most;
  }
  // First token that is in no window completed within the first `tokens` tokens: where the
  // uncompressed tail begins.
  std::int64_t tail_begin(std::size_t head, std::int64_t tokens) const {
    const std::int64_t entries = completed(head, tokens);
    return entries == 0 ? 0 : end(head, entries - 1) + 1;
  }
};

// The grid of windows that start at shift[g] + k S for every integer k, from the first that ends in
// the sequence on.
inline ChunkGrid make_chunk_grid(std::int64_t window, std::int64_t stride,
                                 const std::vector<std::int64_t>& shifts) {
  ChunkGrid grid{.window = window, .stride = stride, .first_end = {}};
  for (const std::int64_t shift : shifts) grid.first_end.push_back((shift + window - 1) % stride);
  return grid;
}

}  // namespace kvphase::kernels
