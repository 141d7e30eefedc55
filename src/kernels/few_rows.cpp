#include "kernels/few_rows.h"

#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/few_rows.cpp"
// In this order: the first includes this file again, once per target.
// clang-format off
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
#include "kernels/vectors-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace kvphase::kernels::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using Index = std::int64_t;
using D = hn::ScalableTag<float>;
constexpr Index kLanes = static_cast<Index>(hn::MaxLanes(D()));

struct Product {
  const float* x;
  Index width;
  const float* matrix;
  Index outputs;
  float* y;
};

// kRows rows of x with kColumns rows of the matrix, in registers.
template <int kRows, int kColumns>
HWY_INLINE void block(const Product& p, Index row, Index column) {
  const D d;
  const float* HWY_RESTRICT x = p.x + row * p.width;
  const float* HWY_RESTRICT matrix = p.matrix + column * p.width;
  hn::Vec<D> sum[kRows][kColumns];
#pragma GCC unroll 4
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < kColumns; ++j) sum[i][j] = hn::Zero(d);
  }
  const auto add = [&](const auto& load) {
    hn::Vec<D> factor[kColumns];
#pragma GCC unroll 4
    for (int j = 0; j < kColumns; ++j) factor[j] = load(matrix + j * p.width);
#pragma GCC unroll 4
    for (int i = 0; i < kRows; ++i) {
      const hn::Vec<D> own = load(x + i * p.width);
#pragma GCC unroll 4
      for (int j = 0; j < kColumns; ++j) sum[i][j] = hn::MulAdd(own, factor[j], sum[i][j]);
    }
  };
  Index k = 0;
  for (; k + kLanes <= p.width; k += kLanes) {
    add([&](const float* at) { return hn::LoadU(d, at + k); });
  }
  if (k < p.width) {
    const auto rest = hn::FirstN(d, static_cast<std::size_t>(p.width - k));
    add([&](const float* at) { return hn::MaskedLoad(rest, d, at + k); });
  }
#pragma GCC unroll 4
  for (int i = 0; i < kRows; ++i) {
    float* const y = p.y + (row + i) * p.outputs + column;
#if HWY_TARGET != HWY_SCALAR
    if constexpr (kColumns == 4) {
      hn::StoreU(four_sums(d, sum[i][0], sum[i][1], sum[i][2], sum[i][3]), hn::FixedTag<float, 4>(),
                 y);
      continue;
    }
#endif
    for (int j = 0; j < kColumns; ++j) y[j] = hn::GetLane(hn::SumOfLanes(d, sum[i][j]));
  }
}

template <int kColumns>
HWY_INLINE void all_rows(const Product& p, Index rows, Index column) {
  constexpr int kMost = kManyRegisters ? 4 : 2;
  Index row = 0;
  for (; row + kMost <= rows; row += kMost) block<kMost, kColumns>(p, row, column);
  for (; row < rows; ++row) block<1, kColumns>(p, row, column);
}

}  // namespace

void few_rows(const float* x, Index rows, Index width, const float* matrix, Index outputs,
              Index first, Index end, float* y) {
  const Product p{x, width, matrix, outputs, y};
  Index column = first;
  for (; column + 4 <= end; column += 4) all_rows<4>(p, rows, column);
  for (; column < end; ++column) all_rows<1>(p, rows, column);
}

}  // namespace kvphase::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace kvphase::kernels {

HWY_EXPORT(few_rows);

void multiply_few_rows(const float* x, std::int64_t rows, std::int64_t width, const float* matrix,
                       std::int64_t outputs, std::int64_t first, std::int64_t end, float* y) {
  HWY_DYNAMIC_DISPATCH(few_rows)
  (x, rows, width, matrix, outputs, first, end, y);
}

}  // namespace kvphase::kernels

#endif  // HWY_ONCE
