#include "model/recompute.h"

#include <memory>
#include <utility>

namespace kvphase::model {
namespace {

using torch::autograd::variable_list;

// Gradients of x (first) and of the parameters, by computing the function again.
struct RecomputedBackward : torch::autograd::Node {
  variable_list apply(variable_list&& outputs) override {
    const torch::AutoGradMode with_gradients(true);
    const torch::Tensor input = x.detach().requires_grad_(x_wants_one);
    variable_list wanted = parameters;
    if (x_wants_one) wanted.insert(wanted.begin(), input);
    variable_list gradients = torch::autograd::grad({function(input)}, wanted, outputs, {}, false,
                                                    /*allow_unused=*/true);
    if (!x_wants_one) gradients.insert(gradients.begin(), torch::Tensor());
    return gradients;
  }

  void release_variables() override {
    x = torch::Tensor();
    function = nullptr;
  }

  TensorFunction function;
  torch::Tensor x;
  bool x_wants_one = false;
  variable_list parameters;
};

}  // namespace

torch::Tensor recomputed(const TensorFunction& function, const torch::Tensor& x,
                         const std::vector<torch::Tensor>& parameters) {
  if (!torch::GradMode::is_enabled()) return function(x);
  const std::shared_ptr<RecomputedBackward> node(new RecomputedBackward,
                                                 torch::autograd::deleteNode);
  torch::autograd::edge_list edges = {torch::autograd::impl::gradient_edge(x)};
  for (const torch::Tensor& parameter : parameters) {
    edges.push_back(torch::autograd::impl::gradient_edge(parameter));
  }
  node->set_next_edges(std::move(edges));
  node->function = function;
  node->x = x.detach();
  node->x_wants_one = x.requires_grad();
  node->parameters = parameters;
  torch::Tensor result;
  {
    const torch::NoGradGuard no_grad;
    result = function(x);
  }
  torch::autograd::create_gradient_edge(result, node);
  return result;
}

}  // namespace kvphase::model
