#include "models/torch/leaves.h"

#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <memory>

namespace troupe {

namespace {

// Called by autograd after it has added the gradient of a leaf.
class CompleteHook final : public torch::autograd::PostAccumulateGradHook {
 public:
  CompleteHook(const std::function<void(ElementRange)>& complete, ElementRange elements)
      : complete_(complete), elements_(elements) {}
  void operator()(const at::Tensor& /*leaf*/) override { complete_(elements_); }

 private:
  const std::function<void(ElementRange)>& complete_;
  ElementRange elements_;
};

}  // namespace

// A graph may keep a leaf longer than this.
Leaves::~Leaves() {
  for (auto& [leaf, elements] : trained_) torch::autograd::impl::set_post_acc_grad_hooks(leaf, nullptr);
}

at::Tensor Leaves::leaf(const std::string& name) {
  at::Tensor leaf = weights_.parameter(name).detach();
  if (!weights_.has_gradient(name)) return leaf;
  leaf.set_requires_grad(true);
  leaf.mutable_grad() = weights_.gradient(name);
  trained_.emplace_back(leaf, weights_.elements(name));
  return leaf;
}

void Leaves::gradients_complete_to(std::function<void(ElementRange)> complete) {
  if (!weights_.device().is_cpu()) return;
  complete_ = std::move(complete);
  for (auto& [leaf, elements] : trained_)
    torch::autograd::impl::set_post_acc_grad_hooks(leaf, std::make_unique<CompleteHook>(complete_, elements));
}

}  // namespace troupe
