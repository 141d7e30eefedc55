#include "compress/chunk_cache.h"

#include <algorithm>

namespace kvphase::compress {
namespace {

std::int64_t bytes_of(const torch::Tensor& tensor) {
  if (!tensor.defined()) return 0;
  return tensor.numel() * static_cast<std::int64_t>(tensor.element_size());
}

}  // namespace

std::int64_t LayerCache::bytes() const {
  std::int64_t sum = bytes_of(keys) + bytes_of(values) + bytes_of(pending);
  for (const torch::Tensor& head : entry_keys) sum += bytes_of(head);
  for (const torch::Tensor& head : entry_values) sum += bytes_of(head);
  return sum;
}

std::int64_t first_recent(const kernels::Recent& recent, const kernels::ChunkGrid& grid,
                          std::int64_t tokens) {
  if (!recent.tail) {
    return recent.window == kernels::Recent::kAll
               ? 0
               : std::max<std::int64_t>(0, tokens - recent.window);
  }
  std::int64_t first = tokens;
  for (std::size_t head = 0; head < grid.first_end.size(); ++head) {
    first = std::min(first, grid.tail_begin(head, tokens));
  }
  return first;
}

std::int64_t first_pending(const kernels::ChunkGrid& grid, std::int64_t tokens) {
  std::int64_t first = tokens;
  for (std::size_t head = 0; head < grid.first_end.size(); ++head) {
    first = std::min(first, grid.begin(head, grid.completed(head, tokens)));
  }
  return first;
}

kernels::ChunkGrid upcoming(const kernels::ChunkGrid& grid, std::int64_t tokens,
                            std::int64_t first) {
  kernels::ChunkGrid next = grid;
  for (std::size_t head = 0; head < grid.first_end.size(); ++head) {
    next.first_end[head] = grid.end(head, grid.completed(head, tokens)) - first;
  }
  return next;
}

torch::Tensor join_heads(const std::vector<torch::Tensor>& heads) {
  std::int64_t longest = 0;
  for (const torch::Tensor& head : heads) longest = std::max(longest, head.size(1));
  std::vector<torch::Tensor> padded;
  for (const torch::Tensor& head : heads) {
    const torch::Tensor zeros =
        torch::zeros({head.size(0), longest - head.size(1), head.size(2)}, head.options());
    padded.push_back(torch::cat({head, zeros}, 1));
  }
  return torch::stack(padded, 2);
}

}  // namespace kvphase::compress
