#include "models/learning/answers/shard_gradients.h"

#include <algorithm>
#include <map>
#include <vector>

#include "runtime/base/errors.h"
#include "tests/support/resident.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

namespace {

constexpr size_t kPiece = 16 << 10, kPieces = 8, kElements = kPiece * kPieces;  // 64 KiB each
constexpr size_t kShards = 4;

// Whole numbers: sums are exact. That of micro-batch m of shard s.
float gradient(size_t shard, size_t micro_batch, size_t element) {
  return static_cast<float>(1 + shard + 10 * micro_batch + element % 7);
}

// What two shards have as a branch, in a micro-batch.
float branch(ShardRange shards, size_t micro_batch, size_t element) {
  float sum = 0;
  for (size_t shard = shards.first; shard < shards.end(); ++shard) sum += gradient(shard, micro_batch, element);
  return sum;
}

Signature signature() {
  Signature result;
  result.tensors.push_back({TensorGroup::policy, "weight", {static_cast<int64_t>(kElements)}, DType::f32});
  return result;
}

// The rank of shards 1 and 2 of four, which are two branches, in two micro-batches; it trains a quarter.
struct Rank {
  explicit Rank(bool paged) : gradients(weights, paged) {
    sum.hold({1, 2});
    sum.hold_slice(slice);
    gradients.clear();
    const std::vector<size_t> micro_batches = {2, 2};
    leaves = sum.begin(micro_batches, 2).leaves;
  }

  void add(size_t leaf, size_t from, size_t to) {
    for (size_t i = from; i < to; ++i) gradients.floats()[i] += gradient(1 + leaf % 2, leaf / 2, i);
  }
  // The last leaf is complete piece by piece, from the last one on, but the first piece.
  void backward(size_t micro_batch) {
    said.clear();
    sum.go_to(leaves[2 * micro_batch], gradients);
    CHECK_FALSE(sum.is_last_leaf());
    add(2 * micro_batch, 0, kElements);
    sum.go_to(leaves[2 * micro_batch + 1], gradients);
    CHECK(sum.is_last_leaf());
    for (size_t piece = kPieces; piece-- > 0;) {
      add(2 * micro_batch + 1, piece * kPiece, (piece + 1) * kPiece);
      most = std::max(most, resident());
      if (piece > 0) sum.complete(gradients.floats().subspan(piece * kPiece, kPiece), gradients, say);
    }
    CHECK(said.size() == kPieces - 1);
    sum.end_backward(gradients, say);
    CHECK(said.size() == kPieces);
  }
  void check_said(size_t micro_batch) const {
    for (const auto& [piece, branches] : said) {
      REQUIRE(branches.size() == 2);
      for (size_t b = 0; b < 2; ++b) {
        CHECK(branches[b].shards == ShardRange{1 + b, 1});
        const auto values = branches[b].values.view<float>();
        REQUIRE(values.size() == kPiece);
        size_t wrong = 0;
        for (size_t i = 0; i < kPiece; ++i)
          wrong += values[i] != branch(branches[b].shards, micro_batch, piece * kPiece + i);
        CHECK(wrong == 0);
      }
    }
  }
  // What the exchange gives it: the sum of all shards, in its slice.
  void set_sum(size_t micro_batch) {
    for (size_t i = slice.begin; i < slice.end; ++i) gradients.floats()[i] = branch({0, kShards}, micro_batch, i);
  }
  size_t resident() { return resident_bytes(gradients.floats().data(), kElements * sizeof(float)); }

  ElementRange slice = {2 * kPiece, 4 * kPiece};
  WeightBlock weights{signature()};
  GradientBlock gradients;
  ShardGradients sum{kShards, kElements, kPiece};
  std::vector<size_t> leaves;
  std::map<size_t, std::vector<GradientBranch>> said;
  Objective::SayGradients say = [this](size_t piece, std::vector<GradientBranch> branches) {
    CHECK(said.emplace(piece, std::move(branches)).second);
  };
  size_t most = 0;  // resident in the last leaves
};

}  // namespace

TEST_CASE("shard_gradients: a rank says its branches, and has the sum of all micro-batches in its slice") {
  for (const bool paged : {false, true}) {
    CAPTURE(paged);
    Rank rank(paged);
    for (size_t micro_batch = 0; micro_batch < 2; ++micro_batch) {
      rank.backward(micro_batch);
      rank.check_said(micro_batch);
      rank.set_sum(micro_batch);
      rank.sum.end_micro_batch(rank.gradients);
    }
    size_t wrong = 0;
    for (size_t i = rank.slice.begin; i < rank.slice.end; ++i)
      wrong += rank.gradients.floats()[i] != branch({0, kShards}, 0, i) + branch({0, kShards}, 1, i);
    CHECK(wrong == 0);
  }
}

TEST_CASE("shard_gradients: paged gradients take no memory when they were said, and afterwards that of the slice") {
  Rank rank(/*paged=*/true);
  constexpr size_t kBytes = kPiece * sizeof(float);
  for (size_t micro_batch = 0; micro_batch < 2; ++micro_batch) {
    rank.backward(micro_batch);
    CHECK(rank.resident() <= 2 * page_bytes());  // where a piece begins or ends within a page
    rank.set_sum(micro_batch);
    CHECK(rank.resident() >= 2 * kBytes);
    CHECK(rank.resident() <= 2 * kBytes + 2 * page_bytes());
    rank.sum.end_micro_batch(rank.gradients);
  }
  CHECK(rank.most <= kBytes + 2 * page_bytes());  // one piece at a time
}

TEST_CASE("shard_gradients: other gradients stay, and are exchanged with the weights") {
  Rank rank(/*paged=*/false);
  rank.backward(0);
  CHECK(rank.resident() >= kElements * sizeof(float));
  CHECK(rank.gradients.memory().bytes() == kElements * sizeof(float));
  Rank other(/*paged=*/true);
  CHECK_THROWS_AS(other.gradients.memory(), InvariantError);
}
