#include "models/torch/activation.h"

#include <ATen/ATen.h>

#include "runtime/base/errors.h"

namespace troupe {

Activation find_activation(const std::string& name) {
  if (name == "tanh") return Activation::tanh;
  if (name == "relu") return Activation::relu;
  if (name == "elu") return Activation::elu;
  if (name == "gelu") return Activation::gelu;
  if (name == "silu") return Activation::silu;
  throw InvariantError("there is no activation " + name);
}

at::Tensor activated(Activation activation, const at::Tensor& x) {
  switch (activation) {
    case Activation::tanh: return at::tanh(x);
    case Activation::relu: return at::relu(x);
    case Activation::elu: return at::elu(x);
    case Activation::gelu: return at::gelu(x);
    case Activation::silu: return at::silu(x);
  }
  return x;
}

}  // namespace troupe
