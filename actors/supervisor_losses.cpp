#include "actors/supervisor_losses.h"

#include <algorithm>

#include <caf/event_based_actor.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/inference.h"
#include "actors/run_actors.h"
#include "actors/supervisor_children.h"
#include "actors/supervisor_end.h"
#include "runtime/base/log.h"
#include "runtime/caf/system.h"

namespace troupe {

namespace {

using Phase = SupervisorState::Phase;

// Removes the receiver from admission and reports.
void forget_inference(SupervisorSelf self, InferenceIndex inference_index) {
  auto& st = self->state;
  const Role role = st.inference.at(inference_index).role;
  st.inference.erase(inference_index);
  if (role == Role::sampling) self->send(st.replay, ReceiverGone{inference_index});
  self->send(st.stats, ReceiverGone{inference_index, role});
}

// Restarts a child now or after `pause`.
void restart(SupervisorSelf self, std::chrono::milliseconds pause, const RestartDue& due) {
  if (pause.count() == 0)
    self->send(self, due);
  else
    self->delayed_send(self, pause, due);
}

std::string after(std::chrono::milliseconds pause) {
  return pause.count() == 0 ? "" : " in " + std::to_string(pause.count()) + " ms";
}

// A restarted child gets a new number; `what` names the last one.
std::string too_many(const std::string& what, const caf::error& reason) {
  return what + " and its predecessors ended " + std::to_string(RestartLimit::kMost + 1) + " times within " +
         std::to_string(RestartLimit::kWindow.count()) + " minutes, the last time with: " + describe(reason);
}

void replace_inference(SupervisorSelf self, InferenceIndex inference_index, const caf::error& reason) {
  auto& st = self->state;
  const Role role = st.inference.at(inference_index).role;
  const std::string what = (role == Role::sampling ? "inference actor " : "scorer ") + std::to_string(inference_index);
  RestartLimit restarts = st.inference.at(inference_index).restarts;
  const auto pause = restarts.next_pause(self->clock().now());
  if (!pause) return fail(self, too_many(what, reason));
  log_warn("supervisor", what + " ended: " + describe(reason) + "; starting another" + after(*pause));
  tell(self, role, st.placement(role).remove_inference(inference_index));
  forget_inference(self, inference_index);
  st.resting_inference[inference_index] = {restarts, role};
  restart(self, *pause, {true, inference_index});
}

// An inference actor in another process may not notice the loss of a worker. Without these pauses its batches would
// wait for requests of that worker.
void excuse(SupervisorSelf self, uint64_t worker) {
  auto& st = self->state;
  const std::optional<InferenceIndex> inference_index = st.placement(Role::sampling).inference_of(worker);
  if (!inference_index || st.inference.at(*inference_index).local) return;
  for (int64_t group = 0; group < st.context->config.workers.groups; ++group)
    self->send(st.inference.at(*inference_index).service, Pause{worker, static_cast<uint32_t>(group)});
}

// After too many restarts a worker is not restarted, and the run continues with the others. Without any other worker
// the run ends: its own environments fail, and no worker of another process has joined.
void replace_worker(SupervisorSelf self, const SupervisorState::Member& ended, const caf::error& reason) {
  auto& st = self->state;
  const std::string what = "worker " + std::to_string(ended.id);
  RestartLimit restarts = ended.restarts;
  const auto pause = restarts.next_pause(self->clock().now());
  if (!pause) {
    const std::string why = too_many(what, reason);
    if (st.members.empty() && st.resting_workers.empty()) return fail(self, why);
    return log_error("supervisor", why + "; not restarting it");
  }
  log_warn("supervisor", what + " ended: " + describe(reason) + "; starting another" + after(*pause));
  st.resting_workers[ended.id] = restarts;
  restart(self, *pause, {false, ended.id});
}

void forget_worker(SupervisorSelf self, const SupervisorState::Member& gone) {
  auto& st = self->state;
  excuse(self, gone.id);
  for (Placement& placement : st.placements) placement.remove_worker(gone.id);
  st.members.erase(gone.actor.address());
  report_members(self);
}

// The loss of a worker of another process never ends the run: its host joins again as soon as it can.
void lose_worker(SupervisorSelf self, const SupervisorState::Member& ended, const caf::error& reason) {
  auto& st = self->state;
  forget_worker(self, ended);
  // The answers of the run's own workers are all scored in the same way, and that has been tried again and again.
  if (ended.local && fault_of(reason) == Fault::score_failed) return end_sampling(self, describe(reason));
  if (ended.local) return replace_worker(self, ended, reason);
  const bool last = st.members.empty() && st.resting_workers.empty();
  const std::string waits = last ? "; no worker is left; waiting for one to join" : "";
  const std::string what = "worker " + std::to_string(ended.id);
  const auto now = self->clock().now();
  if (!reason) return st.losses.info(what + " has left" + waits, now);
  st.losses.warn(what + " ended: " + describe(reason) + waits, now);
}

}  // namespace

void lose_remote_inference(SupervisorSelf self, InferenceIndex inference_index, const std::string& why) {
  auto& st = self->state;
  const SupervisorState::Inference inference = st.inference.at(inference_index);
  const Role role = inference.role;
  st.losses.warn(std::string(name_of(role)) + " process " + std::to_string(inference_index) + " is gone (" + why + ")",
                 self->clock().now());
  self->demonitor(inference.service.address());
  self->send(inference.host, Expelled{inference_index, why});
  if (needs_weights(st.context->config, role)) self->send(st.publisher_of(role), ReceiverGone{inference_index});
  tell(self, role, st.placement(role).remove_inference(inference_index));
  forget_inference(self, inference_index);
}

void on_restart_due(SupervisorSelf self, const RestartDue& due) {
  auto& st = self->state;
  if (st.phase != Phase::running) return;
  if (!due.inference) {
    const auto worker = st.resting_workers.extract(due.ended);
    TROUPE_CHECK(!worker.empty(), due.ended);
    return spawn_worker(self, worker.mapped());
  }
  const auto resting = st.resting_inference.extract(due.ended);
  TROUPE_CHECK(!resting.empty(), due.ended);
  const auto& [restarts, role] = resting.mapped();
  const InferenceIndex inference_index = st.next_inference_index++;
  spawn_inference(self, role, inference_index, restarts);
  tell(self, role, st.placement(role).add_inference(inference_index));
}

// CAF does not report the end of an actor if its process has reconnected, so replay would wait for the former worker's
// rollouts.
void forget_former_worker(SupervisorSelf self, const caf::actor_addr& host) {
  auto& st = self->state;
  const auto former = st.members.find(host);
  if (former == st.members.end()) return;
  self->demonitor(host);
  st.losses.warn("worker " + std::to_string(former->second.id) + " ended; its process joins again",
                 self->clock().now());
  self->send(st.replay, WorkerGone{former->second.id});
  forget_worker(self, SupervisorState::Member(former->second));
}

void on_down(SupervisorSelf self, const caf::down_msg& down) {
  auto& st = self->state;
  if (st.phase == Phase::stopping) return on_left(self, down.source);
  for (const RunActor& actor : run_actors())
    if (actor.exists(st) && actor.handle(st).address() == down.source)
      return fail(self, std::string(actor.name) + " ended: " + describe(down.reason));
  if (st.rank_hosts.erase(down.source) > 0) return;  // the trainer goes on without it
  if (st.phase != Phase::running) return;
  const bool own = down.source.node() == self->node();
  if (own && fault_of(down.reason) == Fault::not_restored)  // a replacement would begin without the saved state
    return fail(self, "the checkpoint does not fit: " + describe(down.reason));
  const auto inference = std::ranges::find_if(
      st.inference, [&](const auto& entry) { return entry.second.service.address() == down.source; });
  if (inference != st.inference.end()) {
    if (!inference->second.local)
      return lose_remote_inference(self, inference->first, down.reason ? describe(down.reason) : "it left");
    return replace_inference(self, inference->first, down.reason);
  }
  if (const auto member = st.members.find(down.source); member != st.members.end())
    lose_worker(self, SupervisorState::Member(member->second), down.reason);
}

}  // namespace troupe
