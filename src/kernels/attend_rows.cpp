#include "kernels/attend_rows.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "kernels/attend_bounds.h"
#include "kernels/vector_lanes.h"

#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attend_rows.cpp"
// In this order: the first includes this file again, once per target.
// clang-format off
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
#include <hwy/contrib/math/math-inl.h>
#include "kernels/vectors-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace kvphase::kernels::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using Index = std::int64_t;

constexpr Index kBlock = 128;  // keys whose scores are held at once, at most

// Rows of queries that see the same keys are taken together, so many at a time.
constexpr int kMostRows = kManyRegisters ? 4 : 2;

// Scores of kRows queries, `width` apart, with keys 0..count-1: scores [kRows][kBlock]. values:
// those of the same keys, to be prefetched; null: not.
template <int kRows, class D, typename T = hn::TFromD<D>>
HWY_INLINE void score(D d, const T* HWY_RESTRICT q, Index width, const T* k, Index k_step,
                      const T* values, Index v_step, Index count, T* HWY_RESTRICT scores) {
  constexpr Index kLanes = static_cast<Index>(hn::MaxLanes(d));
  const auto dots = [&](Index first, auto keys) {
    constexpr int kKeys = decltype(keys)::value;
    const T* HWY_RESTRICT key = k + first * k_step;
    hn::Vec<D> sum[kRows][kKeys];
#pragma GCC unroll 4
    for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 4
      for (int j = 0; j < kKeys; ++j) sum[i][j] = hn::Zero(d);
    }
    for (Index c = 0; c < width; c += kLanes) {
      hn::Vec<D> part[kKeys];
#pragma GCC unroll 4
      for (int j = 0; j < kKeys; ++j) part[j] = hn::LoadU(d, key + j * k_step + c);
#pragma GCC unroll 4
      for (int i = 0; i < kRows; ++i) {
        const hn::Vec<D> query = hn::LoadU(d, q + i * width + c);
#pragma GCC unroll 4
        for (int j = 0; j < kKeys; ++j) sum[i][j] = hn::MulAdd(query, part[j], sum[i][j]);
      }
    }
#pragma GCC unroll 4
    for (int i = 0; i < kRows; ++i) {
      T* const at = scores + i * kBlock + first;
#if HWY_TARGET != HWY_SCALAR
      if constexpr (kKeys == 4) {
        hn::StoreU(four_sums(d, sum[i][0], sum[i][1], sum[i][2], sum[i][3]), hn::FixedTag<T, 4>(),
                   at);
        continue;
      }
#endif
      for (int j = 0; j < kKeys; ++j) at[j] = hn::GetLane(hn::SumOfLanes(d, sum[i][j]));
    }
  };
  Index first = 0;
  if constexpr (sizeof(T) == 4) {
    for (; first + 4 <= count; first += 4) {
      if (values) {
        for (Index j = 0; j < 4; ++j) prefetch(values + (first + j) * v_step, width);
      }
      dots(first, std::integral_constant<int, 4>{});
    }
  }
  for (; first < count; ++first) dots(first, std::integral_constant<int, 1>{});
}

// Scores of one row become weights exp(score - greatest so far); what was summed so far is scaled
// to it.
template <class D, typename T = hn::TFromD<D>>
HWY_INLINE void weigh(D d, Index count, Index width, T* HWY_RESTRICT scores,
                      T* HWY_RESTRICT top_and_sum, T* HWY_RESTRICT out) {
  constexpr Index kLanes = static_cast<Index>(hn::MaxLanes(d));
  constexpr T kNothing = -std::numeric_limits<T>::infinity();
  for (Index n = count; n % kLanes != 0; ++n) scores[n] = kNothing;
  hn::Vec<D> greatest = hn::Set(d, top_and_sum[0]);
  for (Index n = 0; n < count; n += kLanes) {
    greatest = hn::Max(greatest, hn::Load(d, scores + n));
  }
  const T top = hn::GetLane(hn::MaxOfLanes(d, greatest));
  const hn::Vec<D> shift = hn::Set(d, top);
  hn::Vec<D> total = hn::Zero(d);
  for (Index n = 0; n < count; n += kLanes) {
    const hn::Vec<D> weight = hn::Exp(d, hn::Sub(hn::Load(d, scores + n), shift));
    total = hn::Add(total, weight);
    hn::Store(weight, d, scores + n);
  }
  if (top != top_and_sum[0]) {
    const T factor = std::exp(top_and_sum[0] - top);
    top_and_sum[0] = top;
    top_and_sum[1] *= factor;
    for (Index i = 0; i < width; ++i) out[i] *= factor;
  }
  top_and_sum[1] += hn::GetLane(hn::SumOfLanes(d, total));
}

// out [kRows, width], rows `step` apart, plus the weighted values. next: keys of so many tokens
// that are read next, to be prefetched.
template <int kRows, class D, typename T = hn::TFromD<D>>
HWY_INLINE void add_values(D d, const T* HWY_RESTRICT weights, const T* v, Index v_step,
                           Index width, Index count, const T* next, Index k_step, Index next_count,
                           T* HWY_RESTRICT out, Index step) {
  constexpr Index kLanes = static_cast<Index>(hn::MaxLanes(d));
  const auto add = [&](auto vectors, Index from) {
    constexpr int kVectors = decltype(vectors)::value;
    hn::Vec<D> sum[kRows][kVectors];
#pragma GCC unroll 4
    for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 4
      for (int j = 0; j < kVectors; ++j) {
        sum[i][j] = hn::LoadU(d, out + i * step + from + j * kLanes);
      }
    }
    for (Index n = 0; n < count; ++n) {
      const T* HWY_RESTRICT value = v + n * v_step + from;
      if (from == 0 && n < next_count) prefetch(next + n * k_step, width);
      hn::Vec<D> part[kVectors];
#pragma GCC unroll 4
      for (int j = 0; j < kVectors; ++j) part[j] = hn::LoadU(d, value + j * kLanes);
#pragma GCC unroll 4
      for (int i = 0; i < kRows; ++i) {
        const hn::Vec<D> weight = hn::Set(d, weights[i * kBlock + n]);
#pragma GCC unroll 4
        for (int j = 0; j < kVectors; ++j) sum[i][j] = hn::MulAdd(weight, part[j], sum[i][j]);
      }
    }
#pragma GCC unroll 4
    for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 4
      for (int j = 0; j < kVectors; ++j) {
        hn::StoreU(sum[i][j], d, out + i * step + from + j * kLanes);
      }
    }
  };
  Index from = 0;
  for (; from + 4 * kLanes <= width; from += 4 * kLanes) {
    add(std::integral_constant<int, 4>{}, from);
  }
  for (; from + 2 * kLanes <= width; from += 2 * kLanes) {
    add(std::integral_constant<int, 2>{}, from);
  }
  for (; from < width; from += kLanes) add(std::integral_constant<int, 1>{}, from);
}

// Keys begin..end-1 of one kind, for all rows block by block. While a block's keys are worked on,
// the memory of its values is asked for, and with these that of the next keys: hardware follows
// neither from one to the other.
template <typename T>
void fold_rows(const Attend<T>& a, Index pair, const KeyRows<T>& k, const KeyRows<T>& v, bool exact,
               Index begin, Index end, const T* scaled, T* result) {
  const hn::ScalableTag<T> d;
  const Index per_group = a.heads / a.groups, step = a.width + 2;
  const Index batch = pair / a.groups, group = pair % a.groups;
  const Index block = std::clamp<Index>(4096 / a.width, 16, kBlock);  // its keys stay in L1
  const Index all = exact ? a.tokens : a.entries;
  const T* const keys = k.of(batch, group);
  const T* const values = v.of(batch, group);
  HWY_ALIGN T scores[kMostRows * kBlock];
  for (Index first = begin; first < end; first += block) {
    const Index after = std::min(first + block, end);
    for (Index query = 0; query < a.queries; ++query) {
      const Seen seen = seen_by(a, a.rows[batch * a.queries + query], group);
      const Bounds& bounds = exact ? seen.exact : seen.entries;
      const Index low = std::max(first, bounds.low), high = std::min(after, bounds.high);
      if (low >= high) continue;
      const Index count = high - low;
      const auto fold = [&](Index head, auto rows) {
        constexpr int kRows = decltype(rows)::value;
        const bool fresh = query == 0 && head == 0;
        const Index row = query * per_group + head;
        T* const own = result + row * step;
        score<kRows>(d, scaled + row * a.width, a.width, keys + low * k.token, k.token,
                     fresh ? values + low * v.token : nullptr, v.token, count, scores);
        for (int i = 0; i < kRows; ++i) {
          weigh(d, count, a.width, scores + i * kBlock, own + i * step, own + i * step + 2);
        }
        add_values<kRows>(d, scores, values + low * v.token, v.token, a.width, count,
                          keys + after * k.token, k.token, fresh ? std::min(block, all - after) : 0,
                          own + 2, step);
      };
      Index head = 0;
      for (; head + kMostRows <= per_group; head += kMostRows) {
        fold(head, std::integral_constant<int, kMostRows>{});
      }
      for (; head + 2 <= per_group; head += 2) fold(head, std::integral_constant<int, 2>{});
      for (; head < per_group; ++head) fold(head, std::integral_constant<int, 1>{});
    }
  }
}

template <typename T>
void part_of(const Attend<T>& a, Index pair, Index part, T* result) {
  const Index per_group = a.heads / a.groups, rows = a.queries * per_group;
  const Index batch = pair / a.groups, group = pair % a.groups;
  const T scale = 1 / static_cast<T>(std::sqrt(static_cast<double>(a.width)));
  T* const scaled = a.scratch;
  for (Index row = 0; row < rows; ++row) {
    T* const own = result + row * (a.width + 2);
    own[0] = std::numeric_limits<T>::lowest() / 4;
    for (Index i = 1; i < a.width + 2; ++i) own[i] = 0;
    const Index place =
        (batch * a.queries + row / per_group) * a.heads + group * per_group + row % per_group;
    for (Index i = 0; i < a.width; ++i) {
      scaled[row * a.width + i] = scale * a.q[place * a.width + i];
    }
  }
  const Index begin = part * kPartKeys;
  const Index end = std::min(begin + kPartKeys, a.tokens + a.entries);
  fold_rows(a, pair, a.k, a.v, true, begin, std::min(end, a.tokens), scaled, result);
  fold_rows(a, pair, a.entry_k, a.entry_v, false, std::max(begin, a.tokens) - a.tokens,
            end - a.tokens, scaled, result);
}

}  // namespace

void part_float(const Attend<float>& a, Index pair, Index part, float* result) {
  part_of(a, pair, part, result);
}
void part_double(const Attend<double>& a, Index pair, Index part, double* result) {
  part_of(a, pair, part, result);
}

}  // namespace kvphase::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace kvphase::kernels {

HWY_EXPORT(part_float);
HWY_EXPORT(part_double);

template <typename T>
bool attend_rows_suit(const Attend<T>& a) {
  const std::int64_t lanes = vector_lanes<T>();
  return a.width % lanes == 0;
}
template bool attend_rows_suit(const Attend<float>& a);
template bool attend_rows_suit(const Attend<double>& a);

template <>
void attend_part(const Attend<float>& a, std::int64_t pair, std::int64_t part, float* result) {
  HWY_DYNAMIC_DISPATCH(part_float)(a, pair, part, result);
}
template <>
void attend_part(const Attend<double>& a, std::int64_t pair, std::int64_t part, double* result) {
  HWY_DYNAMIC_DISPATCH(part_double)(a, pair, part, result);
}

template <typename T>
void merge_parts(const Attend<T>& a, std::int64_t pair, const T* results) {
  const std::int64_t per_group = a.heads / a.groups, rows = a.queries * per_group;
  const std::int64_t batch = pair / a.groups, group = pair % a.groups;
  const std::int64_t parts = attend_parts(a), size = attend_part_size(a), one = a.width + 2;
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t head = group * per_group + row % per_group;
    const std::int64_t place = (batch * a.queries + row / per_group) * a.heads + head;
    T top = a.sinks ? a.sinks[head] : std::numeric_limits<T>::lowest() / 4;
    for (std::int64_t part = 0; part < parts; ++part) {
      top = std::max(top, results[part * size + row * one]);
    }
    T sum = a.sinks ? std::exp(a.sinks[head] - top) : 0;
    T* const out = a.out + place * a.width;
    std::fill(out, out + a.width, T{0});
    for (std::int64_t part = 0; part < parts; ++part) {
      const T* const own = results + part * size + row * one;
      const T factor = std::exp(own[0] - top);
      sum += factor * own[1];
      for (std::int64_t i = 0; i < a.width; ++i) out[i] += factor * own[2 + i];
    }
    for (std::int64_t i = 0; i < a.width; ++i) out[i] /= sum;
    a.lse[place] = top + static_cast<T>(std::log(static_cast<double>(sum)));
  }
}
template void merge_parts(const Attend<float>& a, std::int64_t pair, const float* results);
template void merge_parts(const Attend<double>& a, std::int64_t pair, const double* results);

}  // namespace kvphase::kernels

#endif  // HWY_ONCE
