#pragma once
// Leaves: the parameters of a network as leaves of autograd's graphs. Owned by the network and used by its thread.
// Includes LibTorch: for the sources of models/ only.

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "models/shards/element_range.h"
#include "models/torch/device_weights.h"

namespace troupe {

class Leaves {
 public:
  // `weights` must outlive this.
  explicit Leaves(const DeviceWeights& weights) : weights_(weights) {}
  // Hooks refer to it.
  Leaves(const Leaves&) = delete;
  Leaves& operator=(const Leaves&) = delete;
  ~Leaves();

  // A parameter. It shares the memory of the weights, also for its gradient, which backward passes add to; a frozen one
  // has none. Each name at most once.
  at::Tensor leaf(const std::string& name);
  // Where a backward pass says of each leaf, once, that it has added its gradient: all that the uses of the leaf add.
  // Called by the thread of the pass, and not for leaves that the pass does not reach. On other devices than the CPU
  // never: their gradients are added by a thread of autograd.
  void gradients_complete_to(std::function<void(ElementRange)> complete);

 private:
  const DeviceWeights& weights_;
  std::vector<std::pair<at::Tensor, ElementRange>> trained_;
  std::function<void(ElementRange)> complete_;
};

}  // namespace troupe
