#pragma once
// The hook between backward and optimizer step.

#include <functional>

namespace at {
class Tensor;
}

namespace troupe {

// May change the gradients of a step: [n] float32 on the trainer's device, laid out as the parameters of a WeightBlock,
// padding included. Called once for every minibatch that has samples, by the learner's thread. When this learner's loss
// is not finite the gradients are NaN: what it sums up with them is skipped by everybody. An empty function costs
// nothing.
using GradientReducer = std::function<void(at::Tensor& gradients)>;

}  // namespace troupe
