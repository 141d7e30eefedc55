// Attention for many queries at once, as blocks of matrix products with one streaming softmax
// (Dao et al., FlashAttention, arXiv 2205.14135: scores exist for one tile of queries and keys at a
// time, and again in the backward pass). Vectorised with Highway: the best instruction set of the
// processor is chosen when the program runs.
//
// The H / G query heads that read one KV head stand in one tile: a tile's rows are `kTileRows`
// consecutive (query, head) pairs. A tile multiplies only with the keys that some row of it sees,
// and masks only keys that not every row sees.
#pragma once

#include <cstdint>

#include "kernels/loops.h"

namespace kvphase::kernels {

inline constexpr std::int64_t kTileRows = 64;
inline constexpr std::int64_t kTileKeys = 48;  // of one step: its scores stay in the first cache

// Rows of one KV head, in tiles.
template <typename T>
std::int64_t attend_tile_count(const Attend<T>& a) {
  return (a.queries * (a.heads / a.groups) + kTileRows - 1) / kTileRows;
}

// Numbers of scratch that one thread needs: Attend::scratch.
std::int64_t attend_tile_scratch(std::int64_t width);

// Are tiles possible (the width fills whole vectors), and are there rows enough to be worth it?
template <typename T>
bool attend_tiles_suit(const Attend<T>& a);

// The tiles first, first + step, first + 2 step, ... of one (sequence, KV head) pair: out and lse
// of their rows. (Later tiles see more keys: taken in turns, the work is even.)
template <typename T>
void attend_tiles(const Attend<T>& a, std::int64_t pair, std::int64_t first, std::int64_t step);

// dq of the tiles' rows; dk, dv, dentry_k, dentry_v, dsinks are added to.
template <typename T>
void attend_tiles_backward(const Attend<T>& a, std::int64_t pair, std::int64_t first,
                           std::int64_t step);

}  // namespace kvphase::kernels
