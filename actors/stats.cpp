#include "actors/stats.h"

#include <utility>

#include <caf/event_based_actor.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "runtime/base/log.h"
#include "runtime/caf/system.h"

namespace troupe {

namespace {

using StatsSelf = SelfPointer<StatsActor, StatsState>;

// Sends a point of the curves.
void record(StatsSelf self, const RecorderActor& recorder) {
  self->send(recorder,
             SnapshotMessage{std::make_shared<const StatsSnapshot>(self->state.core->take_point(self->clock().now())),
                             SnapshotUse::point});
}

void record_warmup(StatsSelf self, const RecorderActor& recorder) {
  StatsSnapshot point = self->state.core->take_report(self->clock().now());
  point.evaluating.reset();
  self->send(recorder, SnapshotMessage{std::make_shared<const StatsSnapshot>(std::move(point)), SnapshotUse::warmup});
}

void show(StatsSelf self, const RecorderActor& recorder) {
  self->send(recorder,
             SnapshotMessage{std::make_shared<const StatsSnapshot>(self->state.core->take_view(self->clock().now())),
                             SnapshotUse::report});
}

// Whether the sender of the current message is the worker or receiver with that number. A number belongs to the first
// sender that uses it, until that one ends.
bool is_from(StatsSelf self, NumberHolders& holders, uint64_t number) {
  const caf::strong_actor_ptr& sender = self->current_sender();
  if (!sender || is_taken(holders, sender->address(), number)) return false;
  if (holders.try_emplace(sender->address(), number).second) self->monitor(caf::actor_cast<caf::actor>(sender));
  return true;
}

void on_report(StatsSelf self, const WorkerReport& report) {
  auto& st = self->state;
  if (!is_from(self, st.worker_of, report.worker)) return;
  if (const auto why = st.core->add(report, self->clock().now()))
    st.misfits.warn("a report of worker " + std::to_string(report.worker) + " is dropped: " + *why,
                    self->clock().now());
}

void on_report(StatsSelf self, const InferenceReport& report) {
  auto& st = self->state;
  if (!is_from(self, st.receiver_of, report.inference_index)) return;
  if (const auto why = misfit(report))
    return st.misfits.warn("a report of inference is dropped: " + *why, self->clock().now());
  st.core->add(report);
}

// Processes are told apart by what sends their messages, not by what these say.
void on_report(StatsSelf self, const ProcessReport& report) {
  const caf::strong_actor_ptr& sender = self->current_sender();
  if (!sender || sender->node() == self->node()) return;  // the actors of this process note their times on the board
  const std::optional<pid_t> here = process_here(self->node(), sender->node());
  if (const auto why = self->state.core->add(to_string(sender->node()), report, self->clock().now(), here))
    self->state.misfits.warn("a report of a process about its actors is dropped: " + *why, self->clock().now());
}

// Each alarm that was raised or lowered.
void log_alarms(StatsCore& core) {
  for (const AlarmWatch::Line& line : core.take_alarm_lines()) {
    if (line.warns)
      log_warn("stats", line.text);
    else
      log_info("stats", line.text);
  }
}

void on_evaluation(StatsSelf self, const RunContext& context, const RecorderActor& recorder,
                   const Evaluation& evaluation) {
  StatsCore& core = *self->state.core;
  const auto now = self->clock().now();
  Evaluation told = evaluation;
  told.point = core.add(evaluation, now);
  self->send(recorder, told);
  // Every evaluation reaches the clients of the port, also when several end between two reports.
  if (!context.deterministic)
    self->send(recorder,
               SnapshotMessage{std::make_shared<const StatsSnapshot>(core.take_report(now)), SnapshotUse::port});
}

// A short evaluation may end before replay has told of the update that it is of.
void take_early(StatsSelf self, const RunContext& context, const RecorderActor& recorder) {
  auto& st = self->state;
  std::vector<Evaluation> still_early;
  for (const Evaluation& evaluation : std::exchange(st.early, {})) {
    if (evaluation.version.number > st.core->updates() && !st.core->training_ended())
      still_early.push_back(evaluation);
    else
      on_evaluation(self, context, recorder, evaluation);
  }
  st.early = std::move(still_early);
}

}  // namespace

StatsActor::behavior_type stats_actor(StatsSelf self, RunContextPtr context, RecorderActor recorder,
                                      const ReplayStart& start,
                                      caf::typed_actor<caf::reacts_to<Collapsed>> supervisor) {
  begin_actor(self, *context);
  self->state.core = std::make_unique<StatsCore>(context->config, context->spec.reports_success,
                                                 context->started.value_or(self->clock().now()), start,
                                                 context->tokens ? nullptr : &context->spec.action);
  self->state.core->watch(context->board);
  self->state.core->begin_training(self->clock().now());  // the supervisor starts stats and training together
  const auto interval = context->config.stats.interval;
  if (const std::string* state = context->state_of("stats"))
    restoring([&] { self->state.core->load(*state, self->clock().now()); });
  self->set_down_handler([self](const caf::down_msg& down) {
    self->state.worker_of.erase(down.source);
    const auto receiver = self->state.receiver_of.extract(down.source);
    if (!receiver.empty()) self->state.core->receiver_ended(receiver.mapped());
  });
  beat_after(self, *context, interval);
  return {
      [self](const WorkerReport& report) { on_report(self, report); },
      [self](const InferenceReport& report) { on_report(self, report); },
      [self](const ProcessReport& report) { on_report(self, report); },
      [self](const Applied& applied) {
        if (is_from(self, self->state.receiver_of, applied.inference_index))
          self->state.core->add(applied, self->clock().now());
      },
      [self, context, recorder, supervisor](const ReplayReport& report) {
        StatsCore& core = *self->state.core;
        const bool ends = report.training_ended && !core.training_ended();
        core.add(report, self->clock().now());
        if (const std::string alarm = core.take_error_alarm(); context->config.stop.on_collapse && !alarm.empty())
          self->send(supervisor, Collapsed{alarm});
        if (core.take_point_due()) record(self, recorder);
        if (ends) show(self, recorder);  // tells the sink how long the training took
        if (!self->state.early.empty()) take_early(self, *context, recorder);
      },
      [self, recorder](CheckpointMessage& message) {
        message.totals = self->state.core->totals(self->clock().now());
        self->send(recorder, std::move(message));
      },
      [self, context, recorder](const Evaluation& evaluation) {
        self->state.early.push_back(evaluation);
        take_early(self, *context, recorder);
      },
      [self](const EvaluationProgress& progress) { self->state.core->add(progress); },
      [self, context, recorder](const WarmupMessage& message) {
        StatsCore& core = *self->state.core;
        core.add(message.state);
        if (message.point) record_warmup(self, recorder);
        if (message.state.complete) core.begin_training(self->clock().now());
        if (message.state.complete || context->deterministic) show(self, recorder);  // others show it at each beat
        if (message.state.complete) core.end_warmup();
      },
      [self](const ReceiverGone& gone) { self->state.core->add(gone); },
      [self](const LaunchedWorkers& workers) { self->state.core->add(workers); },
      [self](const RanksMessage& ranks) { self->state.core->add(ranks); },
      [self, context, recorder, interval](beat_atom) {
        StatsCore& core = *self->state.core;
        if (!context->deterministic || core.take_due()) {
          if (core.has_new_steps()) record(self, recorder);
          show(self, recorder);
        }
        log_alarms(core);
        beat_after(self, *context, interval);
      },
      [self](const SaveMessage& save) {
        self->send(save.recorder, ActorState{"stats", self->state.core->save(self->clock().now())});
      },
      [self, context, recorder](const Stop& stop) {
        self->state.core->end(self->clock().now());
        take_early(self, *context, recorder);
        record(self, recorder);
        show(self, recorder);
        log_alarms(*self->state.core);
        self->send(recorder, stop);
        self->quit();
      },
  };
}

}  // namespace troupe
