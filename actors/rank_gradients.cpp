#include "actors/rank_gradients.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "actors/rank_group.h"
#include "runtime/caf/system.h"

namespace troupe {

namespace {

// At least. A rank joins when it has its shards, and before them perhaps the state of the learner.
constexpr std::chrono::milliseconds kConnect{120'000};

}  // namespace

GradientDivision gradient_division(const RunConfig& config, size_t ranks, size_t elements) {
  GradientDivision division{{}, elements, piece_elements(config.trainer), divides_moments(config) && ranks > 1};
  for (size_t rank = 0; rank < ranks; ++rank)
    division.shards.push_back(shards_of_rank(rank, ranks, static_cast<size_t>(config.trainer.shards)));
  return division;
}

void RankGradients::begin(const Attempt& attempt, const Rendezvous& group, const GradientDivision& division,
                          Deliver deliver, Fail fail) {
  number_ = attempt.number;
  update_ = attempt.update;
  if (group_ && group == joined_) return;
  leave();
  joined_ = group;
  // A rank may take long for its shards, and the loss of a rank ends the wait for it: as long as nothing is lost there
  // is no limit.
  const GradientGroup::Timeouts timeouts{std::max(4 * network_.transfer_timeout, kConnect), kForever};
  group_ = std::make_unique<GradientGroup>(
      backend_, group, division, timeouts,
      [this, deliver = std::move(deliver)](const GradientPiece& piece, RoundResult all) {
        deliver(RoundSaid{{update_, piece.update}, piece.at, std::move(all)});
      },
      [fail = std::move(fail), generation = group.generation](const TransferError& error) {
        fail(GradientsFailed{generation, std::string(error.what()).substr(0, kMostErrorBytes)});
      });
}

// What the group still calls back is of an attempt before, or of a group before.
void RankGradients::leave() {
  if (!group_) return;
  std::erase_if(ends_,
                [](const auto& end) { return end.wait_for(std::chrono::seconds(0)) == std::future_status::ready; });
  ends_.push_back(std::async(std::launch::async, [group = std::move(group_)]() mutable { group.reset(); }));
}

}  // namespace troupe
