#include "actors/supervisor.h"

#include <algorithm>

#include <caf/event_based_actor.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/evaluator.h"
#include "actors/inference.h"
#include "actors/prefetcher.h"
#include "actors/publisher.h"
#include "actors/stats.h"
#include "actors/trainer.h"
#include "actors/worker.h"
#include "runtime/caf_system.h"
#include "runtime/config.h"
#include "runtime/log.h"

namespace troupe {

namespace {

using Self = SupervisorActor::stateful_pointer<SupervisorState>;
using Phase = SupervisorState::Phase;

constexpr uint64_t kMaxRestarts = 100;  // of children, over the whole run
constexpr std::chrono::seconds kFarewell{3};  // how long the end waits for workers of other processes to hear of it

template <class Handle>
void watch(Self self, const Handle& child, const std::string& what) {
  self->monitor(child);
  self->state.essential[child.address()] = what;
}

void spawn_inference(Self self, size_t slot) {
  auto& st = self->state;
  const uint64_t id = st.next_receiver++;
  InferenceActor actor = spawn_on(self->system(), st.wiring->threads, inference_actor, st.wiring, id,
                                  InferencePeers{st.publisher, st.replay, st.stats});
  self->monitor(actor);
  if (slot == st.inference.size()) st.inference.emplace_back();
  st.inference[slot] = {id, actor};
}

void spawn_worker(Self self) {
  auto& st = self->state;
  const uint64_t id = st.next_worker++;
  const size_t slot = id % st.inference.size();
  WorkerActor actor = spawn_on(self->system(), st.wiring->threads, rollout_worker, st.wiring, id,
                               WorkerPeers{st.inference[slot].actor, st.replay, st.stats});
  self->monitor(actor);
  st.members[actor.address()] = {id, slot, actor, true};
}

void spawn_all(Self self) {
  auto& st = self->state;
  caf::actor_system& system = self->system();
  const bool threads = st.wiring->threads;
  st.recorder = spawn_on(system, threads, recorder, st.wiring, st.parts.sink,
                         caf::typed_actor<caf::reacts_to<CheckpointWritten>>(SupervisorActor(self)));
  st.stats = spawn_on(system, false, stats_actor, st.wiring, st.recorder, st.parts.start.version, st.parts.start.env_steps);
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
  const RunConfig& config = st.wiring->config;
  for (int64_t i = 0; i < config.inference.count; ++i) spawn_inference(self, static_cast<size_t>(i));
  for (int64_t i = 0; i < config.workers.count; ++i) spawn_worker(self);
  self->send(st.trainer, begin_atom_v);
}

template <class Handle>
void leave(Self self, const Handle& child) {
  auto& st = self->state;
  self->monitor(child);  // answered at once for one that has ended already
  st.leaving.insert(child.address());
  self->send(child, Stop{st.outcome.reason});
}

// Tells every child to stop; stats when the others have, or their last reports would come too late.
void stop_all(Self self) {
  auto& st = self->state;
  if (st.phase == Phase::stopping) return;
  st.phase = Phase::stopping;
  for (const auto& [address, member] : st.members) leave(self, member.actor);
  self->delayed_send(self, kFarewell, due_atom_v);
  for (const auto& inference : st.inference) leave(self, inference.actor);
  leave(self, st.prefetcher);
  leave(self, st.trainer);
  leave(self, st.replay);
  leave(self, st.publisher);
  leave(self, st.evaluator);
}

void on_left(Self self, const caf::actor_addr& child) {
  auto& st = self->state;
  st.leaving.erase(child);
  if (!st.leaving.empty()) return;
  if (child != st.stats.address()) return leave(self, st.stats);  // sends its last snapshot to the recorder
  self->send(st.recorder, Stop{st.outcome.reason});
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

void replace_inference(Self self, size_t slot, const caf::error& reason) {
  auto& st = self->state;
  log_warn("supervisor", "inference actor ended (" + describe(reason) + "); starting another");
  spawn_inference(self, slot);
  for (const auto& [address, member] : st.members)
    if (member.inference == slot) self->send(member.actor, InferenceReplaced{st.inference[slot].actor});
}

void on_down(Self self, const caf::down_msg& down) {
  auto& st = self->state;
  if (st.phase == Phase::stopping) return on_left(self, down.source);
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
  spawn_worker(self);
}

caf::result<Welcome> join(Self self, const JoinRequest& request) {
  auto& st = self->state;
  if (request.protocol != kProtocolVersion)
    return make_error(Fault::bad_message, "the run speaks protocol " + std::to_string(kProtocolVersion) + ", the worker " +
                                              std::to_string(request.protocol));
  if (st.phase != Phase::running) return make_error(Fault::shutting_down, "the run is ending");
  if (!self->current_sender()) return make_error(Fault::peer_gone, "the worker's connection is lost");  // nobody hears this
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
  for (const auto& [address, member] : st.members)
    self->send(member.actor, Stop{ended.reason});
  if (!st.interrupted && ended.error.empty()) self->send(st.evaluator, EvaluateMessage{ended.weights, true});
  stop_when_complete(self);
}

}  // namespace

SupervisorActor::behavior_type supervisor(Self self, WiringPtr wiring, RunParts parts) {
  guard(self);
  self->state.wiring = wiring;
  self->state.parts = std::move(parts);
  self->set_down_handler([self](const caf::down_msg& down) { on_down(self, down); });
  self->send(self, begin_atom_v);
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
      [self](begin_atom) { spawn_all(self); },
      [self](due_atom) {
        auto& st = self->state;
        for (const auto& [address, member] : st.members)
          if (!member.local && st.leaving.contains(address)) on_left(self, address);
      },
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
