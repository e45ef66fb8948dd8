#pragma once
// ShardGradients: adds up the gradients of the shards of a step in host memory, in the order of ShardLeaves. Owned by a
// trainer; one thread at a time.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "models/shards/rank_round.h"
#include "models/shards/shard_sum.h"

namespace troupe {

class ShardGradients {
 public:
  explicit ShardGradients(size_t shards) : leaves_(shards) { hold({0, shards}); }

  // As ShardLeaves has them.
  void hold(ShardRange mine) {
    leaves_.hold(mine);
    sums_.resize(leaves_.places());
  }
  const ShardRange& mine() const { return leaves_.mine(); }
  bool holds_all() const { return leaves_.holds_all(); }
  StepLeaves begin(std::span<const size_t> micro_batches, size_t most) { return leaves_.begin(micro_batches, most); }
  size_t held() const { return leaves_.held(); }
  size_t micro_batch() const { return leaves_.micro_batch(); }
  void go_to(size_t leaf, std::span<float> gradients) {
    leaves_.go_to(leaf, [&](size_t place) { add(place, gradients); }, [&](size_t place) { keep(place, gradients); });
  }
  // Of the micro-batch under way.
  std::vector<GradientBranch> branches(std::span<float> gradients) {
    go_to(leaves_.end_of_micro_batch(), gradients);
    std::vector<GradientBranch> result;
    for (size_t i = 0; i < leaves_.branches().size(); ++i) {
      const bool last = i + 1 == leaves_.branches().size();
      const std::span<const float> values = last ? gradients : std::span<const float>(sums_[leaves_.place_of(i)]);
      result.push_back({leaves_.branches()[i], Array::of({static_cast<int64_t>(values.size())}, values)});
    }
    return result;
  }
  // `sum`: the gradients of all shards; empty where all are held. After the last micro-batch the gradients are the sum
  // of all.
  void end_micro_batch(std::span<float> gradients, std::span<const float> sum) {
    if (leaves_.holds_all()) {
      go_to(leaves_.end_of_micro_batch(), gradients);
    } else {
      TROUPE_CHECK(sum.size() == gradients.size(), sum.size(), gradients.size());
      std::ranges::copy(sum, gradients.begin());
    }
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
