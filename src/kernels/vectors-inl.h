// What the vectorised kernels share. For Highway: included again for every target.
#if defined(KVPHASE_VECTORS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef KVPHASE_VECTORS_INL_H
#undef KVPHASE_VECTORS_INL_H
#else
#define KVPHASE_VECTORS_INL_H
#endif

#include <hwy/highway.h>

#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace kvphase::kernels::HWY_NAMESPACE {
namespace {

// 32 registers, not 16.
constexpr bool kManyRegisters = HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON;

// Asks for the memory of a row [width] that is read soon, into the second cache. It may lie beyond
// the last one.
template <typename T>
HWY_INLINE void prefetch(const T* row, std::int64_t width) {
  constexpr std::int64_t kLine = 64 / static_cast<std::int64_t>(sizeof(T));
  for (std::int64_t i = 0; i < width; i += kLine) __builtin_prefetch(row + i, 0, 2);
}

#if HWY_TARGET != HWY_SCALAR
// The sums of a vector's parts of four lanes.
template <class D>
HWY_INLINE auto to_four_lanes(D d, hwy::HWY_NAMESPACE::Vec<D> v) {
  namespace hn = hwy::HWY_NAMESPACE;
  if constexpr (hn::MaxLanes(d) > 4) {
    const hn::Half<D> half;
    return to_four_lanes(half, hn::Add(hn::LowerHalf(half, v), hn::UpperHalf(half, v)));
  } else {
    return v;
  }
}

// The four sums of four vectors' lanes, of floats: a few shuffles in place of four reductions.
template <class D>
HWY_INLINE auto four_sums(D d, hwy::HWY_NAMESPACE::Vec<D> a, hwy::HWY_NAMESPACE::Vec<D> b,
                          hwy::HWY_NAMESPACE::Vec<D> c, hwy::HWY_NAMESPACE::Vec<D> e) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::RepartitionToWide<D> pairs;
  const auto ab =
      hn::BitCast(pairs, hn::Add(hn::InterleaveLower(d, a, b), hn::InterleaveUpper(d, a, b)));
  const auto ce =
      hn::BitCast(pairs, hn::Add(hn::InterleaveLower(d, c, e), hn::InterleaveUpper(d, c, e)));
  return to_four_lanes(d, hn::Add(hn::BitCast(d, hn::InterleaveLower(pairs, ab, ce)),
                                  hn::BitCast(d, hn::InterleaveUpper(pairs, ab, ce))));
}
#endif

}  // namespace
}  // namespace kvphase::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
