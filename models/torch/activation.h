#pragma once
// The activation functions of networks, by model.activation. Includes LibTorch: for the sources of models/ only. Any
// thread.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

namespace troupe {

enum class Activation : uint8_t { tanh, relu, elu, gelu, silu };

// Throws InvariantError on another name: the reader of config files has refused it.
Activation find_activation(const std::string& name);

// Applied to every element.
at::Tensor activated(Activation activation, const at::Tensor& x);

}  // namespace troupe
