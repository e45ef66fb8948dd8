#include "actors/supervisor.h"

#include <algorithm>

#include <caf/event_based_actor.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/evaluator.h"
#include "actors/inference.h"
#include "actors/prefetcher.h"
#include "actors/publisher.h"
#include "actors/state_bytes.h"
#include "actors/stats.h"
#include "actors/trainer.h"
#include "actors/turns.h"
#include "actors/worker.h"
#include "runtime/caf_system.h"
#include "runtime/config.h"
#include "runtime/log.h"

namespace troupe {

namespace {

using Self = SupervisorActor::stateful_pointer<SupervisorState>;
using Phase = SupervisorState::Phase;

constexpr uint64_t kMaxRestarts = 100;  // of children, over the whole run

template <class Handle>
void watch(Self self, const Handle& child, const std::string& what) {
  self->monitor(child);
  self->state.essential[child.address()] = what;
}

void spawn_inference(Self self, size_t slot, uint64_t id) {
  auto& st = self->state;
  InferenceActor actor = spawn_on(self->system(), st.wiring->threads, inference_actor, st.wiring, id,
                                  InferencePeers{st.publisher, st.replay, st.stats});
  self->monitor(actor);
  if (slot == st.inference.size()) st.inference.emplace_back();
  st.inference[slot] = {id, actor};
}

void spawn_worker(Self self, uint64_t id) {
  auto& st = self->state;
  const size_t slot = id % st.inference.size();
  WorkerActor actor = spawn_on(self->system(), st.wiring->threads, rollout_worker, st.wiring, id,
                               WorkerPeers{st.inference[slot].actor, st.replay, st.stats});
  self->monitor(actor);
  st.members[actor.address()] = {id, slot, actor, true};
}

// Ids of the inference actors by slot and of the workers of this process, ascending.
struct Children {
  std::vector<uint64_t> inference, workers;
};

Children first_children(SupervisorState& st) {
  Children result;
  if (const std::string* state = st.wiring->state_of("supervisor")) {
    from_bytes(*state, "supervisor", st.next_receiver, st.next_worker, st.restarts, result.inference, result.workers);
    return result;
  }
  for (int64_t i = 0; i < st.wiring->config.inference.count; ++i) result.inference.push_back(st.next_receiver++);
  for (int64_t i = 0; i < st.wiring->config.workers.count; ++i) result.workers.push_back(st.next_worker++);
  return result;
}

// By id, because the order of addresses is another one in every process.
std::map<uint64_t, MemberActor> members_by_id(const SupervisorState& st) {
  std::map<uint64_t, MemberActor> result;
  for (const auto& [address, member] : st.members) result[member.id] = member.actor;
  return result;
}

// Tells every child to stop, in the order in which data flows, and ends the run.
void stop_all(Self self) {
  auto& st = self->state;
  if (st.phase == Phase::stopped) return;
  st.phase = Phase::stopped;
  const Stop stop{st.outcome.reason};
  for (const auto& [id, member] : members_by_id(st)) self->send(member, stop);
  for (const auto& inference : st.inference) self->send(inference.actor, stop);
  self->send(st.prefetcher, stop);
  self->send(st.trainer, stop);
  self->send(st.replay, stop);
  self->send(st.publisher, stop);
  self->send(st.evaluator, stop);
  self->send(st.stats, stop);  // sends its last snapshot to the recorder, which it then stops
  st.parts.on_end(st.outcome);
  self->quit();
}

void stop_when_complete(Self self) {
  auto& st = self->state;
  const bool written = st.outcome.checkpoint_written || !st.outcome.checkpoint_error.empty();
  if (st.phase == Phase::ending && written && (st.evaluated || st.interrupted || !st.outcome.error.empty())) stop_all(self);
}

void fail(Self self, const std::string& error) {
  auto& st = self->state;
  log_error("supervisor", error);
  if (st.outcome.error.empty()) st.outcome.error = error;
  stop_all(self);
}

// Deterministic runs. Every actor rests: they report, and then the trainer goes on.
void take_turn(Self self) {
  auto& st = self->state;
  if (st.phase != Phase::running) return fail(self, "the run waits for nothing, and has not ended");
  for (const auto& [id, member] : members_by_id(st)) self->send(caf::actor_cast<WorkerActor>(member), beat_atom_v);
  for (const auto& inference : st.inference) self->send(inference.actor, beat_atom_v);
  self->delayed_send(st.replay, kTurnStep, beat_atom_v);
  self->delayed_send(st.stats, 2 * kTurnStep, beat_atom_v);
  self->delayed_send(st.trainer, 3 * kTurnStep, turn_atom_v);
}

void save(Self self) {
  auto& st = self->state;
  const SaveMessage message{st.recorder};
  Children children;
  for (const auto& inference : st.inference) {
    children.inference.push_back(inference.id);
    self->send(inference.actor, message);
  }
  for (const auto& [id, member] : members_by_id(st)) {
    children.workers.push_back(id);
    self->send(caf::actor_cast<WorkerActor>(member), message);
  }
  self->send(st.replay, message);
  self->send(st.stats, message);
  self->send(st.recorder, ActorState{"supervisor", to_bytes(st.next_receiver, st.next_worker, st.restarts, children.inference,
                                                            children.workers)});
}

void spawn_all(Self self) {
  auto& st = self->state;
  caf::actor_system& system = self->system();
  const bool threads = st.wiring->threads;
  st.recorder = spawn_on(system, threads, recorder, st.wiring, st.parts.sink,
                         caf::typed_actor<caf::reacts_to<CheckpointWritten>>(SupervisorActor(self)));
  st.stats = spawn_on(system, false, stats_actor, st.wiring, st.recorder);
  st.publisher = spawn_on(system, false, publisher);
  st.replay = spawn_on(system, false, replay_buffer, st.wiring, st.parts.start, st.stats);
  st.prefetcher = spawn_on(system, threads, prefetcher, st.wiring, std::shared_ptr<const Learner>(st.parts.learner), st.replay);
  st.evaluator = spawn_on(system, threads, evaluator, st.wiring, st.stats);
  st.trainer = spawn_on(system, threads, trainer, st.wiring, st.parts.learner, st.parts.start.version, st.parts.start.env_steps,
                        TrainerPeers{st.prefetcher, st.replay, st.publisher, st.recorder, st.evaluator, st.stats,
                                     SupervisorActor(self)});
  watch(self, st.recorder, "recorder");
  watch(self, st.stats, "stats");
  watch(self, st.publisher, "publisher");
  watch(self, st.replay, "replay");
  watch(self, st.prefetcher, "prefetcher");
  watch(self, st.evaluator, "evaluator");
  watch(self, st.trainer, "trainer");
  const Children children = first_children(st);
  for (uint64_t id : children.inference) spawn_inference(self, st.inference.size(), id);
  for (uint64_t id : children.workers) spawn_worker(self, id);
  self->send(st.trainer, begin_atom_v);
}

void replace_inference(Self self, size_t slot, const caf::error& reason) {
  auto& st = self->state;
  log_warn("supervisor", "inference actor ended (" + describe(reason) + "); starting another");
  spawn_inference(self, slot, st.next_receiver++);
  for (const auto& [id, member] : members_by_id(st))
    if (id % st.inference.size() == slot) self->send(member, InferenceReplaced{st.inference[slot].actor});
}

void on_down(Self self, const caf::down_msg& down) {
  auto& st = self->state;
  if (st.phase == Phase::stopped) return;
  if (const auto it = st.essential.find(down.source); it != st.essential.end()) {
    fail(self, it->second + " ended: " + describe(down.reason));
    return;
  }
  if (st.phase != Phase::running) return;
  const bool give_up = ++st.restarts > kMaxRestarts;
  const auto slot = std::ranges::find_if(st.inference, [&](const auto& x) { return x.actor.address() == down.source; });
  if (slot != st.inference.end()) {
    if (give_up) return fail(self, "inference actors keep ending: " + describe(down.reason));
    return replace_inference(self, static_cast<size_t>(slot - st.inference.begin()), down.reason);
  }
  const auto member = st.members.find(down.source);
  if (member == st.members.end()) return;
  const bool local = member->second.local;
  log_warn("supervisor", "worker " + std::to_string(member->second.id) + " ended: " + describe(down.reason));
  st.members.erase(member);
  if (!local) {
    --st.restarts;
    return;
  }
  if (give_up) return fail(self, "workers keep ending: " + describe(down.reason));
  spawn_worker(self, st.next_worker++);
}

caf::result<Welcome> join(Self self, const JoinRequest& request) {
  auto& st = self->state;
  if (request.protocol != kProtocolVersion)
    return make_error(Fault::bad_message, "the run speaks protocol " + std::to_string(kProtocolVersion) + ", the worker " +
                                              std::to_string(request.protocol));
  if (st.phase != Phase::running) return make_error(Fault::shutting_down, "the run is ending");
  const uint64_t id = st.next_worker++;
  const size_t slot = id % st.inference.size();
  auto handle = caf::actor_cast<MemberActor>(self->current_sender());
  self->monitor(handle);
  st.members[handle.address()] = {id, slot, handle, false};
  log_info("supervisor", "worker " + std::to_string(id) + " joined from " + request.host + " pid " + std::to_string(request.pid));
  return Welcome{id, to_json(st.wiring->config), st.inference[slot].actor, st.replay, st.stats};
}

void on_training_ended(Self self, const TrainingEnded& ended) {
  auto& st = self->state;
  if (st.phase != Phase::running) return;
  st.phase = Phase::ending;
  st.outcome.version = ended.version;
  st.outcome.reason = ended.reason;
  st.outcome.error = ended.error;
  for (const auto& [id, member] : members_by_id(st)) self->send(member, Stop{ended.reason});
  if (!st.interrupted && ended.error.empty()) self->send(st.evaluator, EvaluateMessage{ended.weights, true});
  stop_when_complete(self);
}

}  // namespace

SupervisorActor::behavior_type supervisor(Self self, WiringPtr wiring, RunParts parts) {
  guard(self);
  self->state.wiring = wiring;
  self->state.parts = std::move(parts);
  self->set_down_handler([self](const caf::down_msg& down) { on_down(self, down); });
  spawn_all(self);  // before any message: who joins or stops the run at once finds it complete
  return {
      [self](const JoinRequest& request) { return join(self, request); },
      [self](status_atom) {
        auto& st = self->state;
        return StatusReply{st.phase == Phase::running ? "running" : "ending", st.outcome.version, st.members.size()};
      },
      [self](const TrainingEnded& ended) { on_training_ended(self, ended); },
      [self](const Evaluation& evaluation) {
        self->state.evaluated = true;
        self->state.outcome.evaluation = evaluation;
        stop_when_complete(self);
      },
      [self](const CheckpointWritten& written) {
        auto& st = self->state;
        if (!written.last) return;
        st.outcome.checkpoint_written = written.error.empty();
        st.outcome.checkpoint_error = written.error;
        stop_when_complete(self);
      },
      [self](turn_atom) { take_turn(self); },
      [self](save_atom) { save(self); },
      [self](const Stop& stop) {
        auto& st = self->state;
        if (st.interrupted) return;
        st.interrupted = true;
        if (st.phase == Phase::running) {
          self->send(st.trainer, stop);
        } else {
          stop_when_complete(self);
        }
      },
  };
}

}  // namespace troupe
