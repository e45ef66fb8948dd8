#pragma once
// ShardGradients: adds up the gradients of the shards of a step in host memory, in the order of ShardLeaves. Owned by a
// trainer; one thread at a time.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "models/learning/objective.h"
#include "models/shards/gradient_pieces.h"
#include "models/shards/rank_round.h"
#include "models/shards/shard_sum.h"

namespace troupe {

// Puts [elements] float32 in their place. Throws InvariantError when it has another size.
inline void copy_to(std::span<float> all, ElementRange elements, const Array& values) {
  const auto from = values.view<float>();
  TROUPE_CHECK(from.size() == elements.size(), from.size(), elements.size());
  std::ranges::copy(from, all.subspan(elements.begin, elements.size()).begin());
}

class ShardGradients {
 public:
  // Of so many gradients, which are exchanged in pieces of `each`.
  ShardGradients(size_t shards, size_t elements, size_t each) : leaves_(shards), pieces_(elements, each) {
    hold({0, shards});
  }

  // As ShardLeaves has them.
  void hold(ShardRange mine) {
    leaves_.hold(mine);
    sums_.resize(leaves_.places());
  }
  const ShardRange& mine() const { return leaves_.mine(); }
  bool holds_all() const { return leaves_.holds_all(); }
  StepLeaves begin(std::span<const size_t> micro_batches, size_t most) {
    pieces_.begin();
    return leaves_.begin(micro_batches, most);
  }
  // Whether the leaf under way is the last one of the micro-batch, and other ranks have other shards.
  bool is_last_leaf() const { return !leaves_.holds_all() && leaves_.is_last_leaf(); }
  size_t held() const { return leaves_.held(); }
  size_t micro_batch() const { return leaves_.micro_batch(); }
  void go_to(size_t leaf, std::span<float> gradients) {
    leaves_.go_to(leaf, [&](size_t place) { add(place, gradients); }, [&](size_t place) { keep(place, gradients); });
  }
  // In the last leaf, these of the gradients are complete. Says the pieces that now are.
  void complete(std::span<const float> tensor, std::span<const float> gradients, const Objective::SayGradients& say) {
    if (tensor.empty()) return;
    const auto begin = static_cast<size_t>(tensor.data() - gradients.data());
    const ElementRange elements = {begin, begin + tensor.size()};
    pieces_.complete(elements, [&](size_t piece) { say(piece, branches(piece, gradients, leaves_.last_additions())); });
  }
  // After the last leaf, all are: says the pieces that were not said before.
  void end_backward(std::span<float> gradients, const Objective::SayGradients& say) {
    go_to(leaves_.end_of_micro_batch(), gradients);
    pieces_.complete_all([&](size_t piece) { say(piece, branches(piece, gradients, {})); });
  }
  // After the last micro-batch the gradients are the sum of all shards.
  void end_micro_batch(std::span<float> gradients) {
    if (leaves_.holds_all()) go_to(leaves_.end_of_micro_batch(), gradients);
    leaves_.end_micro_batch([&](size_t place) { add(place, gradients); },
                            [&](size_t place) { keep(place, gradients); });
    pieces_.begin();
  }

 private:
  // Of a piece, from sums that are complete, but for the sums that are to be added to the last one.
  std::vector<GradientBranch> branches(size_t piece, std::span<const float> gradients,
                                       const std::vector<size_t>& additions) const {
    const auto of = [&](std::span<const float> all) {
      return all.subspan(pieces_.range(piece).begin, pieces_.range(piece).size());
    };
    std::vector<GradientBranch> result;
    for (size_t i = 0; i < leaves_.branches().size(); ++i) {
      const bool last = i + 1 == leaves_.branches().size();
      const std::span<const float> from = of(last ? gradients : std::span<const float>(sums_[leaves_.place_of(i)]));
      Array values = Array::of({static_cast<int64_t>(from.size())}, from);
      if (last)
        for (const size_t place : additions)
          std::ranges::transform(values.view<float>(), of(sums_[place]), values.mutable_view<float>().begin(),
                                 std::plus<>());
      result.push_back({leaves_.branches()[i], std::move(values)});
    }
    return result;
  }
  void add(size_t place, std::span<float> gradients) const {
    const std::vector<float>& sum = sums_[place];
    for (size_t i = 0; i < gradients.size(); ++i) gradients[i] += sum[i];
  }
  void keep(size_t place, std::span<float> gradients) {
    sums_[place].assign(gradients.begin(), gradients.end());
    std::ranges::fill(gradients, 0.0f);
  }

  ShardLeaves leaves_;
  GradientPieces pieces_;
  std::vector<std::vector<float>> sums_;  // by place
};

}  // namespace troupe
