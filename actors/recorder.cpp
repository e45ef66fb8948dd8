#include "actors/recorder.h"

#include <utility>

#include <caf/event_based_actor.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/resume.h"
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

}  // namespace

RecorderActor::behavior_type recorder(SelfPointer<RecorderActor, RecorderState> self, RunContextPtr context,
                                      std::shared_ptr<RunSink> sink,
                                      caf::typed_actor<caf::reacts_to<CheckpointWritten>> supervisor) {
  guard(self);
  return {
      [=](const CheckpointMessage& message) {
        CheckpointWritten written{message.version, message.last, {}};
        try {
          Checkpoint checkpoint = to_checkpoint(message, context->config);
          checkpoint.extras.merge(std::exchange(self->state.states, {}));
          sink->save(checkpoint);
        } catch (const LockLost&) {
          throw;
        } catch (const std::exception& e) {
          written.error = e.what();
          const std::string line = "checkpoint at update " + std::to_string(message.version.number) + ": " + e.what();
          const auto now = self->clock().now();
          if (message.last) {
            log_info("recorder", line);  // the command prints the last error
          } else if (now >= self->state.next_error_line) {
            self->state.next_error_line = now + kBetweenErrorLines;
            log_error("recorder", line);
          }
        }
        self->send(supervisor, written);
      },
      [self](ActorState& state) { self->state.states[state.name] = std::move(state.bytes); },
      [=](const Evaluation& evaluation) { attempt([&] { sink->evaluated(evaluation); }); },
      [=](const SnapshotMessage& message) {
        attempt([&] {
          if (message.use == SnapshotUse::point) sink->record(*message.snapshot);
          if (message.use == SnapshotUse::report) sink->show(*message.snapshot);
          if (message.use == SnapshotUse::port) sink->publish(*message.snapshot);
        });
      },
      [self](const Stop&) { self->quit(); },
  };
}

}  // namespace troupe
