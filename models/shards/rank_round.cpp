#include "models/shards/rank_round.h"

#include <algorithm>
#include <utility>

#include "runtime/base/errors.h"

namespace troupe {

namespace {

using Branches = std::vector<GradientBranch>;

// The sum of these shards, from the branches they consist of.
Array sum_of(ShardRange shards, Branches& branches) {
  const auto same = std::ranges::find(branches, shards, &GradientBranch::shards);
  if (same != branches.end()) return std::exchange(same->values, {});
  TROUPE_CHECK(shards.count > 1, shards.first, shards.count);
  const auto [low, high] = halves_of(shards);
  const Array left = sum_of(low, branches), right = sum_of(high, branches);
  TROUPE_CHECK(left.size() == right.size(), left.size(), right.size());
  Array result = Array::uninitialized(DType::f32, left.shape());
  std::ranges::transform(left.view<float>(), right.view<float>(), result.mutable_view<float>().begin(),
                         [](float a, float b) { return a + b; });
  return result;
}

}  // namespace

void RankRound::add(RankPart part) {
  const ShardRange& shards = part.shards;
  TROUPE_CHECK(shards.count > 0 && shards.end() <= shards_, shards.first, shards.count, shards_);
  TROUPE_CHECK(part.numbers.empty() || part.numbers.size() == shards.count, part.numbers.size(), shards.count);
  TROUPE_CHECK(part.data.empty() || part.data.size() == shards.count, part.data.size(), shards.count);
  for (const RankPart& other : parts_)
    TROUPE_CHECK(shards.end() <= other.shards.first || other.shards.end() <= shards.first, shards.first,
                 other.shards.first);
  said_ += shards.count;
  parts_.push_back(std::move(part));
}

RoundResult RankRound::result() {
  TROUPE_CHECK(complete(), said_, shards_);
  std::ranges::sort(parts_, {}, [](const RankPart& part) { return part.shards.first; });
  RoundResult result;
  Branches branches;
  for (RankPart& part : parts_) {
    std::ranges::move(part.numbers, std::back_inserter(result.numbers));
    std::ranges::move(part.branches, std::back_inserter(branches));
    std::ranges::move(part.data, std::back_inserter(result.data));
  }
  TROUPE_CHECK(result.numbers.empty() || result.numbers.size() == shards_, result.numbers.size(), shards_);
  TROUPE_CHECK(result.data.empty() || result.data.size() == shards_, result.data.size(), shards_);
  if (!branches.empty()) result.gradients = sum_of({0, shards_}, branches);
  return result;
}

}  // namespace troupe
