// Attention of a few queries to many keys, as decoding has it: the keys are read from memory once
// for all query heads that share them, and in parts that threads take side by side (each with a
// softmax of its own, merged in a fixed order afterwards). Vectorised with Highway.
#pragma once

#include <cstdint>

#include "kernels/loops.h"

namespace kvphase::kernels {

// Keys, exact tokens first, that one part reads; the number of parts depends on shapes alone.
inline constexpr std::int64_t kPartKeys = 512;

template <typename T>
std::int64_t attend_parts(const Attend<T>& a) {
  const std::int64_t keys = a.tokens + a.entries;
  return keys < kPartKeys ? 1 : (keys + kPartKeys - 1) / kPartKeys;
}

// Numbers that one part leaves for each row of its (sequence, KV head) pair: the greatest score,
// the sum of exp(score - greatest) and the sum of values weighted so.
template <typename T>
std::int64_t attend_part_size(const Attend<T>& a) {
  return a.queries * (a.heads / a.groups) * (a.width + 2);
}

// Does the width fill whole vectors?
template <typename T>
bool attend_rows_suit(const Attend<T>& a);

// Part `part` of the keys of one pair, into result [attend_part_size].
template <typename T>
void attend_part(const Attend<T>& a, std::int64_t pair, std::int64_t part, T* result);

// out and lse of the pair's rows from the results [parts, attend_part_size] of its parts.
template <typename T>
void merge_parts(const Attend<T>& a, std::int64_t pair, const T* results);

}  // namespace kvphase::kernels
