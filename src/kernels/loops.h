// The fused kernels' inner loops for the CPU: plain pointers, no tensors, no allocation. Each is
// compiled once per instruction set (loops_*.cpp) and chosen at run time. What they compute is said
// by their plain twins (rms_norm.h, rope.h, pool.h, attention.h); loops work on a range of
// independent items, and what an item alone writes is never written by another, so that results do
// not depend on how a caller divides the range among threads.
#pragma once

#include <cstdint>

namespace kvphase::kernels {

// y = rope(rms_norm(x)); both steps optional. Items are rows n = (b * X + x) * heads + h of width
// D.
template <typename T>
struct NormRope {
  std::int64_t inner = 1;  // X
  std::int64_t heads = 1;
  std::int64_t width = 0;  // D
  std::int64_t half = 0;   // r/2, 0: no RoPE
  double epsilon = 0;
  const T* x = nullptr;       // [N, D]
  const T* weight = nullptr;  // [D], null: no norm
  const T* cos = nullptr;     // row (b, x, h) at b*table_batch + x*table_inner + h*table_head
  const T* sin = nullptr;
  std::int64_t table_batch = 0, table_inner = 0, table_head = 0;
  T* scale = nullptr;     // [N] 1 / rms, written forward, read backward; null: no norm
  T* y = nullptr;         // [N, D]
  const T* dy = nullptr;  // [N, D] backward
  T* dx = nullptr;        // [N, D]
};

// y[n, i] = silu(x[n, i]) * x[n, F + i]. Items are the rows n.
template <typename T>
struct SwiGlu {
  std::int64_t width = 0;  // F
  const T* x = nullptr;    // [N, 2F]
  T* y = nullptr;          // [N, F]
  const T* dy = nullptr;   // [N, F] backward
  T* dx = nullptr;         // [N, 2F]
};

// Chunk pooling. Items are (b, g) pairs b * G + g.
template <typename T>
struct Pool {
  std::int64_t tokens = 0, heads = 0, width = 0, entries = 0;    // T, G, D, M
  std::int64_t gate_width = 1, gate_maps = 1, payload_maps = 1;  // E, K, K'
  std::int64_t window = 1, stride = 1;                           // W, S
  const std::int64_t* first_end = nullptr;                       // [G]
  const T* logits = nullptr;                                     // [B, T, K, G, E], null: uniform
  const T* bias = nullptr;                                       // [W, G, E] or null
  const T* payload = nullptr;                                    // [B, T, K', G, D]
  T* y = nullptr;                                                // [B, M, G, D]
  const T* dy = nullptr;                                         // backward
  T* dlogits = nullptr;                                          // zeroed by the caller
  T* dbias = nullptr;     // [B, W, G, E] one part per sequence, zeroed by the caller
  T* dpayload = nullptr;  // zeroed by the caller
  T* scratch = nullptr;   // (2 W + 2) E numbers of the calling thread
};

// Keys or values [B, N, G, D]: rows of D numbers, the distances between them.
template <typename T>
struct KeyRows {
  const T* at = nullptr;
  std::int64_t batch = 0, token = 0, head = 0;

  const T* of(std::int64_t b, std::int64_t g) const { return at + b * batch + g * head; }
};

// Attention. Items are (b, g) pairs b * G + g.
template <typename T>
struct Attend {
  std::int64_t queries = 0, heads = 0, groups = 0, width = 0;  // Q, H, G, D
  std::int64_t tokens = 0, entries = 0, first = 0;             // T, M, position of token 0
  std::int64_t recent = 0;                                     // exact tokens; ignored with a tail
  bool tail = false;
  std::int64_t stride = 1;
  const std::int64_t* first_end = nullptr;  // [G]; null without entries and tail
  const std::int64_t* rows = nullptr;       // [B, Q]
  const T* q = nullptr;                     // [B, Q, H, D]
  KeyRows<T> k, v;                          // [B, T, G, D]
  KeyRows<T> entry_k, entry_v;              // [B, M, G, D]
  const T* sinks = nullptr;                 // [H] or null
  T* out = nullptr;                         // [B, Q, H, D]
  T* lse = nullptr;                         // [B, Q, H] log of the softmax's denominator
  const T* dout = nullptr;                  // backward
  T* dq = nullptr;
  T* dk = nullptr;  // dk .. dentry_v: no gaps, zeroed by the caller
  T* dv = nullptr;
  T* dentry_k = nullptr;
  T* dentry_v = nullptr;
  T* dsinks = nullptr;   // [B, H] one part per sequence, zeroed by the caller
  T* scratch = nullptr;  // T + M numbers of the calling thread
};

template <typename T>
struct Loops {
  void (*norm_rope)(const NormRope<T>&, std::int64_t begin, std::int64_t end);
  // dweight [D] is added to; it covers the range's rows.
  void (*norm_rope_backward)(const NormRope<T>&, std::int64_t begin, std::int64_t end, T* dweight);
  void (*swiglu)(const SwiGlu<T>&, std::int64_t begin, std::int64_t end);
  void (*swiglu_backward)(const SwiGlu<T>&, std::int64_t begin, std::int64_t end);
  void (*pool)(const Pool<T>&, std::int64_t begin, std::int64_t end);
  void (*pool_backward)(const Pool<T>&, std::int64_t begin, std::int64_t end);
  void (*attend)(const Attend<T>&, std::int64_t begin, std::int64_t end);
  void (*attend_backward)(const Attend<T>&, std::int64_t begin, std::int64_t end);
};

// The best this processor can run.
const Loops<float>& float_loops();
const Loops<double>& double_loops();

}  // namespace kvphase::kernels
