#include "kernels/linear.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <map>
#include <oneapi/dnnl/dnnl.hpp>
#include <tuple>

#include "base/error.h"
#include "kernels/autograd.h"
#include "kernels/dispatch.h"
#include "kernels/few_rows.h"

namespace kvphase::kernels {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Below, reading the matrix is what a product costs.
constexpr std::int64_t kFewRows = 16;
// Numbers of a matrix that are worth another thread.
constexpr std::int64_t kThreadNumbers = 1 << 16;

thread_local bool bfloat16_only = false;

// A [m, k] or, turned, [k, m]; its rows may lie apart.
struct Factor {
  Tensor matrix;
  bool turned = false;

  std::int64_t rows() const { return matrix.size(turned ? 1 : 0); }
  std::int64_t columns() const { return matrix.size(turned ? 0 : 1); }
};

// From one row to the next.
std::int64_t step_of(const Tensor& matrix) {
  return matrix.size(0) > 1 ? matrix.stride(0) : matrix.size(1);
}

void expect_success(dnnl_status_t status) {
  TORCH_CHECK(status == dnnl_success, "[kernels] expected oneDNN to multiply, got status ",
              static_cast<int>(status));
}

const dnnl::engine& cpu() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

// One for every shape and thread: making one costs more than a small product. a and b without gaps.
const dnnl::matmul& bfloat16_product(const Factor& a, const Factor& b, std::int64_t result_step) {
  using Key = std::tuple<std::int64_t, std::int64_t, std::int64_t, bool, bool, std::int64_t>;
  thread_local std::map<Key, dnnl::matmul> made;
  const std::int64_t m = a.rows(), k = a.columns(), n = b.columns();
  const Key key{m, n, k, a.turned, b.turned, result_step};
  auto found = made.find(key);
  if (found == made.end()) {
    using Type = dnnl::memory::data_type;
    const auto layout = [](bool turned) {
      return turned ? dnnl::memory::format_tag::ba : dnnl::memory::format_tag::ab;
    };
    const dnnl::matmul::desc what({{m, k}, Type::bf16, layout(a.turned)},
                                  {{k, n}, Type::bf16, layout(b.turned)},
                                  {{m, n}, Type::f32, dnnl::memory::dims{result_step, 1}});
    if (made.size() > 1000) made.clear();
    found = made.emplace(key, dnnl::matmul({what, cpu()})).first;
  }
  return found->second;
}

// result = A B without gradients; its rows may lie apart.
void multiply(const Factor& a, const Factor& b, bool bfloat16, const Tensor& result) {
  const std::int64_t m = a.rows(), k = a.columns(), n = b.columns();
  if (k == 0) result.zero_();
  if (m == 0 || n == 0 || k == 0) return;
  at::internal::lazy_init_num_threads();  // oneDNN asks OpenMP how many this thread may use
  if (!bfloat16) {
    expect_success(dnnl_sgemm(a.turned ? 'T' : 'N', b.turned ? 'T' : 'N', m, n, k, 1.0F,
                              a.matrix.data_ptr<float>(), step_of(a.matrix),
                              b.matrix.data_ptr<float>(), step_of(b.matrix), 0.0F,
                              result.data_ptr<float>(), step_of(result)));
    return;
  }
  const Tensor left = a.matrix.to(torch::kBFloat16).contiguous(),
               right = b.matrix.to(torch::kBFloat16).contiguous();
  const dnnl::matmul& product =
      bfloat16_product({left, a.turned}, {right, b.turned}, step_of(result));
  thread_local dnnl::stream stream(cpu());
  const auto pd =
      dnnl::matmul::primitive_desc(const_cast<dnnl_primitive_desc_t>(product.get_primitive_desc()));
  product.execute(stream, {{DNNL_ARG_SRC, {pd.src_desc(), cpu(), left.data_ptr()}},
                           {DNNL_ARG_WEIGHTS, {pd.weights_desc(), cpu(), right.data_ptr()}},
                           {DNNL_ARG_DST, {pd.dst_desc(), cpu(), result.data_ptr()}}});
  stream.wait();
}

Tensor product(const Factor& a, const Factor& b, bool bfloat16) {
  const Tensor result = torch::empty({a.rows(), b.columns()}, a.matrix.options());
  multiply(a, b, bfloat16, result);
  return result;
}

// x [M, C] and weight [N, C] without gaps.
Tensor few_rows(const Tensor& x, const Tensor& weight) {
  const std::int64_t rows = x.size(0), width = x.size(1), outputs = weight.size(0);
  const Tensor y = torch::empty({rows, outputs}, x.options());
  const std::int64_t quads = (outputs + 3) / 4;
  at::parallel_for(0, quads, std::max<std::int64_t>(1, kThreadNumbers / (4 * width)),
                   [&](std::int64_t begin, std::int64_t end) {
                     multiply_few_rows(x.data_ptr<float>(), rows, width, weight.data_ptr<float>(),
                                       outputs, 4 * begin, std::min(4 * end, outputs),
                                       y.data_ptr<float>());
                   });
  return y;
}

// x W^T
Tensor forward_product(const Tensor& x, const Tensor& weight, bool bfloat16) {
  return x.size(0) < kFewRows ? few_rows(x, weight) : product({x}, {weight, true}, bfloat16);
}

void expect_first_order() {
  TORCH_CHECK(!torch::GradMode::is_enabled(),
              "[kernels] expected first-order gradients only, got create_graph; hold a "
              "PlainKernels to differentiate twice");
}

struct LinearFunction : torch::autograd::Function<LinearFunction> {
  // x [M, C] and weight [N, C] without gaps.
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& weight,
                        bool bfloat16) {
    context->save_for_backward({x, weight});
    context->saved_data["bfloat16"] = bfloat16;
    return forward_product(x, weight, bfloat16);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    expect_first_order();
    const variable_list saved = context->get_saved_variables();
    const bool bfloat16 = context->saved_data["bfloat16"].toBool();
    const Tensor dy = gradients[0].contiguous();
    Tensor dx, dweight;
    if (context->needs_input_grad(0)) dx = product({dy}, {saved[1]}, bfloat16);
    if (context->needs_input_grad(1)) dweight = product({dy, true}, {saved[0]}, bfloat16);
    return {dx, dweight, {}};
  }
};

// Rows r = phase, phase + S, ... of a matrix, for every phase: the views share its memory.
std::vector<Tensor> rows_by_phase(const Tensor& matrix, std::int64_t phases) {
  std::vector<Tensor> rows;
  for (std::int64_t phase = 0; phase < phases; ++phase) {
    rows.push_back(matrix.slice(0, phase, matrix.size(0), phases));
  }
  return rows;
}

// One phase after the other on each thread: the products of one are too small to share.
void multiply_by_phase(const std::vector<Factor>& a, const std::vector<Factor>& b, bool bfloat16,
                       const std::vector<Tensor>& results) {
  at::parallel_for(0, static_cast<std::int64_t>(a.size()), 1,
                   [&](std::int64_t begin, std::int64_t end) {
                     const torch::NoGradGuard no_grad;
                     for (std::int64_t phase = begin; phase < end; ++phase) {
                       const auto at = static_cast<std::size_t>(phase);
                       multiply(a[at], b[at], bfloat16, results[at]);
                     }
                   });
}

struct LinearByPhaseFunction : torch::autograd::Function<LinearByPhaseFunction> {
  // x [R, C] and weight [S, N, C] without gaps; row r is of phase r mod S.
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& weight,
                        bool bfloat16) {
    context->save_for_backward({x, weight});
    context->saved_data["bfloat16"] = bfloat16;
    const Tensor y = torch::empty({x.size(0), weight.size(1)}, x.options());
    multiply_by_phase(factors(rows_by_phase(x, weight.size(0))), factors(weight.unbind(0), true),
                      bfloat16, rows_by_phase(y, weight.size(0)));
    return y;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    expect_first_order();
    const variable_list saved = context->get_saved_variables();
    const bool bfloat16 = context->saved_data["bfloat16"].toBool();
    const Tensor &x = saved[0], &weight = saved[1], dy = gradients[0].contiguous();
    const std::int64_t phases = weight.size(0);
    const std::vector<Tensor> dys = rows_by_phase(dy, phases);
    Tensor dx, dweight;
    if (context->needs_input_grad(0)) {
      dx = torch::empty_like(x);
      multiply_by_phase(factors(dys), factors(weight.unbind(0)), bfloat16,
                        rows_by_phase(dx, phases));
    }
    if (context->needs_input_grad(1)) {
      dweight = torch::empty_like(weight);
      multiply_by_phase(factors(dys, true), factors(rows_by_phase(x, phases)), bfloat16,
                        dweight.unbind(0));
    }
    return {dx, dweight, {}};
  }

  static std::vector<Factor> factors(const std::vector<Tensor>& matrices, bool turned = false) {
    std::vector<Factor> result;
    for (const Tensor& matrix : matrices) result.push_back({matrix, turned});
    return result;
  }
};

bool float_on_cpu(const Tensor& x, const Tensor& weight) {
  return use_fused({x, weight}) && x.scalar_type() == torch::kFloat;
}

}  // namespace

BFloat16Products::BFloat16Products() : before_(bfloat16_only) {
  if (!has_bfloat16_products()) {
    throw base::environment_error("kernels",
                                  "expected a processor that multiplies bfloat16 numbers "
                                  "(avx512_bf16), got one without; use float32 products");
  }
  bfloat16_only = true;
}

BFloat16Products::~BFloat16Products() { bfloat16_only = before_; }

bool has_bfloat16_products() {
  static const bool has = dnnl::get_effective_cpu_isa() >= dnnl::cpu_isa::avx512_core_bf16;
  return has;
}

torch::Tensor linear(const torch::Tensor& x, const torch::Tensor& weight) {
  if (!float_on_cpu(x, weight)) return torch::linear(x, weight);
  std::vector<std::int64_t> shape = x.sizes().vec();
  shape.back() = weight.size(0);
  const Tensor rows = x.reshape({-1, x.size(-1)}).contiguous(), matrix = weight.contiguous();
  const bool bfloat16 = bfloat16_only && rows.size(0) >= kFewRows;
  return kernels::apply<LinearFunction>(rows, matrix, bfloat16).view(shape);
}

torch::Tensor linear_by_phase(const torch::Tensor& x, const torch::Tensor& weight) {
  const std::int64_t batch = x.size(0), tokens = x.size(1), width = x.size(2);
  const std::int64_t phases = weight.size(0), missing = (phases - tokens % phases) % phases;
  const bool ours = float_on_cpu(x, weight);
  if (missing > 0 && (batch > 1 || !ours)) {  // every sequence begins at phase 0
    return linear_by_phase(torch::constant_pad_nd(x, {0, 0, 0, missing}), weight)
        .narrow(1, 0, tokens);
  }
  if (ours) {
    return kernels::apply<LinearByPhaseFunction>(x.reshape({-1, width}).contiguous(),
                                                 weight.contiguous(), bfloat16_only)
        .view({batch, tokens, -1});
  }
  return torch::einsum("bmsc,snc->bmsn", {x.unflatten(1, {-1, phases}), weight}).flatten(1, 2);
}

}  // namespace kvphase::kernels
