#include "actors/run_actors.h"

#include <utility>

#include <caf/event_based_actor.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/evaluator.h"
#include "actors/prefetcher.h"
#include "actors/publisher.h"
#include "actors/stats.h"
#include "actors/trainer.h"
#include "runtime/caf/system.h"

namespace troupe {

namespace {

using State = SupervisorState;

// The handle of the supervisor for actors that send it only this message.
template <class Message>
caf::typed_actor<caf::reacts_to<Message>> told(SupervisorSelf self) {
  return SupervisorActor(self);
}

void spawn_recorder(SupervisorSelf self) {
  auto& st = self->state;
  st.recorder = spawn_on(self->system(), st.context->threads, recorder, st.context, st.dependencies.sink,
                         told<CheckpointWritten>(self));
}

void spawn_stats(SupervisorSelf self) {
  auto& st = self->state;
  st.stats = spawn_on(self->system(), false, stats_actor, st.context, st.recorder, st.dependencies.start,
                      told<Collapsed>(self));
}

void spawn_publisher(SupervisorSelf self) {
  auto& st = self->state;
  st.signature = st.dependencies.learner->published_signature();
  st.saved_signature = st.dependencies.learner->saved_signature();
  st.publisher = spawn_on(self->system(), false, publisher,
                          PublisherDependencies{st.context, st.signature, told<ReceiverLost>(self)});
}

void spawn_reference_publisher(SupervisorSelf self) {
  auto& st = self->state;
  if (!st.context->config.reference.by_scorers()) return;
  st.reference_publisher = spawn_on(self->system(), false, publisher,
                                    PublisherDependencies{st.context, st.signature, told<ReceiverLost>(self)});
}

void spawn_replay(SupervisorSelf self) {
  auto& st = self->state;
  st.replay = spawn_on(self->system(), false, replay_buffer, st.context, st.dependencies.start, st.stats,
                       told<SamplingFailed>(self));
}

void spawn_prefetcher(SupervisorSelf self) {
  auto& st = self->state;
  st.prefetcher = spawn_on(self->system(), st.context->threads, prefetcher, st.context,
                           st.dependencies.learner->stager(), st.replay);
}

void spawn_evaluator(SupervisorSelf self) {
  auto& st = self->state;
  st.evaluator = spawn_on(self->system(), false, evaluator, st.context, st.stats);
}

void spawn_trainer(SupervisorSelf self) {
  auto& st = self->state;
  st.trainer = spawn_on(self->system(), st.context->threads, trainer, st.context, std::move(st.dependencies.learner),
                        st.dependencies.start,
                        TrainerPeers{st.prefetcher, st.replay, st.publisher, st.recorder, st.evaluator, st.stats,
                                     SupervisorActor(self), st.reference_publisher});
}

template <auto State::* member>
Stoppable handle(const State& state) {
  return Stoppable(state.*member);
}

constexpr RunActor kRunActors[] = {
    {"recorder", spawn_recorder, handle<&State::recorder>, StopStage::record},
    {"stats", spawn_stats, handle<&State::stats>, StopStage::stats},
    {"publisher", spawn_publisher, handle<&State::publisher>},
    {"publisher of the reference", spawn_reference_publisher, handle<&State::reference_publisher>},
    {"replay", spawn_replay, handle<&State::replay>},
    {"prefetcher", spawn_prefetcher, handle<&State::prefetcher>},
    {.name = "evaluator", .spawn = spawn_evaluator, .handle = handle<&State::evaluator>, .may_be_left_behind = true},
    {.name = "trainer", .spawn = spawn_trainer, .handle = handle<&State::trainer>, .stops_by_exit = true},
};

}  // namespace

std::span<const RunActor> run_actors() { return kRunActors; }

}  // namespace troupe
