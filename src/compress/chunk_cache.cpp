#include "compress/chunk_cache.h"

#include <algorithm>

namespace kvphase::compress {

std::int64_t LayerCache::bytes() const {
  return keys.bytes() + values.bytes() + entry_keys.bytes() + entry_values.bytes() +
         pending.bytes();
}

std::int64_t LayerCache::allocated_bytes() const {
  return keys.allocated_bytes() + values.allocated_bytes() + entry_keys.allocated_bytes() +
         entry_values.allocated_bytes() + pending.allocated_bytes();
}

std::vector<torch::Tensor> LayerCache::tensors() const {
  std::vector<torch::Tensor> all;
  for (const Rows* rows : {&keys, &values, &pending}) {
    if (rows->defined()) all.push_back(rows->view());
  }
  for (const HeadRows* rows : {&entry_keys, &entry_values}) {
    const std::int64_t heads = rows->defined() ? rows->view().size(2) : 0;
    for (std::int64_t head = 0; head < heads; ++head) all.push_back(rows->head(head));
  }
  return all;
}

LayerCache LayerCache::repeated(std::int64_t times) const {
  LayerCache result{.tokens = tokens};
  for (const auto member : {&LayerCache::keys, &LayerCache::values, &LayerCache::pending}) {
    const Rows& rows = this->*member;
    if (!rows.defined()) continue;
    std::vector<std::int64_t> counts(static_cast<std::size_t>(rows.view().dim()), 1);
    counts.front() = times;
    result.*member = Rows::of(rows.view().repeat(counts));
  }
  result.entry_keys = entry_keys.repeated(times);
  result.entry_values = entry_values.repeated(times);
  return result;
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

}  // namespace kvphase::compress
