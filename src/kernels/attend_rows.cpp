#include "kernels/attend_rows.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "kernels/attend_bounds.h"

#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attend_rows.cpp"
// In this order: the first includes this file again, once per target.
// clang-format off
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
#include <hwy/contrib/math/math-inl.h>
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace kvphase::kernels::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using Index = std::int64_t;

constexpr Index kBlock = 128;  // keys whose scores are held at once, at most

#if HWY_TARGET != HWY_SCALAR
// The four sums of four vectors' lanes, of floats: a few shuffles in place of four reductions.
template <class D>
HWY_INLINE auto to_four_lanes(D d, hn::Vec<D> v) {
  if constexpr (hn::MaxLanes(d) > 4) {
    const hn::Half<D> half;
    return to_four_lanes(half, hn::Add(hn::LowerHalf(half, v), hn::UpperHalf(half, v)));
  } else {
    return v;
  }
}
template <class D>
HWY_INLINE auto four_sums(D d, hn::Vec<D> a, hn::Vec<D> b, hn::Vec<D> c, hn::Vec<D> e) {
  const hn::RepartitionToWide<D> pairs;
  const auto ab =
      hn::BitCast(pairs, hn::Add(hn::InterleaveLower(d, a, b), hn::InterleaveUpper(d, a, b)));
  const auto ce =
      hn::BitCast(pairs, hn::Add(hn::InterleaveLower(d, c, e), hn::InterleaveUpper(d, c, e)));
  return to_four_lanes(d, hn::Add(hn::BitCast(d, hn::InterleaveLower(pairs, ab, ce)),
                                  hn::BitCast(d, hn::InterleaveUpper(pairs, ab, ce))));
}
#endif

// Keys [begin, end) of one kind for one row: folded into top, sum and out [D].
template <class D, typename T = hn::TFromD<D>>
HWY_INLINE void fold_in(D d, const T* HWY_RESTRICT q, const T* k, Index k_step, const T* v,
                        Index v_step, Index width, Index begin, Index end,
                        T* HWY_RESTRICT top_and_sum, T* HWY_RESTRICT out) {
  constexpr Index kLanes = static_cast<Index>(hn::MaxLanes(d));
  HWY_ALIGN T scores[kBlock];
  const Index count = end - begin;
  Index scored = 0;
#if HWY_TARGET != HWY_SCALAR
  if constexpr (sizeof(T) == 4) {
    for (; scored + 4 <= count; scored += 4) {
      const T* HWY_RESTRICT key = k + (begin + scored) * k_step;
      hn::Vec<D> sums[4] = {hn::Zero(d), hn::Zero(d), hn::Zero(d), hn::Zero(d)};
      for (Index i = 0; i < width; i += kLanes) {
        const hn::Vec<D> query = hn::LoadU(d, q + i);
#pragma GCC unroll 4
        for (int j = 0; j < 4; ++j) {
          sums[j] = hn::MulAdd(query, hn::LoadU(d, key + j * k_step + i), sums[j]);
        }
      }
      const hn::FixedTag<T, 4> four;
      hn::StoreU(four_sums(d, sums[0], sums[1], sums[2], sums[3]), four, scores + scored);
    }
  }
#endif
  for (; scored < count; ++scored) {
    const T* HWY_RESTRICT key = k + (begin + scored) * k_step;
    hn::Vec<D> sum = hn::Zero(d);
    for (Index i = 0; i < width; i += kLanes) {
      sum = hn::MulAdd(hn::LoadU(d, q + i), hn::LoadU(d, key + i), sum);
    }
    scores[scored] = hn::GetLane(hn::SumOfLanes(d, sum));
  }
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
  const auto add_values = [&](auto vectors, Index from) {
    constexpr int kVectors = decltype(vectors)::value;
    hn::Vec<D> sum[kVectors];
    for (int j = 0; j < kVectors; ++j) sum[j] = hn::LoadU(d, out + from + j * kLanes);
    for (Index n = 0; n < count; ++n) {
      const T* HWY_RESTRICT value = v + (begin + n) * v_step + from;
      const hn::Vec<D> weight = hn::Set(d, scores[n]);
      for (int j = 0; j < kVectors; ++j) {
        sum[j] = hn::MulAdd(weight, hn::LoadU(d, value + j * kLanes), sum[j]);
      }
    }
    for (int j = 0; j < kVectors; ++j) hn::StoreU(sum[j], d, out + from + j * kLanes);
  };
  Index from = 0;
  for (; from + 4 * kLanes <= width; from += 4 * kLanes) {
    add_values(std::integral_constant<int, 4>{}, from);
  }
  for (; from + 2 * kLanes <= width; from += 2 * kLanes) {
    add_values(std::integral_constant<int, 2>{}, from);
  }
  for (; from < width; from += kLanes) add_values(std::integral_constant<int, 1>{}, from);
}

// Keys begin..end-1 of one kind, for all rows block by block.
template <typename T>
void fold_rows(const Attend<T>& a, Index pair, const KeyRows<T>& k, const KeyRows<T>& v, bool exact,
               Index begin, Index end, const T* scaled, T* result) {
  const hn::ScalableTag<T> d;
  const Index per_group = a.heads / a.groups, rows = a.queries * per_group;
  const Index batch = pair / a.groups, group = pair % a.groups;
  const Index block = std::clamp<Index>(4096 / a.width, 16, kBlock);  // its keys stay in L1
  for (Index first = begin; first < end; first += block) {
    const Index after = std::min(first + block, end);
    for (Index row = 0; row < rows; ++row) {
      const Seen seen = seen_by(a, a.rows[batch * a.queries + row / per_group], group);
      const Bounds& bounds = exact ? seen.exact : seen.entries;
      const Index low = std::max(first, bounds.low), high = std::min(after, bounds.high);
      if (low >= high) continue;
      T* const own = result + row * (a.width + 2);
      fold_in(d, scaled + row * a.width, k.of(batch, group), k.token, v.of(batch, group), v.token,
              a.width, low, high, own, own + 2);
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
Index row_vector_bytes() {
  return static_cast<Index>(hn::MaxLanes(hn::ScalableTag<std::uint8_t>()));
}

}  // namespace kvphase::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace kvphase::kernels {

HWY_EXPORT(part_float);
HWY_EXPORT(part_double);
HWY_EXPORT(row_vector_bytes);

template <typename T>
bool attend_rows_suit(const Attend<T>& a) {
  const std::int64_t lanes =
      HWY_DYNAMIC_DISPATCH(row_vector_bytes)() / static_cast<std::int64_t>(sizeof(T));
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
