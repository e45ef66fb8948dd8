#include "actors/trainer_moments.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <vector>

#include <caf/event_based_actor.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/trainer_watch.h"
#include "models/shards/parameter_slices.h"

namespace troupe {

namespace {

std::runtime_error lost_moments(const TrainerState& st, const std::string& lost) {
  return std::runtime_error(lost + ", and with trainer.zero " + std::to_string(st.context->config.trainer.zero) +
                            " a part of the optimizer's state: the same command resumes from the last checkpoint, or "
                            "from the beginning if there is none");
}

void go_on(TrainerSelf self) {
  auto& st = self->state;
  if (!st.asked.empty()) return;
  st.has_moments = std::exchange(st.recovering, false);
  if (st.has_moments && !have_moments_of(st.moments, {0, st.learner->trained_elements()}))
    throw lost_moments(st, st.lost);
  if (st.update) return begin_again(self);
  // One of them may begin an update, which is the last then, or end training.
  for (const auto& then : std::exchange(st.when_there, {}))
    if (!st.update && st.learner) then();
  if (st.when_there.empty() && !st.has_moments) st.moments.clear();
}

void gather(TrainerSelf self, MomentsWanted wanted) {
  auto& st = self->state;
  st.moments = moments_wanted(wanted, *st.learner, st.kept);
  st.asked.clear();
  note_heard(st);
  ++st.saves;
  for (const TrainerState::Rank& rank : st.ranks) {
    if (!rank.has_slice) continue;
    st.asked.push_back(rank.actor.address());
    self->send(rank.actor, RankSave{st.saves, wanted});
  }
  go_on(self);
}

}  // namespace

void with_moments(TrainerSelf self, std::function<void()> then) {
  auto& st = self->state;
  if (st.slices == 1 || st.has_moments) return then();
  st.when_there.push_back(std::move(then));
  if (st.when_there.size() == 1 && !st.recovering) gather(self, MomentsWanted::own);
}

LearnerState whole_state(const TrainerState& st) {
  return st.slices == 1 ? st.learner->save() : st.learner->save(st.moments);
}

void on_rank_moments(TrainerSelf self, const RankMoments& moments) {
  auto& st = self->state;
  if (moments.number != st.saves || !self->current_sender()) return;
  if (std::erase(st.asked, self->current_sender()->address()) == 0) return;
  std::ranges::copy(moments.slices, std::back_inserter(st.moments));
  go_on(self);
}

size_t ranks_now(const TrainerState& st) { return std::min(st.ranks.size() + 1, st.group->shards()); }

void bring_up(TrainerSelf self) {
  auto& st = self->state;
  const RunConfig& config = st.context->config;
  const size_t ranks = st.group->ranks(), slices = divides_moments(config) ? ranks : 1;
  const bool anew = slices != st.slices || st.has_moments;
  const auto others = std::span(st.ranks).first(ranks - 1);
  if (!anew && std::ranges::all_of(others, &TrainerState::Rank::has_state)) return;
  const std::vector<AdamMoments> all = st.slices == 1 ? std::vector{st.learner->moments()} : st.moments;
  const std::shared_ptr<const LearnerState> model =
      st.update->before ? st.update->before->model
                        : std::make_shared<const LearnerState>(st.learner->save_without_moments());
  const ParameterSlices division(st.learner->trained_elements(), slices);
  const auto slice = [&](size_t rank) { return moments_of(all, division.slice(rank)); };
  const auto next = [&](size_t rank) {
    std::vector<AdamMoments> result;
    if (keeps_copies(config) && rank + 1 < slices) result.push_back(slice(rank + 1));
    return result;
  };
  if (anew) {
    st.slices = slices;
    for (size_t rank = 1; rank <= st.ranks.size(); ++rank) {
      st.ranks[rank - 1].has_state = false;
      st.ranks[rank - 1].has_slice = rank < slices;
    }
    st.learner->hold_slice(0, slices);
    st.learner->load(*model, slice(0));
    const std::vector<AdamMoments> copied = next(0);
    st.kept.divide(copied.empty() ? std::nullopt : std::optional(copied.front()));
  }
  st.has_moments = false;
  st.moments.clear();
  for (size_t rank = 1; rank < ranks; ++rank) {
    if (std::exchange(st.ranks[rank - 1].has_state, true)) continue;
    const size_t of = slices > 1 ? rank : 0;
    tell(self, rank, RankState{model, slice(of), of, slices, next(of)});
  }
}

void recover_moments(TrainerSelf self, const std::string& lost) {
  auto& st = self->state;
  if (st.ended && st.when_there.empty()) return;  // nobody needs them any more
  if (!keeps_copies(st.context->config)) throw lost_moments(st, lost);
  st.recovering = true;
  st.lost = lost;
  if (st.update) st.learner->abandon();
  gather(self, st.update ? MomentsWanted::before : MomentsWanted::after);
}

}  // namespace troupe
