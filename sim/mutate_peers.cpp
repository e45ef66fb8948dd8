// The deliberate bugs of ranks, of the publisher and of processes that have joined.

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include <caf/event_based_actor.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/publisher.h"
#include "models/shards/parameter_slices.h"
#include "sim/actor_states.h"
#include "sim/fake_slices.h"
#include "sim/mutate.h"

namespace troupe::sim {

namespace {

void mutate_done(Mutation m, TrainerState& trainer, const caf::mailbox_element& element, RankDone& done) {
  if (!trainer.update || !trainer.group) return;
  RankGroup& group = *trainer.group;
  if (m == Mutation::attempt_mixed) done.attempt = group.attempt();
  if (m != Mutation::published_early || done.attempt != group.attempt()) return;
  for (size_t rank = 1; rank < group.ranks(); ++rank)
    if (!group.is_done(rank) &&
        (!element.sender || trainer.ranks[rank - 1].actor.address() != element.sender->address()))
      group.done(rank, done.weights);
}

void mutate_trainer(SimulatedRun& run, TrainerState& trainer, caf::mailbox_element& element) {
  const Mutation m = run.scenario().mutation;
  if (mutable_content<RankJoined>(element) != nullptr && trainer.ranks_came && !trainer.ended) {
    if (m == Mutation::rank_state_missing) run.afterwards = [&trainer] { trainer.ranks.back().has_state = true; };
    if (m == Mutation::rank_unasked) run.afterwards = [&trainer] { trainer.ranks.pop_back(); };
  }
  if (auto* done = mutable_content<RankDone>(element)) mutate_done(m, trainer, element, *done);
}

// The next value for this key, in place of which `now` is what the last one was, if there is one of that size.
template <class Key, class Value, class Size>
void replace_by_last(std::map<Key, Value>& last, const Key& key, Value& now, Size size) {
  const Value own = now;
  const auto before = last.find(key);
  if (before != last.end() && size(before->second) == size(now)) now = before->second;
  last[key] = own;
}

// A rank takes over a state.
void mutate_state(SimulatedRun& run, caf::actor_id rank, RankState& state) {
  const Mutation m = run.scenario().mutation;
  if (m == Mutation::slice_lost && state.ranks > 1) state.moments = moments_after(0, state.moments.elements);
  if (m != Mutation::slice_kept) return;
  const auto [last, first] = run.last_slice.try_emplace(rank, state.rank, state.ranks);
  if (first) return;
  const auto elements = static_cast<size_t>(state.learner->model.at("parameters").size());
  const auto updates = static_cast<uint64_t>(state.learner->model.at("a").view<int64_t>()[0]);
  std::tie(state.rank, state.ranks) = last->second;
  state.moments = moments_after(updates, ParameterSlices(elements, state.ranks).slice(state.rank));
}

// What ranks with slices say and are told.
void mutate_slices(SimulatedRun& run, caf::actor_id actor, caf::mailbox_element& element) {
  const Mutation m = run.scenario().mutation;
  if (auto* state = mutable_content<RankState>(element)) mutate_state(run, actor, *state);
  if (auto* moments = mutable_content<RankMoments>(element);
      moments != nullptr && m == Mutation::moments_old && element.sender)
    replace_by_last(run.last_moments, element.sender->id(), moments->slices,
                    [](const std::vector<AdamMoments>& slices) { return slices.size(); });
  if (auto* said = mutable_content<RoundSaid>(element);
      said != nullptr && m == Mutation::parameters_old && said->all.own && said->all.own->dtype() == DType::f32)
    replace_by_last(run.last_parameters, {actor, said->piece.piece}, *said->all.own,
                    [](const Array& values) { return values.size(); });
  if (auto* copy = mutable_content<RankCopy>(element); copy != nullptr && m == Mutation::copy_old)
    replace_by_last(run.last_copies, {actor, copy->piece.elements.begin}, copy->piece,
                    [](const AdamMoments& moments) { return moments.elements.size(); });
}

}  // namespace

void mutate_peers(SimulatedRun& run, caf::scheduled_actor& actor, caf::mailbox_element& element) {
  const Mutation m = run.scenario().mutation;
  const std::string kind = actor.name();
  if (kind == "trainer" || kind == "rank trainer") mutate_slices(run, actor.id(), element);
  if (kind == "trainer") mutate_trainer(run, *trainer_of(&actor), element);
  if (m == Mutation::publisher_silent && kind == "publisher" && run.live.calm &&
      mutable_content<WeightsMessage>(element) != nullptr)
    run.afterwards = [state = publisher_of(&actor)] { state->stepping = true; };
  if (m == Mutation::host_silent && kind == "inference host" && element.content().match_elements<begin_atom>()) {
    InferenceHostState& host = *inference_host_of(&actor);
    if (host.joining.attempt == 0 || host.joining.ending) return;
    host.joining.ending = true;  // begin_joining() then does nothing
    run.afterwards = [&host] { host.joining.ending = false; };
  }
}

}  // namespace troupe::sim
