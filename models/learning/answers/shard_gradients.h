#pragma once
// ShardGradients: adds up the gradients of the shards of a step in host memory, in the order of ShardLeaves. Owned by a
// trainer; one thread at a time.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "models/learning/objective.h"
#include "models/shards/gradient_pieces.h"
#include "models/shards/rank_round.h"
#include "models/shards/shard_sum.h"
#include "models/weights/gradient_block.h"
#include "runtime/base/paged_block.h"

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
  ShardGradients(size_t shards, size_t elements, size_t each)
      : leaves_(shards), pieces_(elements, each), slice_{0, elements} {
    hold({0, shards});
  }

  // As ShardLeaves has them.
  void hold(ShardRange mine) {
    if (mine == leaves_.mine() && sums_.size() == leaves_.places()) return;  // keeps the memory of sums
    leaves_.hold(mine);
    sums_.clear();
    sums_.resize(leaves_.places());
  }
  // The sum of the micro-batches of a step is kept of these alone; at first of all.
  void hold_slice(ElementRange elements) {
    slice_ = elements;
    total_ = {};
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
  void go_to(size_t leaf, GradientBlock& gradients) {
    leaves_.go_to(leaf, [&](size_t place) { add(place, gradients); }, [&](size_t place) { keep(place, gradients); });
  }
  // In the last leaf, these of the gradients are complete. Says the pieces that now are. What is said is not needed any
  // more: a paged block gives its memory back.
  void complete(std::span<const float> tensor, GradientBlock& gradients, const Objective::SayGradients& say) {
    if (tensor.empty()) return;
    const auto begin = static_cast<size_t>(tensor.data() - gradients.floats().data());
    pieces_.complete({begin, begin + tensor.size()}, [&](size_t piece) { say_piece(piece, gradients, say); });
  }
  // After the last leaf, all are: says the pieces that were not said before.
  void end_backward(GradientBlock& gradients, const Objective::SayGradients& say) {
    go_to(leaves_.end_of_micro_batch() - 1, gradients);
    pieces_.complete_all([&](size_t piece) { say_piece(piece, gradients, say); });
    const auto said = [](size_t /*place*/) {};  // with each piece
    leaves_.go_to(leaves_.end_of_micro_batch(), said, said);
  }
  // After the last micro-batch the gradients of the slice are the sum of all shards.
  void end_micro_batch(GradientBlock& gradients) {
    if (leaves_.holds_all()) go_to(leaves_.end_of_micro_batch(), gradients);
    leaves_.end_micro_batch([&](size_t) { add_total(gradients); }, [&](size_t) { keep_total(gradients); });
    pieces_.begin();
  }

 private:
  void say_piece(size_t piece, GradientBlock& gradients, const Objective::SayGradients& say) {
    say(piece, branches(pieces_.range(piece), gradients));
    if (!gradients.is_paged()) return;
    const ElementRange elements = pieces_.range(piece);
    gradients.free(elements);
    for (std::optional<PagedBlock>& sum : sums_)
      if (sum) sum->clear(elements.begin * sizeof(float), elements.end * sizeof(float));
  }
  // Of these elements, in the last leaf: the sums that wait for it are added to the last branch.
  std::vector<GradientBranch> branches(ElementRange elements, GradientBlock& gradients) const {
    const auto of = [&](std::span<const float> all) { return all.subspan(elements.begin, elements.size()); };
    std::vector<GradientBranch> result;
    for (size_t i = 0; i < leaves_.branches().size(); ++i) {
      const bool last = i + 1 == leaves_.branches().size();
      const std::span<const float> from = of(last ? gradients.floats() : floats(leaves_.place_of(i)));
      Array values = Array::of({static_cast<int64_t>(from.size())}, from);
      if (last)
        for (const size_t place : leaves_.last_additions())
          std::ranges::transform(values.view<float>(), of(floats(place)), values.mutable_view<float>().begin(),
                                 std::plus<>());
      result.push_back({leaves_.branches()[i], std::move(values)});
    }
    return result;
  }
  std::span<float> floats(size_t place) const { return sums_[place].value().floats(); }
  void add(size_t place, GradientBlock& gradients) const {
    const std::span<float> sum = floats(place), to = gradients.floats();
    for (size_t i = 0; i < to.size(); ++i) to[i] += sum[i];
  }
  void keep(size_t place, GradientBlock& gradients) {
    const std::span<const float> from = gradients.floats();
    if (!sums_[place]) sums_[place].emplace(from.size_bytes());
    std::ranges::copy(from, floats(place).begin());
    gradients.clear();
  }
  std::span<float> slice_of(GradientBlock& gradients) const {
    return gradients.floats().subspan(slice_.begin, slice_.size());
  }
  void add_total(GradientBlock& gradients) const {
    const std::span<float> to = slice_of(gradients);
    for (size_t i = 0; i < to.size(); ++i) to[i] += total_[i];
  }
  void keep_total(GradientBlock& gradients) {
    const std::span<const float> from = slice_of(gradients);
    total_.assign(from.begin(), from.end());
    gradients.clear();
  }

  ShardLeaves leaves_;
  GradientPieces pieces_;
  ElementRange slice_;
  std::vector<std::optional<PagedBlock>> sums_;  // by place, of all gradients; but for the last place
  std::vector<float> total_;                     // of slice_: the sum of the micro-batches before
};

}  // namespace troupe
