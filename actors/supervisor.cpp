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

template <class Handle>
void watch(Self self, const Handle& child, const std::string& what) {
  self->monitor(child);
  self->state.essential[child.address()] = what;
}

// By id, because the order of addresses is another one in every process.
std::map<uint64_t, MemberActor> members_by_id(const SupervisorState& st) {
  std::map<uint64_t, MemberActor> result;
  for (const auto& [address, member] : st.members) result[member.id] = member.actor;
  return result;
}

void spawn_inference(Self self, uint64_t id, const RestartLimit& restarts = {}) {
  auto& st = self->state;
  InferenceActor actor = spawn_on(self->system(), st.wiring->threads, inference_actor, st.wiring, id,
                                  InferencePeers{st.publisher, st.replay, st.stats});
  self->monitor(actor);
  st.inference[id] = {actor, actor, {}, true, restarts};
}

// The inference actor of a new worker; none while there is none.
InferenceDoor place_worker(Self self, uint64_t worker) {
  auto& st = self->state;
  const std::optional<uint64_t> inference = st.placement.add_worker(worker);
  return inference ? st.inference.at(*inference).door : InferenceDoor{};
}

void spawn_worker(Self self, uint64_t id, const InferenceDoor& inference, const RestartLimit& restarts = {}) {
  auto& st = self->state;
  WorkerActor actor = spawn_on(self->system(), st.wiring->threads, rollout_worker, st.wiring, id,
                               WorkerPeers{inference, st.replay, st.stats});
  self->monitor(actor);
  st.members[actor.address()] = {id, actor, true, restarts};
}

void tell(Self self, const std::vector<Placement::Move>& moves) {
  auto& st = self->state;
  const std::map<uint64_t, MemberActor> members = members_by_id(st);
  for (const Placement::Move& move : moves)
    if (const auto member = members.find(move.worker); member != members.end() && move.inference)
      self->send(member->second, InferenceReplaced{st.inference.at(*move.inference).door});
}

void spawn_worker(Self self, const RestartLimit& restarts = {}) {
  const uint64_t id = self->state.next_worker++;
  spawn_worker(self, id, place_worker(self, id), restarts);
}

// Deterministic runs: who there is and how often each was restarted, as bytes, and the same again.
using SavedInference = std::pair<uint64_t, std::vector<int64_t>>;
using SavedWorker = std::pair<std::pair<uint64_t, uint64_t>, std::vector<int64_t>>;  // with its inference actor

std::string save_children(Self self) {
  auto& st = self->state;
  const auto now = self->clock().now();
  std::vector<SavedInference> inference;
  std::map<uint64_t, SavedWorker> workers;
  for (const auto& [id, actor] : st.inference) inference.emplace_back(id, actor.restarts.ages(now));
  for (const auto& [address, member] : st.members)
    workers[member.id] = {{member.id, st.placement.inference_of(member.id).value()}, member.restarts.ages(now)};
  return to_bytes(st.next_receiver, st.next_worker, inference, workers);
}

void spawn_children(Self self, const std::string& state) {
  auto& st = self->state;
  std::vector<SavedInference> inference;
  std::map<uint64_t, SavedWorker> workers;
  restoring([&] { from_bytes(state, "supervisor", st.next_receiver, st.next_worker, inference, workers); });
  const auto limit = [now = self->clock().now()](const std::vector<int64_t>& ages) {
    RestartLimit restarts;
    restarts.restore(ages, now);
    return restarts;
  };
  for (const auto& [id, ages] : inference) {
    spawn_inference(self, id, limit(ages));
    st.placement.add_inference(id);
  }
  for (const auto& [id, worker] : workers) {
    const uint64_t served_by = worker.first.second;
    st.placement.place(id, served_by);
    spawn_worker(self, id, st.inference.at(served_by).door, limit(worker.second));
  }
}

void spawn_children(Self self) {
  auto& st = self->state;
  if (const std::string* state = st.wiring->state_of("supervisor")) return spawn_children(self, *state);
  const RunConfig& config = st.wiring->config;
  for (int64_t i = 0; i < config.inference.count; ++i) {
    const uint64_t id = st.next_receiver++;
    spawn_inference(self, id);
    st.placement.add_inference(id);
  }
  for (int64_t i = 0; i < config.workers.count; ++i) spawn_worker(self);
}

// Every actor rests: they report, and then the trainer goes on.
void take_turn(Self self) {
  auto& st = self->state;
  TROUPE_CHECK(st.phase == Phase::running, "nothing is left to do, and the run has not ended");
  for (const auto& [id, member] : members_by_id(st)) self->send(caf::actor_cast<WorkerActor>(member), beat_atom_v);
  for (const auto& [id, inference] : st.inference) self->send(inference.local, beat_atom_v);
  self->delayed_send(st.replay, kTurnStep, beat_atom_v);
  self->delayed_send(st.stats, 2 * kTurnStep, beat_atom_v);
  self->delayed_send(st.trainer, 3 * kTurnStep, turn_atom_v);
}

void save(Self self) {
  auto& st = self->state;
  const SaveMessage message{st.recorder};
  for (const auto& [id, member] : members_by_id(st)) self->send(caf::actor_cast<WorkerActor>(member), message);
  for (const auto& [id, inference] : st.inference) self->send(inference.local, message);
  self->send(st.replay, message);
  self->send(st.stats, message);
  self->send(st.recorder, ActorState{"supervisor", save_children(self)});
}

void spawn_essential(Self self) {
  auto& st = self->state;
  caf::actor_system& system = self->system();
  const bool threads = st.wiring->threads;
  st.recorder = spawn_on(system, threads, recorder, st.wiring, st.parts.sink,
                         caf::typed_actor<caf::reacts_to<CheckpointWritten>>(SupervisorActor(self)));
  st.stats = spawn_on(system, false, stats_actor, st.wiring, st.recorder, st.parts.start);
  st.signature = st.parts.learner->signature();
  st.publisher = spawn_on(
      system, false, publisher,
      PublisherParts{st.wiring, st.signature, caf::typed_actor<caf::reacts_to<ReceiverLost>>(SupervisorActor(self))});
  st.replay = spawn_on(system, false, replay_buffer, st.wiring, st.parts.start, st.stats,
                       caf::typed_actor<caf::reacts_to<SamplingFailed>>(SupervisorActor(self)));
  st.prefetcher =
      spawn_on(system, threads, prefetcher, st.wiring, std::shared_ptr<const Learner>(st.parts.learner), st.replay);
  st.evaluator = spawn_on(system, threads, evaluator, st.wiring, st.stats);
  st.trainer =
      spawn_on(system, threads, trainer, st.wiring, st.parts.learner, st.parts.start.version, st.parts.start.env_steps,
               TrainerPeers{st.prefetcher, st.replay, st.publisher, st.recorder, st.evaluator, SupervisorActor(self)});
  watch(self, st.recorder, "recorder");
  watch(self, st.stats, "stats");
  watch(self, st.publisher, "publisher");
  watch(self, st.replay, "replay");
  watch(self, st.prefetcher, "prefetcher");
  watch(self, st.evaluator, "evaluator");
  watch(self, st.trainer, "trainer");
}

template <class Handle>
void wait_for(Self self, const Handle& child) {
  self->monitor(child);  // answered at once for one that has ended already
  self->state.leaving.insert(child.address());
}

template <class Handle>
void leave(Self self, const Handle& child) {
  wait_for(self, child);
  self->send(child, Stop{self->state.outcome.reason});
}

// Tells every child to stop; stats when the others have, or their last reports would come too late, and the recorder last of all.
void stop_all(Self self) {
  auto& st = self->state;
  if (st.phase == Phase::stopping) return;
  st.phase = Phase::stopping;
  const auto now = self->clock().now();
  if (!st.members_until) st.members_until = now + kFarewell;
  st.others_until = now + kFarewell;
  for (const auto& [id, member] : members_by_id(st)) leave(self, member);
  self->delayed_send(self, std::max(*st.members_until - now, caf::actor_clock::duration_type{0}), due_atom_v);
  self->delayed_send(self, kFarewell, due_atom_v);
  for (const auto& [id, inference] : st.inference) {
    if (inference.local) {
      leave(self, inference.local);
    } else {
      leave(self, inference.host);
      self->monitor(inference.door);  // its host stops it
      st.leaving.insert(inference.door.address());
    }
  }
  leave(self, st.prefetcher);
  wait_for(self, st.trainer);
  self->send_exit(st.trainer, caf::exit_reason::user_shutdown);  // Stop only ends its training
  leave(self, st.replay);
  leave(self, st.publisher);
  leave(self, st.evaluator);
}

void on_left(Self self, const caf::actor_addr& child) {
  auto& st = self->state;
  st.leaving.erase(child);
  if (!st.leaving.empty()) return;
  if (child == st.stats.address()) return leave(self, st.recorder);  // has its last snapshot by now
  if (child != st.recorder.address()) return leave(self, st.stats);
  st.parts.on_end(st.outcome);
  self->quit();
}

void stop_when_complete(Self self) {
  auto& st = self->state;
  const bool written = st.outcome.checkpoint_written || !st.outcome.checkpoint_error.empty();
  if (st.phase == Phase::ending && written && (st.evaluated || st.interrupted || !st.outcome.error.empty()))
    stop_all(self);
}

void fail(Self self, const std::string& error) {
  auto& st = self->state;
  log_error("supervisor", error);
  if (st.outcome.error.empty()) st.outcome.error = error;
  stop_all(self);
}

// From now on it counts neither for admission nor in reports.
void forget_inference(Self self, uint64_t id) {
  auto& st = self->state;
  st.inference.erase(id);
  self->send(st.replay, ReceiverGone{id});
  self->send(st.stats, ReceiverGone{id});
}

// Starts a child again: now or after `pause`.
void restart(Self self, std::chrono::milliseconds pause, const RestartDue& due) {
  if (pause.count() == 0)
    self->send(self, due);
  else
    self->delayed_send(self, pause, due);
}

std::string after(std::chrono::milliseconds pause) {
  return pause.count() == 0 ? "" : " in " + std::to_string(pause.count()) + " ms";
}

std::string too_many(const std::string& what, const caf::error& reason) {
  return what + " ended " + std::to_string(RestartLimit::kMost + 1) + " times within " +
         std::to_string(RestartLimit::kWindow.count()) + " minutes, the last time with: " + describe(reason);
}

void replace_inference(Self self, uint64_t id, const caf::error& reason) {
  auto& st = self->state;
  const std::string what = "inference actor " + std::to_string(id);
  RestartLimit restarts = st.inference.at(id).restarts;
  const auto pause = restarts.next_pause(self->clock().now());
  if (!pause) return fail(self, too_many(what, reason));
  log_warn("supervisor", what + " ended: " + describe(reason) + "; starting another" + after(*pause));
  tell(self, st.placement.remove_inference(id));
  forget_inference(self, id);
  st.resting_inference[id] = restarts;
  restart(self, *pause, {true, id});
}

void lose_remote_inference(Self self, uint64_t id, const std::string& why) {
  auto& st = self->state;
  const SupervisorState::Inference inference = st.inference.at(id);
  log_warn("supervisor", "inference process " + std::to_string(id) + " is gone (" + why + ")");
  self->demonitor(inference.door.address());
  self->send(inference.host, Expelled{id, why});
  self->send(st.publisher, ReceiverGone{id});
  tell(self, st.placement.remove_inference(id));
  forget_inference(self, id);
}

// An inference actor in another process may not see that a worker in a third one is gone, and would wait for it.
void excuse(Self self, uint64_t worker) {
  auto& st = self->state;
  const std::optional<uint64_t> inference = st.placement.inference_of(worker);
  if (!inference || st.inference.at(*inference).local) return;
  for (int64_t group = 0; group < st.wiring->config.workers.groups; ++group)
    self->send(st.inference.at(*inference).door, Pause{worker, static_cast<uint32_t>(group)});
}

// A worker that is given up leaves the run to the others. Without others the run ends: its own environments do not work, and nobody
// else has come.
void replace_worker(Self self, const SupervisorState::Member& ended, const caf::error& reason) {
  auto& st = self->state;
  const std::string what = "worker " + std::to_string(ended.id);
  RestartLimit restarts = ended.restarts;
  const auto pause = restarts.next_pause(self->clock().now());
  if (!pause) {
    const std::string why = too_many(what, reason);
    if (st.members.empty() && st.resting_workers.empty()) return fail(self, why);
    return log_error("supervisor", why + "; it is not started again");
  }
  log_warn("supervisor", what + " ended: " + describe(reason) + "; starting another" + after(*pause));
  st.resting_workers[ended.id] = restarts;
  restart(self, *pause, {false, ended.id});
}

void on_restart_due(Self self, const RestartDue& due) {
  auto& st = self->state;
  if (st.phase != Phase::running) return;
  auto resting = (due.inference ? st.resting_inference : st.resting_workers).extract(due.ended);
  if (!due.inference) return spawn_worker(self, resting.mapped());
  const uint64_t id = st.next_receiver++;
  spawn_inference(self, id, resting.mapped());
  tell(self, st.placement.add_inference(id));
}

void forget_worker(Self self, const SupervisorState::Member& gone) {
  auto& st = self->state;
  excuse(self, gone.id);
  st.placement.remove_worker(gone.id);
  st.members.erase(gone.actor.address());
}

// The loss of a worker of another process never ends the run: its host joins again as soon as it can.
void lose_worker(Self self, const SupervisorState::Member& ended, const caf::error& reason) {
  auto& st = self->state;
  forget_worker(self, ended);
  if (ended.local) return replace_worker(self, ended, reason);
  const bool last = st.members.empty() && st.resting_workers.empty();
  log_warn("supervisor", "worker " + std::to_string(ended.id) + " ended: " + describe(reason) +
                             (last ? "; no worker is left, the run waits for one to join" : ""));
}

// A host whose worker ended joins again, for a new one. It is monitored already, and is so once.
void forget_former_worker(Self self, const caf::actor_addr& host) {
  auto& st = self->state;
  const auto former = st.members.find(host);
  if (former == st.members.end()) return;
  self->demonitor(host);
  log_warn("supervisor", "worker " + std::to_string(former->second.id) + " ended; its process joins again");
  forget_worker(self, SupervisorState::Member(former->second));
}

void on_down(Self self, const caf::down_msg& down) {
  auto& st = self->state;
  if (st.phase == Phase::stopping) return on_left(self, down.source);
  if (const auto it = st.essential.find(down.source); it != st.essential.end()) {
    fail(self, it->second + " ended: " + describe(down.reason));
    return;
  }
  if (st.phase != Phase::running) return;
  if (fault_of(down.reason) == Fault::not_restored)  // another one in its place would begin anew: not the same run
    return fail(self, "the checkpoint does not fit: " + describe(down.reason));
  const auto inference =
      std::ranges::find_if(st.inference, [&](const auto& entry) { return entry.second.door.address() == down.source; });
  if (inference != st.inference.end()) {
    if (!inference->second.local)
      return lose_remote_inference(self, inference->first, down.reason ? describe(down.reason) : "it left");
    return replace_inference(self, inference->first, down.reason);
  }
  if (const auto member = st.members.find(down.source); member != st.members.end())
    lose_worker(self, SupervisorState::Member(member->second), down.reason);
}

// In a deterministic run the workers never rest again, so its trainer would wait for its turn for ever.
void on_sampling_failed(Self self, const std::string& error) {
  auto& st = self->state;
  if (st.phase != Phase::running || !st.outcome.error.empty()) return;
  st.outcome.reason = "environments fail";
  if (st.wiring->in_turns) return fail(self, error);
  log_error("supervisor", error);
  st.outcome.error = error;
  self->send(st.trainer, Stop{st.outcome.reason});
}

// The end waits no longer for who may be silent. Two kinds run environments in this process, and may be inside a step.
void on_farewell_over(Self self) {
  auto& st = self->state;
  const auto give_up = [&](const caf::actor_addr& child, const std::string& name) {
    if (!st.leaving.contains(child)) return;
    if (!name.empty()) {
      log_warn("supervisor", name + " did not stop within " + std::to_string(kFarewell.count()) +
                                 " ms: its environment is still inside a step");
      st.outcome.left_behind.push_back(name);
    }
    on_left(self, child);
  };
  const auto now = self->clock().now();
  if (now >= *st.members_until)
    for (const auto& [address, member] : st.members)
      give_up(address, member.local ? "worker " + std::to_string(member.id) : "");
  if (now < *st.others_until) return;
  give_up(st.evaluator.address(), "the evaluator");
  for (const auto& [id, inference] : st.inference) {
    if (inference.local) continue;
    give_up(inference.door.address(), "");
    give_up(inference.host.address(), "");
  }
}

bool is_loopback(const std::string& address) {
  return address == "::1" || address == "localhost" || address.starts_with("127.");
}

caf::result<Welcome> join_inference(Self self, const JoinRequest& request) {
  auto& st = self->state;
  if (!st.wiring->make_group_backend)
    return make_error(Fault::bad_message, "this run sends no weights to other processes");
  const uint64_t id = st.next_receiver++;
  log_info("supervisor", "inference process " + std::to_string(id) + " joins from " + request.host + " pid " +
                             std::to_string(request.pid));
  return Welcome{id, to_json(st.wiring->config), {}, st.replay, st.stats};
}

caf::result<Welcome> join(Self self, const JoinRequest& request) {
  auto& st = self->state;
  if (request.protocol != kProtocolVersion)
    return make_error(Fault::bad_message, "the run speaks protocol " + std::to_string(kProtocolVersion) + ", the " +
                                              request.kind + " " + std::to_string(request.protocol));
  if (request.kind != "worker" && request.kind != "inference")
    return make_error(Fault::bad_message, "nothing joins as \"" + request.kind + "\", expected worker or inference");
  if (st.phase != Phase::running) return make_error(Fault::shutting_down, "the run is ending");
  if (!self->current_sender())
    return make_error(Fault::peer_gone, "the worker's connection is lost");  // nobody hears this
  if (request.kind == "inference") return join_inference(self, request);
  const uint64_t id = st.next_worker++;
  auto handle = caf::actor_cast<MemberActor>(self->current_sender());
  forget_former_worker(self, handle.address());
  self->monitor(handle);
  st.members[handle.address()] = {id, handle, false};
  log_info("supervisor",
           "worker " + std::to_string(id) + " joined from " + request.host + " pid " + std::to_string(request.pid));
  return Welcome{id, to_json(st.wiring->config), place_worker(self, id), st.replay, st.stats};
}

// Its policy fits, so it gets weights; workers come once it serves.
caf::result<void> serve(Self self, const ServeRequest& request) {
  auto& st = self->state;
  if (st.phase != Phase::running) return make_error(Fault::shutting_down, "the run is ending");
  if (request.receiver >= st.next_receiver || st.inference.contains(request.receiver) || !request.inference)
    return make_error(Fault::bad_message, "receiver " + std::to_string(request.receiver) + " has not joined");
  if (const auto difference = st.signature->first_difference(request.signature))
    return make_error(Fault::bad_message, "another policy: " + *difference);
  if (st.weights_address.empty())
    st.weights_address = st.wiring->network_address.empty() ? request.address : st.wiring->network_address;
  if (is_loopback(st.weights_address) && !is_loopback(request.address))
    return make_error(Fault::bad_message, "the run sends its weights from " + st.weights_address + ", which " +
                                              request.address + " cannot be reached by; train with --listen " +
                                              request.address + ":PORT");
  self->monitor(request.inference);
  auto host = caf::actor_cast<InferenceMember>(self->current_sender());
  st.inference[request.receiver] = {request.inference, {}, host, false};
  self->send(st.publisher, ReceiverJoined{request.receiver, host, request.address});
  return caf::unit;
}

void on_serving(Self self, uint64_t id) {
  auto& st = self->state;
  const auto it = st.inference.find(id);
  if (it == st.inference.end() || it->second.serving || st.phase != Phase::running) return;
  it->second.serving = true;
  const std::vector<Placement::Move> moves = st.placement.add_inference(id);
  log_info("supervisor",
           "inference process " + std::to_string(id) + " serves " + std::to_string(moves.size()) + " workers");
  tell(self, moves);
}

void on_training_ended(Self self, const TrainingEnded& ended) {
  auto& st = self->state;
  if (st.phase != Phase::running) return;
  st.phase = Phase::ending;
  st.outcome.version = ended.version;
  st.outcome.reason = ended.reason;
  if (st.outcome.error.empty()) st.outcome.error = ended.error;
  st.members_until = self->clock().now() + kFarewell;
  for (const auto& [id, member] : members_by_id(st)) self->send(member, Stop{ended.reason});
  if (!st.interrupted && st.outcome.error.empty()) self->send(st.evaluator, EvaluateMessage{ended.weights, true});
  stop_when_complete(self);
}

void begin(Self self) {
  spawn_essential(self);
  try {
    spawn_children(self);
    self->send(self->state.trainer, begin_atom_v);
  } catch (const NotRestored& e) {
    fail(self, std::string("the checkpoint does not fit: ") + e.what());
  }
}

}  // namespace

SupervisorActor::behavior_type supervisor(Self self, WiringPtr wiring, RunParts parts) {
  guard(self);
  self->state.wiring = wiring;
  self->state.parts = std::move(parts);
  self->set_down_handler([self](const caf::down_msg& down) { on_down(self, down); });
  begin(self);  // before any message: who joins or stops the run at once finds it complete
  return {
      [self](const JoinRequest& request) { return join(self, request); },
      [self](const ServeRequest& request) { return serve(self, request); },
      [self](const Serving& serving) { on_serving(self, serving.receiver); },
      [self](const ReceiverLost& lost) {
        if (self->state.inference.contains(lost.receiver)) lose_remote_inference(self, lost.receiver, lost.why);
      },
      [self](status_atom) {
        auto& st = self->state;
        return StatusReply{st.phase == Phase::running ? "running" : "ending", st.outcome.version, st.members.size()};
      },
      [self](const SamplingFailed& failed) { on_sampling_failed(self, failed.error); },
      [self](const RestartDue& due) { on_restart_due(self, due); },
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
      [self](due_atom) { on_farewell_over(self); },
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
