#pragma once
// ShardGradients: adds up the gradients of the shards of a step in host memory, in the order of ShardLeaves. Owned by a
// trainer; one thread at a time.

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "models/learning/shard_sum.h"

namespace troupe {

class ShardGradients {
 public:
  explicit ShardGradients(size_t shards) : leaves_(shards), sums_(leaves_.places()) {}

  // As ShardLeaves has them.
  std::vector<size_t> begin(std::span<const size_t> micro_batches) { return leaves_.begin(micro_batches); }
  size_t shard() const { return leaves_.shard(); }
  void go_to(size_t leaf, std::span<float> gradients) {
    leaves_.go_to(
        leaf,
        [&](size_t place) {
          const std::vector<float>& sum = sums_[place];
          for (size_t i = 0; i < gradients.size(); ++i) gradients[i] += sum[i];
        },
        [&](size_t place) {
          sums_[place].assign(gradients.begin(), gradients.end());
          std::ranges::fill(gradients, 0.0f);
        });
  }
  // After which they are the sum of all.
  void finish(std::span<float> gradients) { go_to(leaves_.end(), gradients); }

 private:
  ShardLeaves leaves_;
  std::vector<std::vector<float>> sums_;  // by place
};

}  // namespace troupe
