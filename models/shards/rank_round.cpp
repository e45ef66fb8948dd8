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

RoundResult of_slice(RoundResult all, ElementRange piece, ElementRange slice) {
  if (all.gradients.empty()) return all;
  const ElementRange own = piece.common(slice);
  const auto at = own.size() == 0 ? 0 : static_cast<int64_t>(own.begin - piece.begin);
  all.gradients = all.gradients.slice(at, at + static_cast<int64_t>(own.size()));
  return all;
}

void RankRound::add(RankPart part) {
  const ShardRange& shards = part.shards;
  TROUPE_CHECK(shards.count > 0 && shards.end() <= shards_, shards.first, shards.count, shards_);
  TROUPE_CHECK(part.numbers.empty() || part.numbers.size() == shards.count, part.numbers.size(), shards.count);
  TROUPE_CHECK(part.data.empty() || part.data.size() == shards.count, part.data.size(), shards.count);
  if (!part.branches.empty()) {
    TROUPE_CHECK(std::ranges::equal(part.branches, branches_of(shards, shards_), {}, &GradientBranch::shards),
                 shards.first, part.branches.size());
    const Array& first = part.branches.front().values;
    for (const GradientBranch& branch : part.branches)
      TROUPE_CHECK(branch.values.dtype() == DType::f32 && branch.values.size() == first.size(), branch.shards.first,
                   branch.values.size(), first.size());
  }
  if (!parts_.empty()) {  // all ranks say the same kinds of things
    const RankPart& other = parts_.front();
    TROUPE_CHECK(part.numbers.empty() == other.numbers.empty() && part.data.empty() == other.data.empty() &&
                     part.branches.empty() == other.branches.empty(),
                 shards.first, other.shards.first);
    if (!part.branches.empty())
      TROUPE_CHECK(part.branches.front().values.size() == other.branches.front().values.size(), shards.first,
                   part.branches.front().values.size(), other.branches.front().values.size());
  }
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

std::optional<RoundResult> RankRounds::say(const RoundPiece& at, RankPart part) {
  constexpr uint64_t kMostPieces = uint64_t{1} << 20;
  const bool follows = skips_ ? at.round > round_ : at.round == round_ + 1 && !complete_.empty();
  if (follows && open_.empty()) {
    round_ = at.round;
    complete_.clear();
  }
  TROUPE_CHECK(at.round == round_ && at.piece < kMostPieces, at.round, round_, at.piece);
  if (at.piece >= complete_.size()) complete_.resize(at.piece + 1);
  TROUPE_CHECK(!complete_[at.piece], at.round, at.piece);
  if (part.own) {
    TROUPE_CHECK(!open_.contains(at.piece) && part.numbers.empty() && part.branches.empty() && part.data.empty(),
                 at.round, at.piece);
    complete_[at.piece] = true;
    RoundResult result;
    result.own = std::move(part.own);
    return result;
  }
  RankRound& piece = open_.try_emplace(at.piece, shards_).first->second;
  piece.add(std::move(part));
  if (!piece.complete()) return std::nullopt;
  RoundResult result = piece.result();
  open_.erase(at.piece);
  complete_[at.piece] = true;
  return result;
}

}  // namespace troupe
