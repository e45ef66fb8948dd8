#pragma once
// Adam: one pass over a flat run of parameters and its gradients (Kingma and Ba 2015, algorithm 1; weight decay as in Loshchilov
// and Hutter 2019). Plain memory, used by one thread at a time.

#include <cstdint>
#include <span>
#include <vector>

namespace troupe {

struct AdamSettings {
  double learning_rate = 0.0;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0.0;
};

// The state of a group of parameters that are trained with one learning rate.
struct AdamState {
  uint64_t steps = 0;
  std::vector<float> first;   // running mean of the gradient
  std::vector<float> second;  // running mean of its square
};

// One step of parameters [begin, begin + n) of a group; `state.steps` counts this step already. Gradients are multiplied by
// gradient_scale before use.
void adam_step(const AdamSettings& settings, AdamState& state, size_t begin, std::span<float> parameters,
               std::span<const float> gradients, float gradient_scale);

// The Euclidean norm, in double; not finite when an element is not.
double norm_of(std::span<const float> gradients);

}  // namespace troupe
