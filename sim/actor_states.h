#pragma once
// Access to the state of an actor whose type is given by its name; nullptr for an actor of another type.

#include <type_traits>

#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/experience/common/sampler.h"
#include "actors/inference.h"
#include "actors/inference_host.h"
#include "actors/prefetcher.h"
#include "actors/publisher.h"
#include "actors/rank_host.h"
#include "actors/replay_buffer.h"
#include "actors/supervisor.h"
#include "actors/trainer.h"
#include "actors/worker.h"

namespace troupe::sim {

template <class Pointer>
auto* state_of(caf::abstract_actor* actor) {
  auto* typed = dynamic_cast<std::remove_pointer_t<Pointer>*>(actor);
  return typed == nullptr ? nullptr : &typed->state;
}
inline ReplayState* replay_of(caf::abstract_actor* a) { return state_of<SelfPointer<ReplayActor, ReplayState>>(a); }
inline InferenceState* inference_of(caf::abstract_actor* a) {
  return state_of<SelfPointer<InferenceActor, InferenceState>>(a);
}
inline WorkerState* worker_of(caf::abstract_actor* a) { return state_of<SelfPointer<WorkerActor, WorkerState>>(a); }
inline uint64_t worker_number(caf::abstract_actor* a) { return worker_of(a)->sampler->report().worker; }
inline TrainerState* trainer_of(caf::abstract_actor* a) { return state_of<SelfPointer<TrainerActor, TrainerState>>(a); }
inline PrefetcherState* prefetcher_of(caf::abstract_actor* a) {
  return state_of<SelfPointer<PrefetcherActor, PrefetcherState>>(a);
}
inline RankHostState* rank_host_of(caf::abstract_actor* a) {
  return state_of<SelfPointer<RankHostActor, RankHostState>>(a);
}
inline PublisherState* publisher_of(caf::abstract_actor* a) {
  return state_of<SelfPointer<PublisherActor, PublisherState>>(a);
}
inline InferenceHostState* inference_host_of(caf::abstract_actor* a) {
  return state_of<SelfPointer<InferenceHostActor, InferenceHostState>>(a);
}
inline SupervisorState* supervisor_of(caf::abstract_actor* a) {
  return state_of<SelfPointer<SupervisorActor, SupervisorState>>(a);
}

}  // namespace troupe::sim
