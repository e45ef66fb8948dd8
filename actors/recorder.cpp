#include "actors/recorder.h"

#include <string>
#include <utility>

#include <caf/event_based_actor.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/resume.h"
#include "actors/run_progress.h"
#include "runtime/base/log.h"
#include "runtime/caf/system.h"

namespace troupe {

namespace {

Checkpoint to_checkpoint(const CheckpointMessage& message, const RunConfig& config) {
  Checkpoint checkpoint;
  checkpoint.version = message.version;
  checkpoint.env_steps = message.env_steps;
  checkpoint.updates = message.version.number;
  checkpoint.seed = config.seed;
  checkpoint.scalars = message.learner->scalars;
  checkpoint.model = message.learner->model;
  checkpoint.optimizer = message.learner->optimizer;
  put_counts(checkpoint, message);
  return checkpoint;
}

constexpr std::chrono::minutes kBetweenErrorLines{1};  // about checkpoints

// Logs an error and drops the report if the sink throws.
template <class Report>
void attempt(Report report) {
  try {
    report();
  } catch (const LockLost&) {
    throw;
  } catch (const std::exception& e) {
    log_error("recorder", std::string("report: ") + e.what());
  }
}

using RecorderSelf = SelfPointer<RecorderActor, RecorderState>;
using Supervisor = caf::typed_actor<caf::reacts_to<CheckpointWritten>>;

std::string unlogged_text(uint64_t count) {
  return count == 0 ? "" : "; " + std::to_string(count) + " more since the line before";
}

// Logs at most once in kBetweenErrorLines, because a run may try again many times a second.
void log_refused(RecorderSelf self, const CheckpointMessage& message, const std::string& error) {
  auto& st = self->state;
  const std::string line = "checkpoint at update " + std::to_string(message.version.number) + ": " + error;
  const auto now = self->clock().now();
  if (message.last) return log_info("recorder", line);  // the command prints the last error
  if (now < st.next_error_line) {
    ++st.unlogged;
    return;
  }
  st.next_error_line = now + kBetweenErrorLines;
  log_error("recorder", line + unlogged_text(std::exchange(st.unlogged, 0)));
}

void save(RecorderSelf self, const RunContext& context, RunSink& sink, const Supervisor& supervisor,
          const CheckpointMessage& message) {
  CheckpointWritten written{message.version, message.last, {}};
  try {
    Checkpoint checkpoint = to_checkpoint(message, context.config);
    checkpoint.extras.merge(std::exchange(self->state.states, {}));
    if (!context.deterministic || message.last || checkpoint_due(context.config, message.version.number))
      sink.save(checkpoint);
    else
      sink.keep(std::move(checkpoint));
  } catch (const LockLost&) {
    throw;
  } catch (const std::exception& e) {
    written.error = e.what();
    log_refused(self, message, written.error);
  }
  self->send(supervisor, written);
}

void pass_on(RunSink& sink, const SnapshotMessage& message) {
  attempt([&] {
    if (message.use == SnapshotUse::point) sink.record(*message.snapshot);
    if (message.use == SnapshotUse::warmup) sink.record_warmup(*message.snapshot);
    if (message.use == SnapshotUse::report) sink.show(*message.snapshot);
    if (message.use == SnapshotUse::port) sink.publish(*message.snapshot);
    if (message.use == SnapshotUse::alarms) sink.keep_alarms(*message.snapshot);
  });
}

// Does everything, one after the other.
RecorderActor::behavior_type writer(RecorderSelf self, RunContextPtr context, std::shared_ptr<RunSink> sink,
                                    const Supervisor& supervisor) {
  begin_actor(self, *context);
  return {
      [=](const CheckpointMessage& message) { save(self, *context, *sink, supervisor, message); },
      [self](ActorState& state) { self->state.states[state.name] = std::move(state.bytes); },
      [=](const Evaluation& evaluation) { attempt([&] { sink->evaluated(evaluation); }); },
      [=](const SnapshotMessage& message) {
        pass_on(*sink, message);
        if (message.use == SnapshotUse::report) pass_on(*sink, {message.snapshot, SnapshotUse::alarms});
      },
      [self](const Stop&) {
        if (const uint64_t count = self->state.unlogged; count > 0)
          log_error("recorder", "checkpoints: " + std::to_string(count) + " more could not be written");
        self->quit();
      },
  };
}

}  // namespace

RecorderActor::behavior_type recorder(RecorderSelf self, RunContextPtr context, std::shared_ptr<RunSink> sink,
                                      Supervisor supervisor) {
  if (!context->threads) return writer(self, context, sink, supervisor);
  begin_actor(self, *context);
  const auto disk = spawn_on(self->system(), /*own_thread=*/true, writer, context, sink, supervisor);
  self->link_to(disk);
  self->monitor(disk);
  self->set_down_handler([self](caf::down_msg& down) { self->quit(std::move(down.reason)); });
  return {
      [self, disk](CheckpointMessage& message) { self->send(disk, std::move(message)); },
      [self, disk](ActorState& state) { self->send(disk, std::move(state)); },
      [self, disk](const Evaluation& evaluation) { self->send(disk, evaluation); },
      [self, disk, sink](const SnapshotMessage& message) {
        const bool on_disk = message.use == SnapshotUse::point || message.use == SnapshotUse::warmup;
        on_disk ? self->send(disk, message) : pass_on(*sink, message);
        if (message.use == SnapshotUse::report)
          self->send(disk, SnapshotMessage{message.snapshot, SnapshotUse::alarms});
      },
      [self, disk](const Stop& stop) { self->send(disk, stop); },
  };
}

}  // namespace troupe
