#pragma once
// ShardGradients: adds up the gradients of the shards of a step in host memory, in the order of ShardLeaves. Owned by a
// trainer; one thread at a time.

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "models/shards/shard_sum.h"

namespace troupe {

class ShardGradients {
 public:
  explicit ShardGradients(size_t shards) : leaves_(shards), sums_(leaves_.places()) {}

  // As ShardLeaves has them.
  StepLeaves begin(std::span<const size_t> micro_batches) {
    return leaves_.begin(micro_batches, *std::ranges::max_element(micro_batches));
  }
  size_t held() const { return leaves_.held(); }
  void go_to(size_t leaf, std::span<float> gradients) {
    leaves_.go_to(leaf, [&](size_t place) { add(place, gradients); }, [&](size_t place) { keep(place, gradients); });
  }
  // After the last micro-batch they are the sum of all.
  void end_micro_batch(std::span<float> gradients) {
    go_to(leaves_.end_of_micro_batch(), gradients);
    leaves_.end_micro_batch([&](size_t place) { add(place, gradients); },
                            [&](size_t place) { keep(place, gradients); });
  }

 private:
  void add(size_t place, std::span<float> gradients) const {
    const std::vector<float>& sum = sums_[place];
    for (size_t i = 0; i < gradients.size(); ++i) gradients[i] += sum[i];
  }
  void keep(size_t place, std::span<float> gradients) {
    sums_[place].assign(gradients.begin(), gradients.end());
    std::ranges::fill(gradients, 0.0f);
  }

  ShardLeaves leaves_;
  std::vector<std::vector<float>> sums_;  // by place
};

}  // namespace troupe
