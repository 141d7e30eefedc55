#include "kernels/vector_lanes.h"

#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4)  // as the kernels
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/vector_lanes.cpp"
// In this order: the first includes this file again, once per target.
// clang-format off
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace kvphase::kernels::HWY_NAMESPACE {

std::int64_t bytes() {
  namespace hn = hwy::HWY_NAMESPACE;
  return static_cast<std::int64_t>(hn::MaxLanes(hn::ScalableTag<std::uint8_t>()));
}

}  // namespace kvphase::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace kvphase::kernels {

HWY_EXPORT(bytes);

std::int64_t vector_bytes() { return HWY_DYNAMIC_DISPATCH(bytes)(); }

}  // namespace kvphase::kernels

#endif  // HWY_ONCE
