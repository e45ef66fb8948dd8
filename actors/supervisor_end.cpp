#include "actors/supervisor_end.h"

#include <algorithm>
#include <ranges>

#include <caf/event_based_actor.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/experience/kinds.h"
#include "actors/run_actors.h"
#include "actors/supervisor_children.h"
#include "runtime/base/log.h"
#include "runtime/caf/system.h"

namespace troupe {

namespace {

using Phase = SupervisorState::Phase;

template <class Handle>
void wait_for(SupervisorSelf self, const Handle& child) {
  self->monitor(child);  // if the child has ended, its down message comes at once
  self->state.leaving.insert(child.address());
}

template <class Handle>
void leave(SupervisorSelf self, const Handle& child) {
  wait_for(self, child);
  self->send(child, Stop{self->state.outcome.reason});
}

void leave(SupervisorSelf self, StopStage stage) {
  self->state.stop_stage = stage;
  for (const RunActor& actor : run_actors() | std::views::reverse) {
    if (actor.stage != stage || !actor.exists(self->state)) continue;
    const Stoppable child = actor.handle(self->state);
    if (!actor.stops_by_exit) {
      leave(self, child);
    } else {
      wait_for(self, child);
      self->send_exit(child, caf::exit_reason::user_shutdown);
    }
  }
}

}  // namespace

void stop_all(SupervisorSelf self) {
  auto& st = self->state;
  if (st.phase == Phase::stopping) return;
  st.phase = Phase::stopping;
  const auto now = self->clock().now();
  if (!st.members_until) st.members_until = now + kFarewell;
  st.others_until = now + kFarewell;
  for (const auto& [id, member] : members_by_id(st)) leave(self, member);
  self->delayed_send(self, std::max(*st.members_until - now, caf::actor_clock::duration_type{0}), due_atom_v);
  self->delayed_send(self, kFarewell, due_atom_v);
  for (const auto& [inference_index, inference] : st.inference) {
    if (inference.local) {
      leave(self, inference.local);
    } else {
      leave(self, inference.host);
      self->monitor(inference.service);  // its host stops it
      st.leaving.insert(inference.service.address());
    }
  }
  for (const auto& [address, host] : st.rank_hosts) leave(self, host);
  leave(self, StopStage::first);
}

void on_left(SupervisorSelf self, const caf::actor_addr& child) {
  auto& st = self->state;
  st.leaving.erase(child);
  if (!st.leaving.empty()) return;
  if (st.stop_stage == StopStage::first) return leave(self, StopStage::stats);
  if (st.stop_stage == StopStage::stats) return leave(self, StopStage::record);
  st.dependencies.on_end(st.outcome);
  self->quit();
}

void stop_when_complete(SupervisorSelf self) {
  auto& st = self->state;
  const bool written = st.outcome.checkpoint_written || !st.outcome.checkpoint_error.empty();
  if (st.phase == Phase::ending && written && (st.evaluated || st.interrupted || !st.outcome.error.empty()))
    stop_all(self);
}

void fail(SupervisorSelf self, const std::string& error) {
  auto& st = self->state;
  log_info("supervisor", error);  // only info: the command prints it when the run has ended
  if (st.outcome.error.empty()) st.outcome.error = error;
  stop_all(self);
}

// Stops the trainer, so that the run ends with a checkpoint. In a deterministic run the actors are never idle again and
// the trainer would wait for that for ever, so the run ends at once.
void end_sampling(SupervisorSelf self, const std::string& error) {
  auto& st = self->state;
  if (st.phase != Phase::running || !st.outcome.error.empty()) return;
  st.outcome.reason = kind_of(*st.context).words->failed_run;
  if (st.context->deterministic) return fail(self, error);
  log_info("supervisor", error);  // only info: the command prints it when the run has ended
  st.outcome.error = error;
  self->send(st.trainer, Stop{st.outcome.reason});
}

void end_collapsed(SupervisorSelf self, const std::string& alarm) {
  if (self->state.phase == Phase::running) self->send(self->state.trainer, Stop{"stop.on_collapse (" + alarm + ")"});
}

void on_farewell_over(SupervisorSelf self) {
  auto& st = self->state;
  const auto give_up = [&](const caf::actor_addr& child, const std::string& name) {
    if (!st.leaving.contains(child)) return;
    if (!name.empty()) {
      log_warn("supervisor", name + " did not stop within " + std::to_string(kFarewell.count()) +
                                 " ms: its environment is still inside a step or a start");
      st.outcome.left_behind.push_back(name);
    }
    on_left(self, child);
  };
  const auto now = self->clock().now();
  if (now >= *st.members_until)
    for (const auto& [address, member] : st.members)
      give_up(address, member.local ? "worker " + std::to_string(member.id) : "");
  if (now < *st.others_until) return;
  for (const RunActor& actor : run_actors())
    if (actor.may_be_left_behind) give_up(actor.handle(st).address(), "the " + std::string(actor.name));
  for (const auto& [address, host] : st.rank_hosts) give_up(address, "");
  for (const auto& [inference_index, inference] : st.inference) {
    if (inference.local) continue;
    give_up(inference.service.address(), "");
    give_up(inference.host.address(), "");
  }
}

}  // namespace troupe
