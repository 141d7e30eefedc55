#include "kernels/fused.h"

#include <ATen/Parallel.h>
#include <hwy/aligned_allocator.h>

#include <algorithm>
#include <vector>

#include "kernels/attend_rows.h"
#include "kernels/attend_tiles.h"
#include "kernels/autograd.h"
#include "kernels/loops.h"

namespace kvphase::kernels {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

template <typename T>
const Loops<T>& loops();
template <>
const Loops<float>& loops<float>() {
  return float_loops();
}
template <>
const Loops<double>& loops<double>() {
  return double_loops();
}

// Autograd functions take no undefined tensors, so an empty one stands for "none".
bool there(const Tensor& tensor) { return tensor.defined() && tensor.numel() > 0; }

template <typename T>
T* data(const Tensor& tensor) {
  return there(tensor) ? tensor.data_ptr<T>() : nullptr;
}

Tensor contiguous_or_empty(const Tensor& tensor, const Tensor& like) {
  return there(tensor) ? tensor.contiguous() : torch::empty({0}, like.options());
}

// Calls body with a zero of the tensor's element type.
template <typename Body>
void by_type(const Tensor& tensor, const Body& body) {
  if (tensor.scalar_type() == torch::kDouble) {
    body(double{});
  } else {
    body(float{});
  }
}

void refuse_second_order() {
  TORCH_CHECK(!torch::GradMode::is_enabled(),
              "[kernels] expected first-order gradients only, got create_graph; hold a "
              "PlainKernels to differentiate twice");
}

// Rows per piece of work: about 16K numbers.
std::int64_t grain(std::int64_t width) { return std::max<std::int64_t>(1, 16384 / width); }

template <typename T>
NormRope<T> norm_rope_arguments(const Tensor& x, const Tensor& weight, double epsilon,
                                const Tensor& cos, const Tensor& sin) {
  NormRope<T> a;
  a.width = x.size(-1);
  a.heads = x.dim() > 2 ? x.size(-2) : 1;
  a.inner = x.dim() > 3 ? x.size(-3) : 1;
  a.epsilon = epsilon;
  a.x = data<T>(x);
  a.weight = data<T>(weight);
  if (there(cos)) {  // expanded to [B, X, heads, r/2]
    a.half = cos.size(-1);
    a.cos = data<T>(cos);
    a.sin = data<T>(sin);
    a.table_batch = cos.stride(0);
    a.table_inner = cos.stride(1);
    a.table_head = cos.stride(2);
  }
  return a;
}

struct NormRopeFunction : torch::autograd::Function<NormRopeFunction> {
  static Tensor forward(AutogradContext* context, const Tensor& x_any, const Tensor& weight,
                        double epsilon, const Tensor& cos, const Tensor& sin) {
    const Tensor x = x_any.contiguous(), y = torch::empty_like(x);
    const std::int64_t rows = x.numel() / x.size(-1);
    const Tensor scale = there(weight) ? torch::empty({rows}, x.options()) : Tensor();
    by_type(x, [&](auto zero) {
      using T = decltype(zero);
      NormRope<T> a = norm_rope_arguments<T>(x, weight, epsilon, cos, sin);
      a.scale = data<T>(scale);
      a.y = data<T>(y);
      at::parallel_for(0, rows, grain(a.width), [&](std::int64_t begin, std::int64_t end) {
        loops<T>().norm_rope(a, begin, end);
      });
    });
    context->save_for_backward({x, weight, scale, cos, sin});
    context->saved_data["epsilon"] = epsilon;
    return y;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    refuse_second_order();
    const variable_list saved = context->get_saved_variables();
    const Tensor &x = saved[0], &weight = saved[1], &scale = saved[2];
    const Tensor dy = gradients[0].contiguous(), dx = torch::empty_like(x);
    const std::int64_t width = x.size(-1), rows = x.numel() / width;
    // A fixed partition, whatever the number of threads.
    const std::int64_t parts = std::clamp<std::int64_t>(rows * width / 65536, 1, 64);
    const Tensor dweights = torch::zeros({parts, width}, x.options());
    by_type(x, [&](auto zero) {
      using T = decltype(zero);
      NormRope<T> a = norm_rope_arguments<T>(x, weight, context->saved_data["epsilon"].toDouble(),
                                             saved[3], saved[4]);
      a.scale = data<T>(scale);
      a.dy = data<T>(dy);
      a.dx = data<T>(dx);
      at::parallel_for(0, parts, 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t part = begin; part < end; ++part) {
          loops<T>().norm_rope_backward(a, rows * part / parts, rows * (part + 1) / parts,
                                        data<T>(dweights) + part * width);
        }
      });
    });
    return {dx, there(weight) ? dweights.sum(0) : Tensor(), Tensor(), Tensor(), Tensor()};
  }
};

struct SwiGluFunction : torch::autograd::Function<SwiGluFunction> {
  static Tensor forward(AutogradContext* context, const Tensor& x_any) {
    const Tensor x = x_any.contiguous();
    std::vector<std::int64_t> shape = x.sizes().vec();
    shape.back() /= 2;
    const Tensor y = torch::empty(shape, x.options());
    run(x, y, Tensor(), Tensor());
    context->save_for_backward({x});
    return y;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    refuse_second_order();
    const Tensor x = context->get_saved_variables()[0], dx = torch::empty_like(x);
    run(x, Tensor(), gradients[0].contiguous(), dx);
    return {dx};
  }

  static void run(const Tensor& x, const Tensor& y, const Tensor& dy, const Tensor& dx) {
    by_type(x, [&](auto zero) {
      using T = decltype(zero);
      const SwiGlu<T> a{.width = x.size(-1) / 2,
                        .x = data<T>(x),
                        .y = data<T>(y),
                        .dy = data<T>(dy),
                        .dx = data<T>(dx)};
      const auto loop = dx.defined() ? loops<T>().swiglu_backward : loops<T>().swiglu;
      at::parallel_for(0, x.numel() / x.size(-1), grain(x.size(-1)),
                       [&](std::int64_t begin, std::int64_t end) { loop(a, begin, end); });
    });
  }
};

struct PoolFunction : torch::autograd::Function<PoolFunction> {
  static Tensor forward(AutogradContext* context, const Tensor& logits_any, const Tensor& bias_any,
                        const Tensor& payload_any, std::int64_t window, std::int64_t stride,
                        const std::vector<std::int64_t>& first_end) {
    const Tensor logits = logits_any.contiguous(), bias = bias_any.contiguous(),
                 payload = payload_any.contiguous();
    const ChunkGrid grid{.window = window, .stride = stride, .first_end = first_end};
    const Tensor y = torch::empty(
        {payload.size(0), grid.completed(payload.size(1)), payload.size(3), payload.size(4)},
        payload.options());
    run(grid, {logits, bias, payload, y, {}, {}, {}, {}});
    context->save_for_backward({logits, bias, payload});
    context->saved_data["window"] = window;
    context->saved_data["stride"] = stride;
    context->saved_data["first_end"] = first_end;
    return y;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    refuse_second_order();
    const variable_list saved = context->get_saved_variables();
    const Tensor &logits = saved[0], &bias = saved[1], &payload = saved[2];
    const ChunkGrid grid{.window = context->saved_data["window"].toInt(),
                         .stride = context->saved_data["stride"].toInt(),
                         .first_end = context->saved_data["first_end"].toIntVector()};
    const Tensor dpayload = torch::zeros_like(payload);
    Tensor dlogits, dbias;
    if (there(logits)) dlogits = torch::zeros_like(logits);
    if (there(bias)) {
      dbias =
          torch::zeros({payload.size(0), bias.size(0), bias.size(1), bias.size(2)}, bias.options());
    }
    run(grid, {logits, bias, payload, {}, gradients[0].contiguous(), dlogits, dbias, dpayload});
    return {dlogits, dbias.defined() ? dbias.sum(0) : dbias, dpayload, {}, {}, {}};
  }

  struct Tensors {
    Tensor logits, bias, payload, y, dy, dlogits, dbias, dpayload;
  };

  static void run(const ChunkGrid& grid, const Tensors& t) {
    by_type(t.payload, [&](auto zero) {
      using T = decltype(zero);
      Pool<T> a;
      a.tokens = t.payload.size(1);
      a.payload_maps = t.payload.size(2);
      a.heads = t.payload.size(3);
      a.width = t.payload.size(4);
      a.entries = grid.completed(a.tokens);
      if (there(t.logits)) {
        a.gate_maps = t.logits.size(2);
        a.gate_width = t.logits.size(4);
      }
      a.window = grid.window;
      a.stride = grid.stride;
      a.first_end = grid.first_end.data();
      a.logits = data<T>(t.logits);
      a.bias = data<T>(t.bias);
      a.payload = data<T>(t.payload);
      a.y = data<T>(t.y);
      a.dy = data<T>(t.dy);
      a.dlogits = data<T>(t.dlogits);
      a.dbias = data<T>(t.dbias);
      a.dpayload = data<T>(t.dpayload);
      const auto loop = t.dy.defined() ? loops<T>().pool_backward : loops<T>().pool;
      at::parallel_for(
          0, t.payload.size(0) * a.heads, 1, [&](std::int64_t begin, std::int64_t end) {
            std::vector<T> scratch(static_cast<std::size_t>((2 * a.window + 2) * a.gate_width));
            Pool<T> own = a;
            own.scratch = scratch.data();
            loop(own, begin, end);
          });
    });
  }
};

template <typename T>
KeyRows<T> key_rows(const Tensor& tensor) {
  return {.at = data<T>(tensor),
          .batch = tensor.stride(0),
          .token = tensor.stride(1),
          .head = tensor.stride(2)};
}

struct AttendFunction : torch::autograd::Function<AttendFunction> {
  // Contiguous but for keys and values, of which the rows [D] are.
  static Tensor forward(AutogradContext* context, const Tensor& q, const Tensor& k, const Tensor& v,
                        const Tensor& entry_k, const Tensor& entry_v, const Tensor& sinks,
                        const Tensor& rows, std::int64_t first, std::int64_t recent, bool tail,
                        std::int64_t stride, const std::vector<std::int64_t>& first_end) {
    const Tensor out = torch::empty_like(q);
    const Tensor lse = torch::empty({q.size(0), q.size(1), q.size(2)}, q.options());
    context->save_for_backward({q, k, v, entry_k, entry_v, sinks, rows, out, lse});
    context->saved_data["first"] = first;
    context->saved_data["recent"] = recent;
    context->saved_data["tail"] = tail;
    context->saved_data["stride"] = stride;
    context->saved_data["first_end"] = first_end;
    by_type(q, [&](auto zero) {
      using T = decltype(zero);
      Attend<T> a = arguments<T>({q, k, v, entry_k, entry_v, sinks, rows, out, lse}, first, recent,
                                 tail, stride, first_end);
      if (attend_tiles_suit(a)) {
        const std::int64_t parts = std::min<std::int64_t>(attend_tile_count(a), 32);
        run_tiles(a, q.size(0), parts,
                  [&](const Attend<T>& own, std::int64_t pair, std::int64_t part) {
                    attend_tiles(own, pair, part, parts);
                  });
      } else if (attend_rows_suit(a)) {
        run_parts(a, q.size(0));
      } else {
        run(a, q.size(0), loops<T>().attend);
      }
    });
    return out;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    refuse_second_order();
    const variable_list saved = context->get_saved_variables();
    const Tensor &q = saved[0], &k = saved[1], &entry_k = saved[3], &sinks = saved[5];
    const Tensor dout = gradients[0].contiguous(), dq = torch::empty_like(q);
    auto& data_of = context->saved_data;
    const std::vector<std::int64_t> first_end = data_of["first_end"].toIntVector();
    Tensor dk, dv, dentry_k, dentry_v, dsinks;
    by_type(q, [&](auto zero) {
      using T = decltype(zero);
      Attend<T> a = arguments<T>(saved, data_of["first"].toInt(), data_of["recent"].toInt(),
                                 data_of["tail"].toBool(), data_of["stride"].toInt(), first_end);
      const bool tiles = attend_tiles_suit(a);
      const std::int64_t parts = tiles ? gradient_parts(a, q.size(0)) : 1;
      const auto zeros = [&](const Tensor& like) {  // [parts, ...]
        std::vector<std::int64_t> shape = like.sizes().vec();
        shape.insert(shape.begin(), parts);
        return there(like) ? torch::zeros(shape, like.options()) : Tensor();
      };
      dk = zeros(k), dv = zeros(k), dentry_k = zeros(entry_k), dentry_v = zeros(entry_k);
      if (there(sinks)) dsinks = torch::zeros({parts, q.size(0), q.size(2)}, q.options());
      a.dout = data<T>(dout);
      a.dq = data<T>(dq);
      const auto of_part = [&](Attend<T> own, std::int64_t part) {
        const auto at = [&](const Tensor& tensor) {
          return tensor.defined() ? data<T>(tensor.select(0, part)) : nullptr;
        };
        own.dk = at(dk), own.dv = at(dv);
        own.dentry_k = at(dentry_k), own.dentry_v = at(dentry_v);
        own.dsinks = at(dsinks);
        return own;
      };
      if (tiles) {
        run_tiles(a, q.size(0), parts,
                  [&](const Attend<T>& own, std::int64_t pair, std::int64_t part) {
                    attend_tiles_backward(of_part(own, part), pair, part, parts);
                  });
      } else {
        run(of_part(a, 0), q.size(0), loops<T>().attend_backward);
      }
      for (Tensor* sum : {&dk, &dv, &dentry_k, &dentry_v}) {
        if (sum->defined()) *sum = parts == 1 ? sum->squeeze(0) : sum->sum(torch::IntArrayRef{0});
      }
      if (dsinks.defined()) dsinks = dsinks.flatten(0, 1).sum(0);
    });
    return {dq, dk, dv, dentry_k, dentry_v, dsinks, Tensor(), {}, {}, {}, {}, {}};
  }

  template <typename T>
  static Attend<T> arguments(const variable_list& t, std::int64_t first, std::int64_t recent,
                             bool tail, std::int64_t stride,
                             const std::vector<std::int64_t>& first_end) {
    Attend<T> a;
    a.queries = t[0].size(1);
    a.heads = t[0].size(2);
    a.width = t[0].size(3);
    a.tokens = t[1].size(1);
    a.groups = t[1].size(2);
    a.entries = there(t[3]) ? t[3].size(1) : 0;
    a.first = first;
    a.recent = recent;
    a.tail = tail;
    a.stride = stride;
    a.first_end = first_end.empty() ? nullptr : first_end.data();
    a.q = data<T>(t[0]);
    a.k = key_rows<T>(t[1]);
    a.v = key_rows<T>(t[2]);
    if (there(t[3])) {
      a.entry_k = key_rows<T>(t[3]);
      a.entry_v = key_rows<T>(t[4]);
    }
    a.sinks = data<T>(t[5]);
    a.rows = t[6].data_ptr<std::int64_t>();
    a.out = data<T>(t[7]);
    a.lse = data<T>(t[8]);
    return a;
  }

  // Sums of key gradients that are kept apart, so that several threads can share the queries of one
  // KV head. It depends on the shapes alone: so do the results.
  template <typename T>
  static std::int64_t gradient_parts(const Attend<T>& a, std::int64_t batch) {
    if (batch * a.groups >= 8 || attend_tile_count(a) < 8) return 1;
    return a.heads / a.groups > 1 ? 4 : 2;
  }

  // body(arguments with scratch, pair, part) for every part of every (sequence, KV head) pair.
  template <typename T, typename Body>
  static void run_tiles(const Attend<T>& a, std::int64_t batch, std::int64_t parts,
                        const Body& body) {
    at::parallel_for(0, batch * a.groups * parts, 1, [&](std::int64_t begin, std::int64_t end) {
      const auto scratch =
          hwy::AllocateAligned<T>(static_cast<std::size_t>(attend_tile_scratch(a.width)));
      Attend<T> own = a;
      own.scratch = scratch.get();
      for (std::int64_t item = begin; item < end; ++item) body(own, item / parts, item % parts);
    });
  }

  // Forward, for few queries.
  template <typename T>
  static void run_parts(const Attend<T>& a, std::int64_t batch) {
    const std::int64_t parts = attend_parts(a), pairs = batch * a.groups;
    const std::int64_t size = attend_part_size(a);
    std::vector<T> results(static_cast<std::size_t>(pairs * parts * size));
    // Part by part: all heads' keys of a token lie side by side in memory.
    at::parallel_for(0, pairs * parts, 1, [&](std::int64_t begin, std::int64_t end) {
      std::vector<T> scratch(static_cast<std::size_t>(size));
      Attend<T> own = a;
      own.scratch = scratch.data();
      for (std::int64_t item = begin; item < end; ++item) {
        const std::int64_t pair = item % pairs, part = item / pairs;
        attend_part(own, pair, part, results.data() + (pair * parts + part) * size);
      }
    });
    for (std::int64_t pair = 0; pair < pairs; ++pair) {
      merge_parts(a, pair, results.data() + pair * parts * size);
    }
  }

  template <typename T, typename Loop>
  static void run(const Attend<T>& a, std::int64_t batch, Loop loop) {
    at::parallel_for(0, batch * a.groups, 1, [&](std::int64_t begin, std::int64_t end) {
      std::vector<T> scratch(static_cast<std::size_t>(a.tokens + a.entries));
      Attend<T> own = a;
      own.scratch = scratch.data();
      loop(own, begin, end);
    });
  }
};

}  // namespace

torch::Tensor fused_norm_rope(const torch::Tensor& x, const torch::Tensor& weight, double epsilon,
                              const RopeTable& table) {
  Tensor cos = torch::empty({0}, x.options()), sin = cos;
  if (table.cos.defined()) {
    std::vector<std::int64_t> shape = x.sizes().vec();
    shape.back() = table.cos.size(-1);
    cos = table.cos.contiguous().expand(shape);
    sin = table.sin.contiguous().expand(shape);
  }
  return kernels::apply<NormRopeFunction>(x, contiguous_or_empty(weight, x), epsilon, cos, sin);
}

torch::Tensor fused_swiglu(const torch::Tensor& gate_and_up) {
  return kernels::apply<SwiGluFunction>(gate_and_up);
}

torch::Tensor fused_pool_chunks(const Gate& gate, const torch::Tensor& payload,
                                const ChunkGrid& grid) {
  return kernels::apply<PoolFunction>(contiguous_or_empty(gate.logits, payload),
                                      contiguous_or_empty(gate.bias, payload), payload, grid.window,
                                      grid.stride, grid.first_end);
}

torch::Tensor fused_attend(const Attention& a) {
  const Tensor& q = a.queries;
  // Views of a cache are read where they are.
  const auto with_rows = [&](const Tensor& keys) {
    if (!there(keys)) return torch::empty({0}, q.options());
    return keys.stride(3) == 1 ? keys : keys.contiguous();
  };
  return kernels::apply<AttendFunction>(
      q.contiguous(), with_rows(a.keys), with_rows(a.values), with_rows(a.entry_keys),
      with_rows(a.entry_values), contiguous_or_empty(a.sinks, q), a.rows.contiguous(), a.first,
      a.recent.window, a.recent.tail, a.grid.stride, a.grid.first_end);
}

}  // namespace kvphase::kernels
