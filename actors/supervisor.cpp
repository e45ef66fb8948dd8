#include "actors/supervisor.h"

#include <exception>
#include <ranges>

#include <caf/event_based_actor.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/deterministic_run.h"
#include "actors/run_actors.h"
#include "actors/supervisor_children.h"
#include "actors/supervisor_end.h"
#include "actors/supervisor_joins.h"
#include "actors/supervisor_losses.h"
#include "runtime/base/log.h"
#include "runtime/caf/system.h"

namespace troupe {

namespace {

using Phase = SupervisorState::Phase;

// Deterministic runs: no actor has a message left. They report, and then the trainer begins the next update.
void on_idle(SupervisorSelf self) {
  auto& st = self->state;
  TROUPE_CHECK(st.phase == Phase::running, "nothing is left to do, and the run has not ended");
  for (const auto& [id, member] : members_by_id(st)) self->send(caf::actor_cast<WorkerActor>(member), beat_atom_v);
  for (const auto& [inference_index, inference] : st.inference) self->send(inference.local, beat_atom_v);
  self->delayed_send(st.replay, kIdleStep, beat_atom_v);
  self->delayed_send(st.stats, 2 * kIdleStep, beat_atom_v);
  self->delayed_send(st.trainer, 3 * kIdleStep, idle_atom_v);
}

void save(SupervisorSelf self) {
  auto& st = self->state;
  const SaveMessage message{st.recorder};
  for (const auto& [id, member] : members_by_id(st)) self->send(caf::actor_cast<WorkerActor>(member), message);
  for (const auto& [inference_index, inference] : st.inference) self->send(inference.local, message);
  self->send(st.replay, message);
  self->send(st.stats, message);
  self->send(st.recorder, ActorState{"supervisor", save_children(self)});
}

void on_training_ended(SupervisorSelf self, const TrainingEnded& ended) {
  auto& st = self->state;
  if (st.phase != Phase::running) return;
  st.phase = Phase::ending;
  st.outcome.version = ended.version;
  st.outcome.reason = ended.reason;
  if (!ended.weights) return fail(self, ended.error);
  if (st.outcome.error.empty()) st.outcome.error = ended.error;
  st.members_until = self->clock().now() + kFarewell;
  for (const auto& [id, member] : members_by_id(st)) self->send(member, Stop{ended.reason});
  if (!st.interrupted && st.outcome.error.empty())
    self->send(st.evaluator, EvaluateMessage{ended.weights, true, false, ended.reference});
  stop_when_complete(self);
}

void begin(SupervisorSelf self) {
  spawn_run_actors(self);
  try {
    spawn_children(self);
    self->send(self->state.trainer, begin_atom_v);
  } catch (const NotRestored& e) {
    fail(self, std::string("the checkpoint does not fit: ") + e.what());
  }
}

// Called after an exception in the supervisor. Ends every child at once, without a last checkpoint, and calls on_end
// with the error.
caf::error abandon(SupervisorSelf self, const std::exception_ptr& failure) {
  auto& st = self->state;
  const caf::error fault = fault_of_exception(failure);
  const std::string error = "the supervisor failed: " + describe(fault);
  log_info("supervisor", error);  // only info: the command prints it when the run has ended
  if (st.outcome.error.empty()) st.outcome.error = error;
  if (st.outcome.reason.empty()) st.outcome.reason = "failed";
  const auto end = [self](const auto& child) {
    if (child) self->send_exit(child, caf::exit_reason::kill);
  };
  for (const auto& [address, member] : st.members) {
    if (member.local)
      end(member.actor);
    else
      self->send(member.actor, Stop{st.outcome.reason});
  }
  for (const auto& [inference_index, inference] : st.inference) {
    end(inference.local);
    if (inference.host) self->send(inference.host, Stop{st.outcome.reason});
  }
  for (const RunActor& actor : run_actors() | std::views::reverse) end(actor.handle(st));
  st.dependencies.on_end(st.outcome);
  return fault;
}

}  // namespace

SupervisorActor::behavior_type supervisor(SupervisorSelf self, RunContextPtr context, RunDependencies dependencies) {
  drop_strange_messages(self, self->name());
  self->set_exception_handler([self](std::exception_ptr& failure) { return abandon(self, failure); });
  if (context->board) self->watch(context->board->add(self->state.name));
  self->state.context = context;
  self->state.dependencies = std::move(dependencies);
  self->set_down_handler([self](const caf::down_msg& down) { on_down(self, down); });
  begin(self);  // before the first message, which may be a join or a stop and needs all actors of the run
  return {
      [self](const JoinRequest& request) { return join(self, request); },
      [self](const ServeRequest& request) { return serve(self, request); },
      [self](const RankReady& ready) { return take_rank(self, ready); },
      [self](const Serving& serving) { on_serving(self, serving.inference_index); },
      [self](const ReceiverLost& lost) {
        // While the run stops, the supervisor waits for the end of each child: it must not forget one here.
        const auto& st = self->state;
        const auto it = st.inference.find(lost.inference_index);
        if (st.phase == Phase::stopping || it == st.inference.end() || it->second.local) return;
        lose_remote_inference(self, lost.inference_index, lost.why);
      },
      [self](const SamplingFailed& failed) { end_sampling(self, failed.error); },
      [self](const Collapsed& collapsed) { end_collapsed(self, collapsed.alarm); },
      [self](const RestartDue& due) { on_restart_due(self, due); },
      [self](const TrainingEnded& ended) { on_training_ended(self, ended); },
      [self](const Evaluation& evaluation) {
        self->state.evaluated = true;
        self->state.outcome.evaluation = evaluation;
        stop_when_complete(self);
      },
      [self](const CheckpointWritten& written) {
        auto& st = self->state;
        if (!written.last) return self->send(st.trainer, written);
        st.outcome.checkpoint_written = written.error.empty();
        st.outcome.checkpoint_error = written.error;
        stop_when_complete(self);
      },
      [self](due_atom) { on_farewell_over(self); },
      [self](idle_atom) { on_idle(self); },
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
