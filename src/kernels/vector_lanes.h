// How wide the vectors are that the kernels by Highway choose when the program runs.
#pragma once

#include <algorithm>
#include <cstdint>

namespace kvphase::kernels {

std::int64_t vector_bytes();

// Numbers of a vector; one where there are no vectors.
template <typename T>
std::int64_t vector_lanes() {
  return std::max<std::int64_t>(1, vector_bytes() / static_cast<std::int64_t>(sizeof(T)));
}

}  // namespace kvphase::kernels
