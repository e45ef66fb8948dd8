#include "actors/trainer.h"

#include <algorithm>

#include <caf/event_based_actor.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "runtime/caf_system.h"

namespace troupe {

namespace {

using Self = TrainerActor::stateful_pointer<TrainerState>;

double seconds(TrainerState::Clock::duration d) { return std::chrono::duration<double>(d).count(); }

double elapsed(Self self) { return seconds(self->clock().now() - self->state.started); }

// How much of the run's budget is used, in [0, 1]: drives the schedules.
double progress(const TrainerState& st) {
  const StopConfig& stop = st.wiring->config.stop;
  double done = 0;
  if (stop.env_steps > 0) done = std::max(done, static_cast<double>(st.env_steps) / static_cast<double>(stop.env_steps));
  if (stop.updates > 0) done = std::max(done, static_cast<double>(st.version.number) / static_cast<double>(stop.updates));
  return std::min(done, 1.0);
}

// Why training must end now, or nothing.
std::string limit_reached(Self self) {
  auto& st = self->state;
  const StopConfig& stop = st.wiring->config.stop;
  if (stop.updates > 0 && st.version.number >= static_cast<uint64_t>(stop.updates)) return "stop.updates reached";
  if (stop.env_steps > 0 && st.env_steps >= static_cast<uint64_t>(stop.env_steps)) return "stop.env_steps reached";
  if (stop.seconds > 0 && elapsed(self) >= stop.seconds) return "stop.seconds reached";
  return {};
}

bool due(uint64_t number, int64_t every) { return every > 0 && number % static_cast<uint64_t>(every) == 0; }

void checkpoint(Self self, bool last) {
  auto& st = self->state;
  self->send(st.peers.recorder, CheckpointMessage{std::make_shared<const LearnerState>(st.learner->save()), st.version, st.env_steps, last});
}

void end(Self self, const std::string& reason, const std::string& error = {}) {
  auto& st = self->state;
  if (st.ended) return;
  st.ended = true;
  checkpoint(self, /*last=*/true);
  self->send(st.peers.supervisor, TrainingEnded{st.version, reason, error, st.learner->snapshot(st.version)});
}

void ask(Self self) {
  self->state.asked = self->clock().now();
  self->send(self->state.peers.prefetcher, next_atom_v);
}

void update(Self self, const StagedMessage& message) {
  auto& st = self->state;
  const auto begun = self->clock().now();
  TROUPE_CHECK(message.batch->index == st.version.number, message.batch->index, st.version.number);
  st.env_steps = message.env_steps;
  auto report = std::make_shared<const UpdateReport>(st.learner->update(*message.batch, progress(st)));
  ++st.version.number;
  WeightsPtr weights = st.learner->snapshot(st.version);
  self->send(st.peers.publisher, WeightsMessage{weights});

  const bool applied = report->steps > 0;
  st.skipped_in_a_row = applied ? 0 : st.skipped_in_a_row + 1;
  const UpdateMessage done{st.version,      message.batch->index, applied, message.batch->samples, seconds(self->clock().now() - begun),
                           seconds(begun - st.asked), report};
  self->send(st.peers.replay, done);
  self->send(st.peers.stats, done);

  const RunConfig& config = st.wiring->config;
  if (st.skipped_in_a_row >= static_cast<uint64_t>(config.trainer.max_skipped)) {
    end(self, "non-finite updates",
        std::to_string(st.skipped_in_a_row) + " updates in a row were not finite, the last at update " + std::to_string(st.version.number));
    return;
  }
  if (const std::string reason = limit_reached(self); !reason.empty()) {
    end(self, reason);
    return;
  }
  if (due(st.version.number, config.checkpoint.every_updates)) checkpoint(self, /*last=*/false);
  if (due(st.version.number, config.evaluation.every_updates)) self->send(st.peers.evaluator, EvaluateMessage{weights, false});
  ask(self);
}

}  // namespace

TrainerActor::behavior_type trainer(Self self, WiringPtr wiring, std::shared_ptr<Learner> learner, PolicyVersion version,
                                    uint64_t env_steps, TrainerPeers peers) {
  guard(self);
  auto& st = self->state;
  st.wiring = wiring;
  st.learner = std::move(learner);
  st.peers = peers;
  st.version = version;
  st.env_steps = env_steps;
  return {
      [self](begin_atom) {
        auto& st = self->state;
        st.started = self->clock().now();
        st.wiring->use_threads(static_cast<int>(st.wiring->config.trainer.threads));
        self->send(st.peers.publisher, WeightsMessage{st.learner->snapshot(st.version)});
        if (const std::string reason = limit_reached(self); !reason.empty()) {
          end(self, reason);
          return;
        }
        ask(self);
      },
      [self](const StagedMessage& message) {
        if (!self->state.ended) update(self, message);
      },
      [self](const Evaluation& evaluation) {
        const double wanted = self->state.wiring->config.stop.eval_return;
        if (wanted != 0 && !evaluation.last && evaluation.error.empty() && evaluation.return_mean >= wanted)
          end(self, "stop.eval_return reached");
      },
      [self](const Stop& stop) { end(self, stop.reason); },  // the supervisor ends the actor itself, once all is done
  };
}

}  // namespace troupe
