// The deliberate bugs of ranks, of the publisher and of processes that have joined.

#include <string>

#include <caf/event_based_actor.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/publisher.h"
#include "sim/actor_states.h"
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

}  // namespace

void mutate_peers(SimulatedRun& run, caf::scheduled_actor& actor, caf::mailbox_element& element) {
  const Mutation m = run.scenario().mutation;
  const std::string kind = actor.name();
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
