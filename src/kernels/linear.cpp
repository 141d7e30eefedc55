#include "kernels/linear.h"

#include <ATen/Parallel.h>

#include <map>
#include <oneapi/dnnl/dnnl.hpp>
#include <tuple>

#include "base/error.h"
#include "kernels/dispatch.h"

namespace kvphase::kernels {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Below, a product is a few vectors' and oneDNN's call costs more than it gains.
constexpr std::int64_t kFewRows = 16;

thread_local bool bfloat16_only = false;

// A [m, k] or, turned, [k, m] without gaps.
struct Factor {
  Tensor matrix;
  bool turned = false;

  std::int64_t rows() const { return matrix.size(turned ? 1 : 0); }
  std::int64_t columns() const { return matrix.size(turned ? 0 : 1); }
};

void expect_success(dnnl_status_t status) {
  TORCH_CHECK(status == dnnl_success, "[kernels] expected oneDNN to multiply, got status ",
              static_cast<int>(status));
}

const dnnl::engine& cpu() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

// One for every shape and thread: making one costs more than a small product.
const dnnl::matmul& bfloat16_product(const Factor& a, const Factor& b) {
  using Key = std::tuple<std::int64_t, std::int64_t, std::int64_t, bool, bool>;
  thread_local std::map<Key, dnnl::matmul> made;
  const std::int64_t m = a.rows(), k = a.columns(), n = b.columns();
  const Key key{m, n, k, a.turned, b.turned};
  auto found = made.find(key);
  if (found == made.end()) {
    using Type = dnnl::memory::data_type;
    const auto layout = [](bool turned) {
      return turned ? dnnl::memory::format_tag::ba : dnnl::memory::format_tag::ab;
    };
    const dnnl::matmul::desc what({{m, k}, Type::bf16, layout(a.turned)},
                                  {{k, n}, Type::bf16, layout(b.turned)},
                                  {{m, n}, Type::f32, layout(false)});
    if (made.size() > 1000) made.clear();
    found = made.emplace(key, dnnl::matmul({what, cpu()})).first;
  }
  return found->second;
}

// A B without gradients.
Tensor product(const Factor& a, const Factor& b, bool bfloat16) {
  const std::int64_t m = a.rows(), k = a.columns(), n = b.columns();
  const Tensor result = torch::empty({m, n}, a.matrix.options());
  at::internal::lazy_init_num_threads();  // oneDNN asks OpenMP how many this thread may use
  if (!bfloat16) {
    expect_success(dnnl_sgemm(a.turned ? 'T' : 'N', b.turned ? 'T' : 'N', m, n, k, 1.0F,
                              a.matrix.data_ptr<float>(), a.matrix.size(1),
                              b.matrix.data_ptr<float>(), b.matrix.size(1), 0.0F,
                              result.data_ptr<float>(), n));
    return result;
  }
  const Tensor left = a.matrix.to(torch::kBFloat16), right = b.matrix.to(torch::kBFloat16);
  const dnnl::matmul& multiply = bfloat16_product({left, a.turned}, {right, b.turned});
  thread_local dnnl::stream stream(cpu());
  const auto pd = dnnl::matmul::primitive_desc(
      const_cast<dnnl_primitive_desc_t>(multiply.get_primitive_desc()));
  multiply.execute(stream, {{DNNL_ARG_SRC, {pd.src_desc(), cpu(), left.data_ptr()}},
                            {DNNL_ARG_WEIGHTS, {pd.weights_desc(), cpu(), right.data_ptr()}},
                            {DNNL_ARG_DST, {pd.dst_desc(), cpu(), result.data_ptr()}}});
  stream.wait();
  return result;
}

struct LinearFunction : torch::autograd::Function<LinearFunction> {
  // x [M, C] and weight [N, C] without gaps.
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& weight,
                        bool bfloat16) {
    context->save_for_backward({x, weight});
    context->saved_data["bfloat16"] = bfloat16;
    return product({x}, {weight, true}, bfloat16);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    TORCH_CHECK(!torch::GradMode::is_enabled(),
                "[kernels] expected first-order gradients only, got create_graph; hold a "
                "PlainKernels to differentiate twice");
    const variable_list saved = context->get_saved_variables();
    const bool bfloat16 = context->saved_data["bfloat16"].toBool();
    const Tensor dy = gradients[0].contiguous();
    Tensor dx, dweight;
    if (context->needs_input_grad(0)) dx = product({dy}, {saved[1]}, bfloat16);
    if (context->needs_input_grad(1)) dweight = product({dy, true}, {saved[0]}, bfloat16);
    return {dx, dweight, {}};
  }
};

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
  const bool here = use_fused({x, weight}) && x.scalar_type() == torch::kFloat &&
                    x.numel() >= kFewRows * x.size(-1);
  if (!here) return torch::linear(x, weight);
  std::vector<std::int64_t> shape = x.sizes().vec();
  shape.back() = weight.size(0);
  return LinearFunction::apply(x.reshape({-1, x.size(-1)}).contiguous(), weight.contiguous(),
                               bfloat16_only)
      .view(shape);
}

}  // namespace kvphase::kernels
