// Which keys a query of Attend sees.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/loops.h"

namespace kvphase::kernels {

// Indices low .. high-1.
struct Bounds {
  std::int64_t low = 0, high = 0;
};

struct Seen {
  Bounds exact, entries;
};

template <typename T>
inline Seen seen_by(const Attend<T>& a, std::int64_t position, std::int64_t group) {
  std::int64_t begin = position - a.recent + 1, done = 0;
  if (a.first_end) {
    const std::int64_t first_end = a.first_end[group];
    done = position < first_end ? 0 : (position - first_end) / a.stride + 1;
    if (a.tail) begin = done == 0 ? 0 : first_end + (done - 1) * a.stride + 1;
  }
  return {.exact = {std::max(begin - a.first, std::int64_t{0}), position - a.first + 1},
          .entries = {0, std::min(done, a.entries)}};
}

}  // namespace kvphase::kernels
