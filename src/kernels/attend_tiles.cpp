#include "kernels/attend_tiles.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

#include "kernels/attend_bounds.h"
#include "kernels/vector_lanes.h"

// Targets between SSE2 and AVX2 would only cost time to compile.
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attend_tiles.cpp"
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

constexpr Index kRows = kTileRows;
constexpr Index kKeys = kTileKeys;
constexpr int kMostVectors = kManyRegisters ? 4 : 2;  // of one register block

template <typename T>
struct Matrix {
  T* at = nullptr;
  Index row = 0;     // distance of rows
  Index column = 1;  // distance of columns; of B and C always 1
};

// C [kHeight, kWidth vectors] (+)= A [kHeight, depth] B [depth, kWidth vectors], in registers.
template <bool kAdd, int kHeight, int kWidth, class D, typename T = hn::TFromD<D>>
HWY_INLINE void block(D d, Index depth, const T* HWY_RESTRICT a, Index a_row, Index a_column,
                      const T* HWY_RESTRICT b, Index b_row, T* HWY_RESTRICT c, Index c_row) {
  constexpr Index kLanes = static_cast<Index>(hn::MaxLanes(d));
  hn::Vec<D> sum[kHeight][kWidth];
#pragma GCC unroll 16
  for (int i = 0; i < kHeight; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < kWidth; ++j) {
      sum[i][j] = kAdd ? hn::LoadU(d, c + i * c_row + j * kLanes) : hn::Zero(d);
    }
  }
  for (Index k = 0; k < depth; ++k) {
    hn::Vec<D> factor[kWidth];
#pragma GCC unroll 4
    for (int j = 0; j < kWidth; ++j) factor[j] = hn::LoadU(d, b + k * b_row + j * kLanes);
#pragma GCC unroll 16
    for (int i = 0; i < kHeight; ++i) {
      const hn::Vec<D> one = hn::Set(d, a[i * a_row + k * a_column]);
#pragma GCC unroll 4
      for (int j = 0; j < kWidth; ++j) sum[i][j] = hn::MulAdd(one, factor[j], sum[i][j]);
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < kHeight; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < kWidth; ++j) hn::StoreU(sum[i][j], d, c + i * c_row + j * kLanes);
  }
}

template <bool kAdd, int kHeight, int kWidth, class D, typename T = hn::TFromD<D>>
HWY_INLINE Index rows_of(D d, Index height, Index done, Index depth, const Matrix<const T>& a,
                         const T* b, Index b_row, T* c, Index c_row) {
  for (; done + kHeight <= height; done += kHeight) {
    block<kAdd, kHeight, kWidth>(d, depth, a.at + done * a.row, a.row, a.column, b, b_row,
                                 c + done * c_row, c_row);
  }
  return done;
}

template <bool kAdd, int kWidth, class D, typename T = hn::TFromD<D>>
HWY_NOINLINE void columns(D d, Index height, Index depth, const Matrix<const T>& a, const T* b,
                          Index b_row, T* c, Index c_row) {
  constexpr int kAccumulators = kManyRegisters ? 24 : 12;
  constexpr int kTall = kWidth == 1 ? (kManyRegisters ? 16 : 12) : kAccumulators / kWidth;
  Index done = rows_of<kAdd, kTall, kWidth>(d, height, 0, depth, a, b, b_row, c, c_row);
  if constexpr (kTall > 8) {
    done = rows_of<kAdd, 8, kWidth>(d, height, done, depth, a, b, b_row, c, c_row);
  }
  if constexpr (kTall > 4) {
    done = rows_of<kAdd, 4, kWidth>(d, height, done, depth, a, b, b_row, c, c_row);
  }
  if constexpr (kTall > 2) {
    done = rows_of<kAdd, 2, kWidth>(d, height, done, depth, a, b, b_row, c, c_row);
  }
  rows_of<kAdd, 1, kWidth>(d, height, done, depth, a, b, b_row, c, c_row);
}

// C [height, width] (+)= A [height, depth] B [depth, width]; width fills whole vectors.
template <bool kAdd, class D, typename T = hn::TFromD<D>>
void multiply(D d, Index height, Index width, Index depth, const Matrix<const T>& a, const T* b,
              Index b_row, T* c, Index c_row) {
  constexpr Index kLanes = static_cast<Index>(hn::MaxLanes(d));
  Index vectors = width / kLanes;
  for (; vectors >= kMostVectors; vectors -= kMostVectors) {
    columns<kAdd, kMostVectors>(d, height, depth, a, b, b_row, c, c_row);
    b += kMostVectors * kLanes;
    c += kMostVectors * kLanes;
  }
  if constexpr (kMostVectors > 2) {
    if (vectors == 3) return columns<kAdd, 3>(d, height, depth, a, b, b_row, c, c_row);
    if (vectors == 2) return columns<kAdd, 2>(d, height, depth, a, b, b_row, c, c_row);
  }
  if (vectors == 1) columns<kAdd, 1>(d, height, depth, a, b, b_row, c, c_row);
}

// One kind of keys, exact tokens or entries, as one KV head of one sequence has them.
template <typename T>
struct Source {
  const T* k = nullptr;  // null: none
  const T* v = nullptr;
  T* dk = nullptr;
  T* dv = nullptr;
  Index k_step = 0, v_step = 0;  // distance of rows
  Bounds bounds[kRows];          // of a tile's rows
};

template <typename T>
struct Tile {
  Index place[kRows];  // (b, query, head) as a row of [B*Q*H]; -1: none, behind the last
  Source<T> sources[2];
  // Arrays of the caller's scratch. "rows" are the tile's.
  T* q = nullptr;            // [rows, D], scaled by D^-0.5
  T* q_turned = nullptr;     // [D, rows]
  T* out = nullptr;          // [rows, D]
  T* dq = nullptr;           // [rows, D]
  T* dout = nullptr;         // [rows, D]
  T* dout_turned = nullptr;  // [D, rows]
  T* weights = nullptr;      // [keys of a step, rows]
  T* dweights = nullptr;     // [keys of a step, rows]
  T* top = nullptr;          // [rows] the greatest score so far; backward: lse
  T* sum = nullptr;          // [rows] of exp(score - top) so far; backward: dout . out
};

template <typename T>
class Pass {
 public:
  using D = hn::ScalableTag<T>;
  static constexpr Index kLanes = static_cast<Index>(hn::MaxLanes(D()));

  Pass(const Attend<T>& a, Index pair) : a_(a), batch_(pair / a.groups), group_(pair % a.groups) {
    step_ = a.groups * a.width;
    scale_ = 1 / static_cast<T>(std::sqrt(static_cast<double>(a.width)));
    T* next = a.scratch;
    const auto take = [&](Index count) {
      T* const part = next;
      next += count;
      return part;
    };
    tile_.q = take(kRows * a.width);
    tile_.q_turned = take(kRows * a.width);
    tile_.out = take(kRows * a.width);
    tile_.dq = take(kRows * a.width);
    tile_.dout = take(kRows * a.width);
    tile_.dout_turned = take(kRows * a.width);
    tile_.weights = take(kKeys * kRows);
    tile_.dweights = take(kKeys * kRows);
    tile_.top = take(kRows);
    tile_.sum = take(kRows);
    tile_.sources[0] = source(a.k, a.v, a.dk, a.dv, a.tokens);
    if (a.entries > 0) {
      tile_.sources[1] = source(a.entry_k, a.entry_v, a.dentry_k, a.dentry_v, a.entries);
    }
  }

  void forward(Index tile) {
    open(tile);
    const D d;
    for (Index row = 0; row < kRows; ++row) {
      const bool sink = a_.sinks && tile_.place[row] >= 0;
      tile_.top[row] = sink ? a_.sinks[head(row)] : kLowest;
      tile_.sum[row] = sink ? 1 : 0;
    }
    for (Index i = 0; i < kRows * a_.width; ++i) tile_.out[i] = 0;
    visit([&](const Source<T>& s, Index first, Index count, Index lane, Index lanes, bool masked) {
      multiply<false>(d, count, lanes, a_.width, {s.k + first * s.k_step, s.k_step, 1},
                      tile_.q_turned + lane, kRows, tile_.weights + lane, kRows);
      if (masked) blank(s, first, count, lane, lanes, -std::numeric_limits<T>::infinity());
      stream(count, lane, lanes, [&](Index key) { ask_for(s, first + kKeys + key); });
      multiply<true>(d, lanes, a_.width, count, {tile_.weights + lane, 1, kRows},
                     s.v + first * s.v_step, s.v_step, tile_.out + lane * a_.width, a_.width);
    });
    for (Index row = 0; row < kRows && tile_.place[row] >= 0; ++row) {
      const T share = 1 / tile_.sum[row];
      T* const out = a_.out + tile_.place[row] * a_.width;
      for (Index i = 0; i < a_.width; ++i) out[i] = share * tile_.out[row * a_.width + i];
      a_.lse[tile_.place[row]] =
          tile_.top[row] + static_cast<T>(std::log(static_cast<double>(tile_.sum[row])));
    }
  }

  // With p the weights and delta = dout . out: dv_n += p_n dout; ds_n = p_n (dout . v_n - delta).
  void backward(Index tile) {
    open(tile);
    const D d;
    for (Index row = 0; row < kRows; ++row) {
      const Index place = tile_.place[row];
      T delta = 0;
      for (Index i = 0; i < a_.width; ++i) {
        const T dout = place < 0 ? 0 : a_.dout[place * a_.width + i];
        tile_.dout[row * a_.width + i] = dout;
        tile_.dout_turned[i * kRows + row] = dout;
        if (place >= 0) delta += dout * a_.out[place * a_.width + i];
      }
      tile_.sum[row] = delta;
      tile_.top[row] = place < 0 ? 0 : a_.lse[place];
      if (a_.sinks && place >= 0) {
        a_.dsinks[batch_ * a_.heads + head(row)] -=
            std::exp(a_.sinks[head(row)] - tile_.top[row]) * delta;
      }
    }
    for (Index i = 0; i < kRows * a_.width; ++i) tile_.dq[i] = 0;
    visit([&](const Source<T>& s, Index first, Index count, Index lane, Index lanes, bool masked) {
      multiply<false>(d, count, lanes, a_.width, {s.k + first * s.k_step, s.k_step, 1},
                      tile_.q_turned + lane, kRows, tile_.weights + lane, kRows);
      multiply<false>(d, count, lanes, a_.width, {s.v + first * s.v_step, s.v_step, 1},
                      tile_.dout_turned + lane, kRows, tile_.dweights + lane, kRows);
      turn_back(count, lane, lanes, [&] {
        if (masked) blank(s, first, count, lane, lanes, 0);
      });
      multiply<true>(d, count, a_.width, lanes, {tile_.weights + lane, kRows, 1},
                     tile_.dout + lane * a_.width, a_.width, s.dv + first * step_, step_);
      multiply<true>(d, count, a_.width, lanes, {tile_.dweights + lane, kRows, 1},
                     tile_.q + lane * a_.width, a_.width, s.dk + first * step_, step_);
      multiply<true>(d, lanes, a_.width, count, {tile_.dweights + lane, 1, kRows},
                     s.k + first * s.k_step, s.k_step, tile_.dq + lane * a_.width, a_.width);
    });
    for (Index row = 0; row < kRows && tile_.place[row] >= 0; ++row) {
      T* const dq = a_.dq + tile_.place[row] * a_.width;
      for (Index i = 0; i < a_.width; ++i) dq[i] = scale_ * tile_.dq[row * a_.width + i];
    }
  }

 private:
  static constexpr T kLowest = std::numeric_limits<T>::lowest() / 4;

  Source<T> source(const KeyRows<T>& k, const KeyRows<T>& v, T* dk, T* dv, Index count) const {
    Source<T> s;
    s.k = k.of(batch_, group_);
    s.v = v.of(batch_, group_);
    s.k_step = k.token;
    s.v_step = v.token;
    const Index at = batch_ * count * step_ + group_ * a_.width;
    if (dk) s.dk = dk + at;
    if (dv) s.dv = dv + at;
    return s;
  }

  Index head(Index row) const { return tile_.place[row] % a_.heads; }

  // The queries of a tile, and what each sees.
  void open(Index tile) {
    const Index per_group = a_.heads / a_.groups, rows = a_.queries * per_group;
    for (Index row = 0; row < kRows; ++row) {
      const Index number = tile * kRows + row;
      Bounds &exact = tile_.sources[0].bounds[row], &pooled = tile_.sources[1].bounds[row];
      tile_.place[row] = -1;
      exact = pooled = Bounds{};
      if (number < rows) {
        const Index query = batch_ * a_.queries + number / per_group;
        tile_.place[row] = query * a_.heads + group_ * per_group + number % per_group;
        const Seen seen = seen_by(a_, a_.rows[query], group_);
        exact = seen.exact;
        pooled = seen.entries;
      }
      for (Index i = 0; i < a_.width; ++i) {
        const T q = tile_.place[row] < 0 ? 0 : scale_ * a_.q[tile_.place[row] * a_.width + i];
        tile_.q[row * a_.width + i] = q;
        tile_.q_turned[i * kRows + row] = q;
      }
    }
  }

  // What the rows [lane, lane + lanes) see together, and what all of them see.
  struct Union {
    Bounds some, all;
  };
  static Union seen_together(const Source<T>& s, Index lane, Index lanes) {
    constexpr Index kNone = std::numeric_limits<Index>::max();
    Union u{.some = {kNone, 0}, .all = {0, kNone}};
    for (Index row = lane; row < lane + lanes; ++row) {
      const Bounds& b = s.bounds[row];
      u.all.low = std::max(u.all.low, b.low);
      u.all.high = std::min(u.all.high, b.high);
      if (b.low >= b.high) continue;
      u.some.low = std::min(u.some.low, b.low);
      u.some.high = std::max(u.some.high, b.high);
    }
    if (u.some.low == kNone) u.some.low = 0;
    return u;
  }

  // Calls step(source, first key, keys, first row, rows, are some of them masked). A narrow band of
  // exact tokens is taken with as many rows as a vector has: fewer of its scores are masked.
  template <class Step>
  void visit(const Step& step) {
    for (Source<T>& s : tile_.sources) {
      if (!s.k) continue;
      const Union whole = seen_together(s, 0, kRows);
      Index apart = 0;
      for (Index lane = 0; lane < kRows; lane += kLanes) {
        const Union u = seen_together(s, lane, kLanes);
        apart += (u.some.high - u.some.low) * kLanes;
      }
      const bool narrow = 2 * apart < (whole.some.high - whole.some.low) * kRows;
      const Index lanes = narrow ? kLanes : kRows;
      for (Index lane = 0; lane < kRows; lane += lanes) {
        const Union u = narrow ? seen_together(s, lane, lanes) : whole;
        for (Index first = u.some.low; first < u.some.high; first += kKeys) {
          const Index end = std::min(first + kKeys, u.some.high);
          step(s, first, end - first, lane, lanes, first < u.all.low || end > u.all.high);
        }
      }
    }
  }

  // Puts `blank` where a row does not see a key of the step.
  void blank(const Source<T>& s, Index first, Index count, Index lane, Index lanes, T with) {
    const D d;
    HWY_ALIGN T low[kLanes];
    HWY_ALIGN T high[kLanes];
    for (Index row = lane; row < lane + lanes; row += kLanes) {
      for (Index i = 0; i < kLanes; ++i) {
        const Bounds& b = s.bounds[row + i];
        low[i] = static_cast<T>(std::clamp(b.low - first, Index{0}, count));
        high[i] = static_cast<T>(std::clamp(b.high - first, Index{0}, count));
      }
      const hn::Vec<D> from = hn::Load(d, low), to = hn::Load(d, high);
      for (Index key = 0; key < count; ++key) {
        T* const at = tile_.weights + key * kRows + row;
        const hn::Vec<D> number = hn::Set(d, static_cast<T>(key));
        const auto sees = hn::And(hn::Ge(number, from), hn::Lt(number, to));
        hn::StoreU(hn::IfThenElse(sees, hn::LoadU(d, at), hn::Set(d, with)), d, at);
      }
    }
  }

  // Asks for the memory of a key of the next step, should there be one: where keys lie beyond the
  // second cache, hardware alone is too late.
  void ask_for(const Source<T>& s, Index key) const {
    prefetch(s.k + key * s.k_step, a_.width);
    prefetch(s.v + key * s.v_step, a_.width);
  }

  // Scores become exp(score - greatest so far); what was summed so far is scaled to it. ahead(key)
  // is called once for every key of the step.
  template <class Ahead>
  void stream(Index count, Index lane, Index lanes, const Ahead& ahead) {
    const D d;
    for (Index row = lane; row < lane + lanes; row += kLanes) {
      T* const column = tile_.weights + row;
      const hn::Vec<D> before = hn::LoadU(d, tile_.top + row);
      hn::Vec<D> top = before;
      for (Index key = 0; key < count; ++key) {
        top = hn::Max(top, hn::LoadU(d, column + key * kRows));
      }
      hn::Vec<D> sum = hn::Zero(d);
      for (Index key = 0; key < count; ++key) {
        if (row == lane) ahead(key);
        const hn::Vec<D> weight = hn::Exp(d, hn::Sub(hn::LoadU(d, column + key * kRows), top));
        hn::StoreU(weight, d, column + key * kRows);
        sum = hn::Add(sum, weight);
      }
      if (hn::AllTrue(d, hn::Eq(top, before))) {
        hn::StoreU(hn::Add(hn::LoadU(d, tile_.sum + row), sum), d, tile_.sum + row);
        continue;
      }
      const hn::Vec<D> factor = hn::Exp(d, hn::Sub(before, top));
      hn::StoreU(hn::MulAdd(hn::LoadU(d, tile_.sum + row), factor, sum), d, tile_.sum + row);
      hn::StoreU(top, d, tile_.top + row);
      HWY_ALIGN T factors[kLanes];
      hn::Store(factor, d, factors);
      for (Index i = 0; i < kLanes; ++i) {
        T* const out = tile_.out + (row + i) * a_.width;
        const hn::Vec<D> one = hn::Set(d, factors[i]);
        for (Index j = 0; j < a_.width; j += kLanes) {
          hn::StoreU(hn::Mul(one, hn::LoadU(d, out + j)), d, out + j);
        }
      }
    }
  }

  // Scores become weights, dweights the scores' gradients; mask() blanks weights in between.
  template <class Mask>
  void turn_back(Index count, Index lane, Index lanes, const Mask& mask) {
    const D d;
    for (Index row = lane; row < lane + lanes; row += kLanes) {
      const hn::Vec<D> lse = hn::LoadU(d, tile_.top + row);
      for (Index key = 0; key < count; ++key) {
        T* const at = tile_.weights + key * kRows + row;
        hn::StoreU(hn::Exp(d, hn::Sub(hn::LoadU(d, at), lse)), d, at);
      }
    }
    mask();
    for (Index row = lane; row < lane + lanes; row += kLanes) {
      const hn::Vec<D> delta = hn::LoadU(d, tile_.sum + row);
      for (Index key = 0; key < count; ++key) {
        T* const at = tile_.dweights + key * kRows + row;
        const hn::Vec<D> weight = hn::LoadU(d, tile_.weights + key * kRows + row);
        hn::StoreU(hn::Mul(weight, hn::Sub(hn::LoadU(d, at), delta)), d, at);
      }
    }
  }

  Attend<T> a_;
  Index batch_ = 0, group_ = 0;
  Index step_ = 0;  // distance of one head's keys' gradients
  T scale_ = 0;
  Tile<T> tile_;
};

template <typename T>
void forward_tiles(const Attend<T>& a, Index pair, Index first, Index step) {
  Pass<T> pass(a, pair);
  for (Index tile = first; tile < attend_tile_count(a); tile += step) pass.forward(tile);
}

template <typename T>
void backward_tiles(const Attend<T>& a, Index pair, Index first, Index step) {
  Pass<T> pass(a, pair);
  for (Index tile = first; tile < attend_tile_count(a); tile += step) pass.backward(tile);
}

}  // namespace

void forward_float(const Attend<float>& a, Index pair, Index first, Index step) {
  forward_tiles(a, pair, first, step);
}
void forward_double(const Attend<double>& a, Index pair, Index first, Index step) {
  forward_tiles(a, pair, first, step);
}
void backward_float(const Attend<float>& a, Index pair, Index first, Index step) {
  backward_tiles(a, pair, first, step);
}
void backward_double(const Attend<double>& a, Index pair, Index first, Index step) {
  backward_tiles(a, pair, first, step);
}

}  // namespace kvphase::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace kvphase::kernels {

HWY_EXPORT(forward_float);
HWY_EXPORT(forward_double);
HWY_EXPORT(backward_float);
HWY_EXPORT(backward_double);

std::int64_t attend_tile_scratch(std::int64_t width) {
  return 6 * kTileRows * width + 2 * kTileKeys * kTileRows + 2 * kTileRows;
}

template <typename T>
bool attend_tiles_suit(const Attend<T>& a) {
  const std::int64_t lanes = vector_lanes<T>();
  return a.width % lanes == 0 && a.queries * (a.heads / a.groups) >= lanes;
}
template bool attend_tiles_suit(const Attend<float>& a);
template bool attend_tiles_suit(const Attend<double>& a);

template <>
void attend_tiles(const Attend<float>& a, std::int64_t pair, std::int64_t first,
                  std::int64_t step) {
  HWY_DYNAMIC_DISPATCH(forward_float)(a, pair, first, step);
}
template <>
void attend_tiles(const Attend<double>& a, std::int64_t pair, std::int64_t first,
                  std::int64_t step) {
  HWY_DYNAMIC_DISPATCH(forward_double)(a, pair, first, step);
}
template <>
void attend_tiles_backward(const Attend<float>& a, std::int64_t pair, std::int64_t first,
                           std::int64_t step) {
  HWY_DYNAMIC_DISPATCH(backward_float)(a, pair, first, step);
}
template <>
void attend_tiles_backward(const Attend<double>& a, std::int64_t pair, std::int64_t first,
                           std::int64_t step) {
  HWY_DYNAMIC_DISPATCH(backward_double)(a, pair, first, step);
}

}  // namespace kvphase::kernels

#endif  // HWY_ONCE
