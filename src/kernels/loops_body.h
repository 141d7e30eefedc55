// The loops of loops.h, included once per instruction set with KVPHASE_ISA naming it. Nothing here
// may call an inline function of another header: the linker would keep one instruction set's copy
// for all.
#ifndef KVPHASE_ISA
#error "KVPHASE_ISA must name the instruction set"
#endif

#include <math.h>

#include "kernels/loops.h"

namespace kvphase::kernels::KVPHASE_ISA {
namespace {

using Index = std::int64_t;

// exp(x) = 2^n e^r with |r| <= ln(2)/2 and a Taylor polynomial for e^r (relative error 2e-7),
// written so that compilers turn loops over it into vector code.
inline float fast_exp(float x) {
  const float bounded = x < -87.0F ? -87.0F : (x > 88.0F ? 88.0F : x);
  const float scaled = bounded * 1.44269504F;
  const int n = static_cast<int>(scaled + (scaled < 0 ? -0.5F : 0.5F));
  const auto whole = static_cast<float>(n);
  const float r = (bounded - whole * 0.693359375F) + whole * 2.12194440e-4F;
  float sum = 1.0F / 5040;
  sum = sum * r + 1.0F / 720;
  sum = sum * r + 1.0F / 120;
  sum = sum * r + 1.0F / 24;
  sum = sum * r + 1.0F / 6;
  sum = sum * r + 0.5F;
  sum = sum * r + 1.0F;
  sum = sum * r + 1.0F;
  return sum * __builtin_bit_cast(float, (n + 127) << 23);
}

inline double fast_exp(double x) { return ::exp(x); }

template <int kWidth, typename T>
inline T dot(const T* a, const T* b, Index width) {
  const Index n = kWidth > 0 ? kWidth : width;
  T sum = 0;
#pragma omp simd reduction(+ : sum)
  for (Index i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

// y += factor * x
template <int kWidth, typename T>
inline void add_scaled(T* __restrict y, T factor, const T* __restrict x, Index width) {
  const Index n = kWidth > 0 ? kWidth : width;
#pragma omp simd
  for (Index i = 0; i < n; ++i) y[i] += factor * x[i];
}

template <typename T>
inline Index table_row(const NormRope<T>& a, Index n) {
  const Index head = n % a.heads, x = n / a.heads % a.inner, batch = n / a.heads / a.inner;
  return batch * a.table_batch + x * a.table_inner + head * a.table_head;
}

template <int kWidth, typename T>
void norm_rope_rows(const NormRope<T>& a, Index begin, Index end) {
  const Index width = kWidth > 0 ? kWidth : a.width, half = a.half;
  for (Index n = begin; n < end; ++n) {
    const T* __restrict x = a.x + n * width;
    T* __restrict y = a.y + n * width;
    if (a.weight) {
      const T mean = dot<kWidth>(x, x, width) / static_cast<T>(width);
      const T scale = 1 / static_cast<T>(::sqrt(static_cast<double>(mean) + a.epsilon));
      a.scale[n] = scale;
      const T* __restrict w = a.weight;
#pragma omp simd
      for (Index i = 0; i < width; ++i) y[i] = x[i] * scale * w[i];
    } else {
#pragma omp simd
      for (Index i = 0; i < width; ++i) y[i] = x[i];
    }
    if (half == 0) continue;
    const Index row = table_row(a, n);
    const T* __restrict cos = a.cos + row;
    const T* __restrict sin = a.sin + row;
    T* __restrict upper = y + half;
#pragma omp simd
    for (Index i = 0; i < half; ++i) {
      const T first = y[i], second = upper[i];
      y[i] = first * cos[i] - second * sin[i];
      upper[i] = second * cos[i] + first * sin[i];
    }
  }
}

template <int kWidth, typename T>
void norm_rope_rows_backward(const NormRope<T>& a, Index begin, Index end, T* __restrict dweight) {
  const Index width = kWidth > 0 ? kWidth : a.width, half = a.half;
  for (Index n = begin; n < end; ++n) {
    const T* __restrict x = a.x + n * width;
    const T* __restrict dy = a.dy + n * width;
    T* __restrict dx = a.dx + n * width;
    if (half > 0) {  // back by the inverse rotation
      const Index row = table_row(a, n);
      const T* __restrict cos = a.cos + row;
      const T* __restrict sin = a.sin + row;
      const T* __restrict dy_upper = dy + half;
      T* __restrict dx_upper = dx + half;
#pragma omp simd
      for (Index i = 0; i < half; ++i) {
        dx[i] = dy[i] * cos[i] + dy_upper[i] * sin[i];
        dx_upper[i] = dy_upper[i] * cos[i] - dy[i] * sin[i];
      }
    }
#pragma omp simd
    for (Index i = 2 * half; i < width; ++i) dx[i] = dy[i];
    if (!a.weight) continue;
    const T* __restrict w = a.weight;
    const T scale = a.scale[n];
    T sum = 0;
#pragma omp simd reduction(+ : sum)
    for (Index i = 0; i < width; ++i) {
      dweight[i] += dx[i] * x[i] * scale;
      sum += dx[i] * w[i] * x[i];
    }
    const T pull = sum * scale * scale / static_cast<T>(width);
#pragma omp simd
    for (Index i = 0; i < width; ++i) dx[i] = scale * (dx[i] * w[i] - x[i] * pull);
  }
}

template <typename T>
void swiglu_rows(const SwiGlu<T>& a, Index begin, Index end) {
  for (Index n = begin; n < end; ++n) {
    const T* __restrict gate = a.x + n * 2 * a.width;
    const T* __restrict up = gate + a.width;
    T* __restrict y = a.y + n * a.width;
#pragma omp simd
    for (Index i = 0; i < a.width; ++i) y[i] = gate[i] / (1 + fast_exp(-gate[i])) * up[i];
  }
}

template <typename T>
void swiglu_rows_backward(const SwiGlu<T>& a, Index begin, Index end) {
  for (Index n = begin; n < end; ++n) {
    const T* __restrict gate = a.x + n * 2 * a.width;
    const T* __restrict up = gate + a.width;
    const T* __restrict dy = a.dy + n * a.width;
    T* __restrict dgate = a.dx + n * 2 * a.width;
    T* __restrict dup = dgate + a.width;
#pragma omp simd
    for (Index i = 0; i < a.width; ++i) {
      const T sigmoid = 1 / (1 + fast_exp(-gate[i]));
      dup[i] = dy[i] * gate[i] * sigmoid;
      dgate[i] = dy[i] * up[i] * sigmoid * (1 + gate[i] * (1 - sigmoid));
    }
  }
}

inline Index map_index(Index maps, Index offset, Index window, Index stride) {
  return maps == 1 ? 0 : (maps == window ? offset : offset / stride);
}

// Softmax weights [W, E] of one window, over the offsets from `from` on.
template <typename T>
inline void window_weights(const Pool<T>& a, Index batch, Index head, Index start, Index from,
                           T* __restrict weights) {
  const Index width = a.gate_width;
  if (!a.logits) {
    const T share = 1 / static_cast<T>(a.window - from);
    for (Index i = from; i < a.window; ++i) weights[i * width] = share;
    return;
  }
  T* __restrict top = weights + a.window * width;  // [E]
  T* __restrict total = top + width;               // [E]
  for (Index i = from; i < a.window; ++i) {
    const Index map = map_index(a.gate_maps, i, a.window, a.stride);
    const T* logits =
        a.logits + (((batch * a.tokens + start + i) * a.gate_maps + map) * a.heads + head) * width;
    const T* bias = a.bias ? a.bias + (i * a.heads + head) * width : nullptr;
    T* __restrict w = weights + i * width;
    for (Index e = 0; e < width; ++e) {
      w[e] = bias ? logits[e] + bias[e] : logits[e];
      top[e] = i == from || w[e] > top[e] ? w[e] : top[e];
    }
  }
  for (Index e = 0; e < width; ++e) total[e] = 0;
  for (Index i = from; i < a.window; ++i) {
    T* __restrict w = weights + i * width;
#pragma omp simd
    for (Index e = 0; e < width; ++e) {
      w[e] = fast_exp(w[e] - top[e]);
      total[e] += w[e];
    }
  }
  for (Index e = 0; e < width; ++e) total[e] = 1 / total[e];
  for (Index i = from; i < a.window; ++i) {
    T* __restrict w = weights + i * width;
#pragma omp simd
    for (Index e = 0; e < width; ++e) w[e] *= total[e];
  }
}

template <typename T>
inline Index payload_index(const Pool<T>& a, Index batch, Index head, Index token, Index offset) {
  const Index map = map_index(a.payload_maps, offset, a.window, a.stride);
  return (((batch * a.tokens + token) * a.payload_maps + map) * a.heads + head) * a.width;
}

template <typename T>
void pool_items(const Pool<T>& a, Index begin, Index end) {
  for (Index item = begin; item < end; ++item) {
    const Index batch = item / a.heads, head = item % a.heads;
    for (Index entry = 0; entry < a.entries; ++entry) {
      T* __restrict y = a.y + ((batch * a.entries + entry) * a.heads + head) * a.width;
      for (Index d = 0; d < a.width; ++d) y[d] = 0;
      const Index last = a.first_end[head] + entry * a.stride;
      if (last >= a.tokens) continue;  // meaningless: this head has fewer entries
      const Index start = last - a.window + 1, from = start < 0 ? -start : 0;
      window_weights(a, batch, head, start, from, a.scratch);
      for (Index i = from; i < a.window; ++i) {
        const T* __restrict x = a.payload + payload_index(a, batch, head, start + i, i);
        const T* __restrict w = a.scratch + i * a.gate_width;
        if (a.gate_width == 1) {
          add_scaled<0>(y, w[0], x, a.width);
        } else {
#pragma omp simd
          for (Index d = 0; d < a.width; ++d) y[d] += w[d] * x[d];
        }
      }
    }
  }
}

// With p the weights, dp_i = dy x_i (summed over D for a scalar gate): dlogit_i = p_i (dp_i - sum_n
// p_n dp_n).
template <typename T>
void pool_items_backward(const Pool<T>& a, Index begin, Index end) {
  const Index gate = a.gate_width;
  for (Index item = begin; item < end; ++item) {
    const Index batch = item / a.heads, head = item % a.heads;
    for (Index entry = 0; entry < a.entries; ++entry) {
      const T* __restrict dy = a.dy + ((batch * a.entries + entry) * a.heads + head) * a.width;
      const Index last = a.first_end[head] + entry * a.stride;
      if (last >= a.tokens) continue;
      const Index start = last - a.window + 1, from = start < 0 ? -start : 0;
      window_weights(a, batch, head, start, from, a.scratch);
      T* __restrict mean = a.scratch + a.window * gate;      // [E]
      T* __restrict dp = a.scratch + (a.window + 2) * gate;  // [W, E]
      for (Index e = 0; e < gate; ++e) mean[e] = 0;
      for (Index i = from; i < a.window; ++i) {
        const Index place = payload_index(a, batch, head, start + i, i);
        const T* __restrict x = a.payload + place;
        T* __restrict dx = a.dpayload + place;
        const T* __restrict w = a.scratch + i * gate;
        if (gate == 1) {
          add_scaled<0>(dx, w[0], dy, a.width);
          dp[i] = dot<0>(dy, x, a.width);
          mean[0] += w[0] * dp[i];
        } else {
          T* __restrict dpi = dp + i * gate;
#pragma omp simd
          for (Index d = 0; d < a.width; ++d) {
            dx[d] += w[d] * dy[d];
            dpi[d] = dy[d] * x[d];
            mean[d] += w[d] * dpi[d];
          }
        }
      }
      if (!a.logits) continue;
      for (Index i = from; i < a.window; ++i) {
        const Index map = map_index(a.gate_maps, i, a.window, a.stride);
        T* __restrict dlogits =
            a.dlogits +
            (((batch * a.tokens + start + i) * a.gate_maps + map) * a.heads + head) * gate;
        T* __restrict dpi = dp + i * gate;
        const T* __restrict w = a.scratch + i * gate;
#pragma omp simd
        for (Index e = 0; e < gate; ++e) {
          dpi[e] = w[e] * (dpi[e] - mean[e]);
          dlogits[e] += dpi[e];
        }
        if (!a.bias) continue;
        T* __restrict dbias = a.dbias + ((batch * a.window + i) * a.heads + head) * gate;
#pragma omp simd
        for (Index e = 0; e < gate; ++e) dbias[e] += dpi[e];
      }
    }
  }
}

struct Span {
  Index low;      // index of the first exact token seen
  Index count;    // exact tokens seen
  Index entries;  // entries seen
};

template <typename T>
inline Span seen(const Attend<T>& a, Index row, Index group) {
  Index done = 0, begin = row - a.recent + 1;
  if (a.first_end) {
    const Index first_end = a.first_end[group];
    done = row < first_end ? 0 : (row - first_end) / a.stride + 1;
    if (a.tail) begin = done == 0 ? 0 : first_end + (done - 1) * a.stride + 1;
  }
  if (begin < a.first) begin = a.first;
  return {begin - a.first, row - begin + 1, done < a.entries ? done : a.entries};
}

// One head's keys or values. (KeyRows has a function for this; see the top.)
template <typename T>
struct HeadRows {
  const T* at;
  Index step;

  const T* operator[](Index n) const { return at + n * step; }
};
template <typename T>
inline HeadRows<T> rows_of(const KeyRows<T>& rows, Index batch, Index group) {
  return {rows.at + batch * rows.batch + group * rows.head, rows.token};
}

// Scores of one query, and their maximum.
template <int kWidth, typename T>
inline T scores_of(const Attend<T>& a, const T* q, const HeadRows<T>& k, const HeadRows<T>& entry_k,
                   const Span& span, T scale, T* __restrict scores) {
  for (Index n = 0; n < span.count; ++n) {
    scores[n] = scale * dot<kWidth>(q, k[span.low + n], a.width);
  }
  for (Index n = 0; n < span.entries; ++n) {
    scores[span.count + n] = scale * dot<kWidth>(q, entry_k[n], a.width);
  }
  const Index total = span.count + span.entries;
  T top = total > 0 ? scores[0] : 0;
  for (Index n = 1; n < total; ++n) top = scores[n] > top ? scores[n] : top;
  return top;
}

template <int kWidth, typename T>
void attend_items(const Attend<T>& a, Index begin, Index end) {
  const Index width = a.width, per_group = a.heads / a.groups;
  const T scale = 1 / static_cast<T>(::sqrt(static_cast<double>(width)));
  T* __restrict scores = a.scratch;
  for (Index item = begin; item < end; ++item) {
    const Index batch = item / a.groups, group = item % a.groups;
    const HeadRows<T> k = rows_of(a.k, batch, group), v = rows_of(a.v, batch, group);
    const HeadRows<T> entry_k = rows_of(a.entry_k, batch, group);
    const HeadRows<T> entry_v = rows_of(a.entry_v, batch, group);
    for (Index i = 0; i < a.queries; ++i) {
      const Span span = seen(a, a.rows[batch * a.queries + i], group);
      for (Index h = group * per_group; h < (group + 1) * per_group; ++h) {
        const Index place = (batch * a.queries + i) * a.heads + h;
        T top = scores_of<kWidth>(a, a.q + place * width, k, entry_k, span, scale, scores);
        if (a.sinks && a.sinks[h] > top) top = a.sinks[h];
        const Index total = span.count + span.entries;
        T sum = 0;
#pragma omp simd reduction(+ : sum)
        for (Index n = 0; n < total; ++n) {
          scores[n] = fast_exp(scores[n] - top);
          sum += scores[n];
        }
        if (a.sinks) sum += fast_exp(a.sinks[h] - top);
        T* __restrict out = a.out + place * width;
        for (Index d = 0; d < width; ++d) out[d] = 0;
        const T share = 1 / sum;
        for (Index n = 0; n < span.count; ++n) {
          add_scaled<kWidth>(out, scores[n] * share, v[span.low + n], width);
        }
        for (Index n = 0; n < span.entries; ++n) {
          add_scaled<kWidth>(out, scores[span.count + n] * share, entry_v[n], width);
        }
        a.lse[place] = top + static_cast<T>(::log(static_cast<double>(sum)));
      }
    }
  }
}

// With p the weights and delta = dout . out: dv_n += p_n dout; ds_n = p_n (dout . v_n - delta).
template <int kWidth, typename T>
void attend_items_backward(const Attend<T>& a, Index begin, Index end) {
  const Index width = a.width, per_group = a.heads / a.groups, step = a.groups * width;
  const T scale = 1 / static_cast<T>(::sqrt(static_cast<double>(width)));
  T* __restrict weights = a.scratch;
  for (Index item = begin; item < end; ++item) {
    const Index batch = item / a.groups, group = item % a.groups;
    const Index exact = batch * a.tokens * step + group * width;
    const Index pooled = batch * a.entries * step + group * width;
    const HeadRows<T> k = rows_of(a.k, batch, group), v = rows_of(a.v, batch, group);
    const HeadRows<T> entry_k = rows_of(a.entry_k, batch, group);
    const HeadRows<T> entry_v = rows_of(a.entry_v, batch, group);
    for (Index i = 0; i < a.queries; ++i) {
      const Span span = seen(a, a.rows[batch * a.queries + i], group);
      for (Index h = group * per_group; h < (group + 1) * per_group; ++h) {
        const Index place = (batch * a.queries + i) * a.heads + h;
        const T* q = a.q + place * width;
        const T* dout = a.dout + place * width;
        T* dq = a.dq + place * width;
        for (Index d = 0; d < width; ++d) dq[d] = 0;
        scores_of<kWidth>(a, q, k, entry_k, span, scale, weights);
        const T lse = a.lse[place];
        const Index total = span.count + span.entries;
#pragma omp simd
        for (Index n = 0; n < total; ++n) weights[n] = fast_exp(weights[n] - lse);
        const T delta = dot<kWidth>(dout, a.out + place * width, width);
        for (Index n = 0; n < span.count; ++n) {
          const Index at = exact + (span.low + n) * step;
          const T ds = scale * weights[n] * (dot<kWidth>(dout, v[span.low + n], width) - delta);
          add_scaled<kWidth>(dq, ds, k[span.low + n], width);
          add_scaled<kWidth>(a.dk + at, ds, q, width);
          add_scaled<kWidth>(a.dv + at, weights[n], dout, width);
        }
        for (Index n = 0; n < span.entries; ++n) {
          const Index at = pooled + n * step;
          const T weight = weights[span.count + n];
          const T ds = scale * weight * (dot<kWidth>(dout, entry_v[n], width) - delta);
          add_scaled<kWidth>(dq, ds, entry_k[n], width);
          add_scaled<kWidth>(a.dentry_k + at, ds, q, width);
          add_scaled<kWidth>(a.dentry_v + at, weight, dout, width);
        }
        if (a.sinks) a.dsinks[batch * a.heads + h] -= fast_exp(a.sinks[h] - lse) * delta;
      }
    }
  }
}

// The widths of the project's models get loops of fixed length.
template <typename T>
void attend_any(const Attend<T>& a, Index begin, Index end) {
  if (a.width == 16) return attend_items<16>(a, begin, end);
  if (a.width == 32) return attend_items<32>(a, begin, end);
  if (a.width == 128) return attend_items<128>(a, begin, end);
  return attend_items<0>(a, begin, end);
}

template <typename T>
void attend_any_backward(const Attend<T>& a, Index begin, Index end) {
  if (a.width == 16) return attend_items_backward<16>(a, begin, end);
  if (a.width == 32) return attend_items_backward<32>(a, begin, end);
  if (a.width == 128) return attend_items_backward<128>(a, begin, end);
  return attend_items_backward<0>(a, begin, end);
}

template <typename T>
void norm_rope_any(const NormRope<T>& a, Index begin, Index end) {
  if (a.width == 32) return norm_rope_rows<32>(a, begin, end);
  if (a.width == 64) return norm_rope_rows<64>(a, begin, end);
  return norm_rope_rows<0>(a, begin, end);
}

template <typename T>
void norm_rope_any_backward(const NormRope<T>& a, Index begin, Index end, T* dweight) {
  if (a.width == 32) return norm_rope_rows_backward<32>(a, begin, end, dweight);
  if (a.width == 64) return norm_rope_rows_backward<64>(a, begin, end, dweight);
  return norm_rope_rows_backward<0>(a, begin, end, dweight);
}

template <typename T>
constexpr Loops<T> kLoops = {.norm_rope = norm_rope_any<T>,
                             .norm_rope_backward = norm_rope_any_backward<T>,
                             .swiglu = swiglu_rows<T>,
                             .swiglu_backward = swiglu_rows_backward<T>,
                             .pool = pool_items<T>,
                             .pool_backward = pool_items_backward<T>,
                             .attend = attend_any<T>,
                             .attend_backward = attend_any_backward<T>};

}  // namespace

const Loops<float>& float_loops() { return kLoops<float>; }
const Loops<double>& double_loops() { return kLoops<double>; }

}  // namespace kvphase::kernels::KVPHASE_ISA
