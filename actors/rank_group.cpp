#include "actors/rank_group.h"

#include <algorithm>
#include <utility>

#include "runtime/base/errors.h"

namespace troupe {

ShardRange shards_of_rank(size_t rank, size_t ranks, size_t shards) {
  TROUPE_CHECK(rank < ranks && ranks <= shards, rank, ranks, shards);
  const size_t first = rank * shards / ranks;
  return {first, (rank + 1) * shards / ranks - first};
}

bool divides_moments(const RunConfig& config) { return config.trainer.zero > 0; }

bool keeps_copies(const RunConfig& config) {
  return divides_moments(config) && !config.deterministic && config.trainer.redundancy == "neighbour";
}

std::vector<AdamMoments> moments_wanted(MomentsWanted wanted, const Learner& learner, const KeptMoments& kept) {
  switch (wanted) {
    case MomentsWanted::own: return {learner.moments()};
    case MomentsWanted::after: return kept.after(learner.moments());
    case MomentsWanted::before: return kept.before();
  }
  throw InvariantError("no kind of moments");
}

void RankGroup::begin(uint64_t update, size_t ranks) {
  attempt_ = {update, attempt_.number + 1};
  done_.assign(ranks, {});
}

void RankGroup::done(size_t rank, uint32_t weights) {
  TROUPE_CHECK(!done_.at(rank), rank);
  done_[rank] = weights;
}

bool RankGroup::all_done() const {
  return std::ranges::all_of(done_, [](const auto& weights) { return weights.has_value(); });
}

std::optional<size_t> RankGroup::different() const {
  const auto other = std::ranges::find_if(done_, [this](const auto& weights) { return weights != done_.front(); });
  if (other == done_.end()) return std::nullopt;
  return static_cast<size_t>(other - done_.begin());
}

}  // namespace troupe
