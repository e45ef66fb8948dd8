#include "actors/trainer.h"

#include <algorithm>
#include <utility>

#include <caf/event_based_actor.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/deterministic_run.h"
#include "actors/evaluator.h"
#include "actors/experience/common/state_bytes.h"
#include "actors/resume.h"
#include "actors/run_progress.h"
#include "actors/trainer_gradients.h"
#include "actors/trainer_limits.h"
#include "actors/trainer_moments.h"
#include "actors/trainer_update.h"
#include "actors/trainer_watch.h"
#include "actors/update_warnings.h"
#include "runtime/base/log.h"
#include "runtime/base/text_format.h"
#include "runtime/caf/system.h"

namespace troupe {
namespace {

void send_checkpoint(TrainerSelf self, bool last) {
  auto& st = self->state;
  LearnerState learner = whole_state(st);
  if (st.context->config.stop.seconds > 0)
    learner.scalars[kTimeProgress] = st.warmup ? st.start.time_progress : time_used(self);
  put_warmup(st.warmup ? st.warmup->state() : st.start.warmup, learner.scalars);
  CheckpointMessage message;
  message.learner = std::make_shared<const LearnerState>(std::move(learner));
  message.version = st.version;
  message.last = last;
  self->send(st.peers.replay, std::move(message));
}

void checkpoint(TrainerSelf self) {
  auto& st = self->state;
  st.warmup_saves.saving(self->clock().now());
  st.checkpoint_open = true;
  with_moments(self, [self] { send_checkpoint(self, /*last=*/false); });
}

// Counts the time since the last call for what has held training since then: open evaluations or, without them, a
// checkpoint. Call before either changes.
void count_wait(TrainerSelf self) {
  auto& st = self->state;
  const auto now = self->clock().now(), before = std::exchange(st.counted_until, now);
  if (st.held)
    st.held_for += now - before;
  else if (st.checkpoint_owed)
    st.saving_for += now - before;
}

// At most one checkpoint is on its way to the disk: more would wait in memory, each with all weights. So training waits
// if the next is due before.
void save_if_due(TrainerSelf self) {
  auto& st = self->state;
  if (!checkpoint_due(st.context->config, st.version.number)) return;
  if (!st.checkpoint_open) return checkpoint(self);
  count_wait(self);
  st.checkpoint_owed = true;
  if (!std::exchange(st.warned_of_disk, true))
    log_warn("trainer", slow_disk_warning(st.context->config, st.version.number));
}

// The current weights: as they were published, if they were, so that whoever has those shares memory.
WeightsPtr current_weights(TrainerSelf self) {
  const TrainerState& st = self->state;
  return st.published && st.published->version == st.version ? st.published : st.learner->snapshot(st.version);
}

// Publishes them.
WeightsPtr publish(TrainerSelf self, WeightsPtr weights = nullptr) {
  auto& st = self->state;
  st.published = weights ? std::move(weights) : st.learner->snapshot(st.version);
  self->send(st.peers.publisher, WeightsMessage{st.published});
  return st.published;
}

void end(TrainerSelf self, const std::string& reason, const std::string& error = {}) {
  auto& st = self->state;
  if (st.ended) return;
  st.ended = true;
  with_moments(self, [self, reason, error] {
    auto& st = self->state;
    send_checkpoint(self, /*last=*/true);
    const TrainingEnded ended{st.version, reason, error, current_weights(self), st.reference};
    st.learner.reset();  // first, so that the last evaluation can have the memory of gradients and activations
    self->send(st.peers.supervisor, ended);
  });
}

}  // namespace

// Ends now, after the update under way or, in a deterministic run, when all actors are idle.
void request_end(TrainerSelf self, const std::string& reason, const std::string& error) {
  auto& st = self->state;
  if (!st.context->deterministic && !st.update) return end(self, reason, error);
  if (!st.end_reason.empty()) return;
  st.end_reason = reason;
  st.end_error = error;
}

// Unless training waits for evaluations, for a checkpoint or for ranks.
void ask(TrainerSelf self) {
  auto& st = self->state;
  if (st.held || st.checkpoint_owed) return;
  st.ask_owed = waits_for_ranks(st);
  if (st.ask_owed) return;
  st.waiting = true;
  self->send(st.peers.prefetcher, next_atom_v);
}

namespace {

// Every evaluation is made, and each that waits holds a snapshot of the weights. So training waits while there are too
// many.
void hold(TrainerSelf self) {
  auto& st = self->state;
  count_wait(self);
  st.held = true;
  if (std::exchange(st.warned_of_evaluations, true)) return;
  log_warn("trainer", evaluations_warning(st.version.number, st.evaluations));
}

// Starts an evaluation if one is due, and asks for the next super-batch.
void go_on(TrainerSelf self, WeightsPtr weights) {
  auto& st = self->state;
  const RunConfig& config = st.context->config;
  if (due(st.version.number, config.evaluation.every_updates)) {
    if (!weights) weights = current_weights(self);
    ++st.evaluations;
    self->send(st.peers.evaluator, EvaluateMessage{weights, false, false, st.reference});
    if (st.evaluations >= most_open_evaluations(weights->flat.bytes())) return hold(self);
  }
  ask(self);
}

void on_written(TrainerSelf self) {
  auto& st = self->state;
  st.checkpoint_open = false;
  st.warmup_saves.written(self->clock().now());
  if (std::exchange(st.warmup_owed, false) && st.version.number == 0 && !st.ended && !st.update)
    return checkpoint(self);
  if (st.ended || !st.checkpoint_owed) return;
  count_wait(self);
  st.checkpoint_owed = false;
  checkpoint(self);
  ask(self);
}

// Publishes the weights that training begins with, and asks for the first super-batch.
void begin_training(TrainerSelf self) {
  auto& st = self->state;
  st.started = st.updated = self->clock().now();
  st.reference = st.learner->reference(st.version);
  if (st.peers.reference_publisher) self->send(st.peers.reference_publisher, WeightsMessage{st.reference});
  publish(self);
  if (st.context->deterministic) return;
  for (WeightsPtr& weights : std::exchange(st.start.evaluations, {})) {
    ++st.evaluations;
    self->send(st.peers.evaluator, EvaluateMessage{std::move(weights), false, false, st.reference});
  }
  if (const std::string reason = limit_reached(self); !reason.empty()) return end(self, reason);
  // Needed in case no further update checks the clock.
  if (const double limit = st.context->config.stop.seconds; limit > 0)
    self->delayed_send(self, std::chrono::ceil<std::chrono::milliseconds>(std::chrono::duration<double>(limit)),
                       Stop{kTimeIsUp});
  ask(self);
}

// Saves the warm-up every checkpoint.every_updates steps, when it was not saved for long, and at its end; in
// deterministic runs only when stopped.
void save_warmup_if_due(TrainerSelf self) {
  auto& st = self->state;
  const WarmupState& warmup = st.warmup ? st.warmup->state() : st.start.warmup;
  const int64_t every = st.context->config.checkpoint.every_updates;
  if (st.context->deterministic || every == 0 || st.ended) return;
  if (st.checkpoint_open)
    st.warmup_owed = warmup.complete;
  else if (warmup.complete || due(warmup.step, every) || st.warmup_saves.due(self->clock().now()))
    checkpoint(self);
}

// Counts the time since the last call.
void count_warmup(TrainerSelf self) {
  auto& st = self->state;
  if (st.context->deterministic) return;  // its checkpoints do not depend on time
  const auto now = self->clock().now();
  st.warmup->add_seconds(seconds_of(now - std::exchange(st.updated, now)));
}

void end_warmup(TrainerSelf self) {
  auto& st = self->state;
  st.warmup->end(*st.learner);
  count_warmup(self);
  st.start.warmup = st.warmup->state();
  st.warmup = nullptr;
  self->send(st.peers.stats, WarmupMessage{st.start.warmup});
  begin_training(self);
  save_warmup_if_due(self);
}

// One step of the warm-up, or its next check, or its end.
void warm_up(TrainerSelf self) {
  auto& st = self->state;
  if (st.warmup->check_due())
    return self->send(st.peers.evaluator, EvaluateMessage{st.learner->snapshot(st.version), false, true});
  if (st.warmup->over()) return end_warmup(self);
  st.warmup->step(*st.learner);
  count_warmup(self);
  self->send(st.peers.stats, st.warmup->message());
  if (!st.warmup->over()) save_warmup_if_due(self);               // at its end its weights are checked first
  if (!st.context->deterministic) self->send(self, next_atom_v);  // other messages are handled between two steps
}

// Ends the run without a checkpoint if the warm-up cannot go on: its weights are of no use.
template <class Work>
void attempt_warmup(TrainerSelf self, Work work) {
  auto& st = self->state;
  try {
    work();
  } catch (const ConfigError& error) {
    st.ended = true;
    self->send(st.peers.supervisor, TrainingEnded{st.version, "warm-up failed", error.what(), nullptr});
  }
}

void on_warmup_check(TrainerSelf self, const Evaluation& check) {
  auto& st = self->state;
  if (!st.warmup || st.ended) return;
  attempt_warmup(self, [&] {
    st.warmup->take_check(check);
    self->send(st.peers.stats, st.warmup->message());
    if (!st.context->deterministic) warm_up(self);
  });
}

void on_evaluation(TrainerSelf self, const Evaluation& evaluation) {
  auto& st = self->state;
  if (evaluation.last) return;
  if (evaluation.of_warmup) return on_warmup_check(self, evaluation);
  st.evaluations -= std::min<uint64_t>(st.evaluations, 1);
  if (evaluation.error.empty()) st.evaluated = evaluation.return_mean;
  if (st.context->deterministic) return;
  if (evaluation.error.empty())
    if (const std::string reason = limit_reached(self); !reason.empty()) return request_end(self, reason);
  if (!st.held) return;
  count_wait(self);
  st.held = false;
  if (!st.ended) ask(self);
}

// All actors are idle. A checkpoint taken now contains no unfinished work, and an update that begins now does not
// depend on earlier timing, so a resumed run continues as if it had never stopped.
void on_idle(TrainerSelf self) {
  auto& st = self->state;
  if (st.ended) return;
  if (st.waiting) request_end(self, "starved", "no super-batch is complete although every worker is idle");
  if (st.end_reason.empty() && !st.warmup) st.end_reason = limit_reached(self);
  const bool last = !st.end_reason.empty();
  // An environment that blocks may hang from now on, so that no later moment is idle: the recorder keeps each state.
  const bool resumed = st.version.number > 0 && st.version.number == st.resumed_at;
  const bool due = checkpoint_due(st.context->config, st.version.number) || st.context->spec.blocks;
  const bool save = last || (!st.warmup && due && !resumed);
  if (save && !st.saving) {
    st.saving = true;
    self->send(st.peers.recorder,
               ActorState{"trainer", to_bytes(st.skipped_in_a_row, WireDouble(st.evaluated), st.env_steps)});
    self->send(st.peers.supervisor, save_atom_v);
    self->delayed_send(self, kIdleStep, idle_atom_v);  // when all actors have saved their states
    return;
  }
  st.saving = false;
  if (last) return end(self, st.end_reason, st.end_error);
  if (save) checkpoint(self);
  if (st.warmup) return attempt_warmup(self, [&] { warm_up(self); });
  go_on(self, nullptr);
}

void on_staged(TrainerSelf self, const StagedMessage& message) {
  auto& st = self->state;
  if (st.ended) return;
  st.waiting = false;
  TROUPE_CHECK(message.index() == st.version.number, message.index(), st.version.number);
  st.env_steps = message.env_steps;
  begin_update(self, message, progress(self));
}

void load(TrainerState& st, const std::string& bytes) {
  WireDouble evaluated;
  from_bytes(bytes, "trainer", st.skipped_in_a_row, evaluated, st.env_steps);
  st.evaluated = evaluated;
}

}  // namespace

void update_ended(TrainerSelf self, TrainerUpdate update) {
  auto& st = self->state;
  const UpdateReport& report = *update.report;
  ++st.version.number;
  const WeightsPtr weights = publish(self, std::move(update.weights));
  warn_of(self, report, update.samples);
  if (report.steps > 0) st.skipped_in_a_row = 0;
  if (report.failed()) ++st.skipped_in_a_row;
  const auto ended = self->clock().now();
  const UpdateMessage done{st.version,
                           update.index,
                           report.failed(),
                           update.samples,
                           seconds_of(ended - update.begun),
                           seconds_of(update.begun - st.updated),
                           seconds_of(st.held_for),
                           seconds_of(st.saving_for),
                           update.batch.stage_seconds,
                           update.report};
  st.updated = ended;
  st.held_for = st.saving_for = {};
  self->send(st.peers.replay, done);

  if (st.skipped_in_a_row >= static_cast<uint64_t>(st.context->config.trainer.max_skipped)) {
    return request_end(self, "non-finite updates",
                       format_counted(st.skipped_in_a_row, "update") + " in a row " +
                           (st.skipped_in_a_row == 1 ? "was" : "were") + " not finite, the last at update " +
                           std::to_string(st.version.number));
  }
  if (st.context->deterministic) return;
  if (!st.end_reason.empty()) return end(self, st.end_reason, st.end_error);
  if (const std::string reason = limit_reached(self); !reason.empty()) return end(self, reason);
  save_if_due(self);
  go_on(self, weights);
}

TrainerActor::behavior_type trainer(TrainerSelf self, RunContextPtr context, std::shared_ptr<Learner> learner,
                                    const ReplayStart& start, TrainerPeers peers) {
  begin_actor(self, *context);
  auto& st = self->state;
  st.context = context;
  st.learner = std::move(learner);
  st.peers = peers;
  st.version = start.version;
  st.env_steps = start.env_steps;
  st.start = start;
  st.resumed_at = start.version.number;
  if (!start.warmup.complete && (context->config.warmup.steps > 0 || start.warmup.step > 0))
    st.warmup = std::make_unique<Warmup>(context, start.warmup);
  else
    st.start.warmup.complete = true;
  if (const std::string* state = context->state_of("trainer")) restoring([&] { load(st, *state); });
  start_ranks(self);
  return {
      [self](begin_atom) {
        auto& st = self->state;
        st.context->use_threads(static_cast<int>(st.context->config.trainer.threads));
        if (!st.warmup) return begin_training(self);
        st.updated = self->clock().now();
        st.warmup_saves.begin(st.updated);
        self->send(st.peers.stats, WarmupMessage{st.warmup->state()});
        if (!st.context->deterministic) self->send(self, next_atom_v);
      },
      [self](next_atom) {
        if (self->state.warmup && !self->state.ended) attempt_warmup(self, [self] { warm_up(self); });
      },
      [self](const StagedMessage& message) { on_staged(self, message); },
      [self](const Evaluation& evaluation) { on_evaluation(self, evaluation); },
      [self](const CheckpointWritten&) { on_written(self); },
      [self](idle_atom) { on_idle(self); },
      [self](const RoundSaid& said) { on_round(self, said); },
      [self](const RankCopy& copy) { on_rank_copy(self, copy); },
      [self](const RankMisfit& misfit) { on_rank_misfit(self, misfit); },
      [self](const GradientsFailed& failed) { on_gradients_failed(self, failed); },
      [self](const RankDone& done) { on_rank_done(self, done); },
      [self](const RankMoments& moments) { on_rank_moments(self, moments); },
      [self](const RankPong& pong) { on_rank_pong(self, pong); },
      [self](const Part& part) { on_rank_part(self, part); },
      [self](const RankJoined& joined) { on_rank_joined(self, joined); },
      [self](due_atom) { on_ranks_due(self); },
      [self](beat_atom) { watch_ranks(self); },
      [self](const Stop& stop) { request_end(self, stop.reason); },  // the supervisor ends the actor at last
  };
}

}  // namespace troupe
