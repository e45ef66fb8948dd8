#include "actors/evaluator.h"

#include <algorithm>
#include <utility>

#include <caf/event_based_actor.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/evaluation_actor.h"
#include "actors/experience/grid/episode_player.h"
#include "actors/experience/kinds.h"
#include "actors/warmup.h"
#include "runtime/base/log.h"
#include "runtime/base/text_format.h"
#include "runtime/caf/system.h"

namespace troupe {

namespace {

using EvaluatorSelf = SelfPointer<EvaluatorActor, EvaluatorState>;
using Asker = caf::typed_actor<caf::reacts_to<Evaluation>>;

constexpr std::chrono::seconds kBeat{1};
constexpr size_t kMostGivenUp = 2;             // evaluations whose environments have not returned
constexpr size_t kMostAnswerBytes = 16 << 20;  // about so many are kept of the answers of an evaluation
// In a deterministic run time must not matter, so this many steps count as a second.
constexpr uint64_t kStepsPerSecond = 1000;

// The next look is in a second, or when the time of the current evaluation is over.
void beat(EvaluatorSelf self) {
  const auto& st = self->state;
  std::chrono::milliseconds wait = kBeat;
  if (const auto timeout = st.context->config.evaluation.timeout; timeout.count() > 0) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(st.last_end + timeout - self->clock().now());
    wait = std::clamp(left, std::chrono::milliseconds(1), wait);
  }
  beat_after(self, *st.context, wait);
}

void start(EvaluatorSelf self) {
  auto& st = self->state;
  if (!st.actor) {
    const std::vector<std::shared_ptr<Grader>> graders = kind_of(*st.context).make_evaluation_graders(*st.context);
    st.grader = graders.empty() ? nullptr : graders.front();
    st.actor = spawn_on(self->system(), st.context->threads, evaluation_actor, st.context, st.grader);
    self->monitor(st.actor);
  }
  EvaluateMessage& job = st.jobs.front().message;
  st.so_far = {};
  st.answers.clear();
  st.so_far.version = job.weights->version;
  st.so_far.last = job.last;
  st.so_far.of_warmup = job.of_warmup;
  st.planned = static_cast<uint64_t>(job.of_warmup ? kWarmupPrompts : evaluation_plan(st.context->config).ends());
  st.steps = st.steps_at_end = st.failures = 0;
  st.started = st.last_end = self->clock().now();
  st.snapshot_bytes = job.weights->flat.bytes();
  const WeightsPtr weights = std::exchange(job.weights, without_values(*job.weights));
  self->send(st.actor, EvaluateMessage{weights, job.last, job.of_warmup, job.reference});
  if (std::exchange(st.beats, true)) return;
  beat(self);
}

void report_progress(EvaluatorSelf self) {
  const auto& st = self->state;
  EvaluationProgress progress;
  if (!st.jobs.empty() && !st.jobs.front().message.of_warmup) {
    progress.now.emplace();
    progress.now->updates = st.so_far.version.number;
    progress.now->episodes = st.so_far.ended();
    progress.now->of = st.planned;
    progress.now->waiting = st.jobs.size() - 1;
    // One less, because the trainer asks for the next as soon as one is made.
    progress.now->holds_training = st.jobs.size() + 1 >= most_open_evaluations(st.snapshot_bytes);
    progress.now->seconds = std::chrono::duration<double>(self->clock().now() - st.started).count();
  }
  self->send(st.stats, progress);
}

void tell(EvaluatorSelf self, const Evaluation& result, const caf::strong_actor_ptr& asker) {
  if (!result.of_warmup) self->send(self->state.stats, result);
  self->send(caf::actor_cast<Asker>(asker), result);
}

void deliver(EvaluatorSelf self, const Evaluation& result, const caf::strong_actor_ptr& asker) {
  if (!result.error.empty() && !result.of_warmup) {
    const std::string line =
        "the evaluation after update " + std::to_string(result.version.number) + " failed: " + result.error;
    result.last ? log_info("evaluator", line) : log_warn("evaluator", line);  // the command prints the last one's
  }
  const bool told = result.of_warmup && self->state.told_of_warmup;
  if (result.failed_episodes > 0 && result.episodes > 0 && !told) {
    self->state.told_of_warmup |= result.of_warmup;
    log_warn("evaluator",
             (result.of_warmup ? "a check of the warm-up (others like it are not reported)"
                               : "the evaluation after update " + std::to_string(result.version.number)) +
                 ": " +
                 kind_of(*self->state.context).failed_text(result.failed_episodes, result.ended(), result.last_error));
  }
  tell(self, result, asker);
}

// Replies that an evaluation is not made. Logs only the first one, until an evaluation is made again.
void leave_out(EvaluatorSelf self, const EvaluatorState::Job& job, const std::string& why) {
  auto& st = self->state;
  Evaluation none;
  none.version = job.message.weights->version;
  none.of_warmup = job.message.of_warmup;
  none.error = "not made, because " + why;
  if (!std::exchange(st.told_left_out, true))
    log_warn("evaluator", "the evaluation after update " + std::to_string(none.version.number) + " is " + none.error +
                              "; others that are not made are not reported until one is");
  tell(self, none, job.asker);
}

// Starts the next evaluation that waits. While environments do not return in evaluations that were given up, each new
// one would probably leave another thread behind.
void start_next(EvaluatorSelf self) {
  auto& st = self->state;
  while (!st.jobs.empty() && st.given_up.size() >= kMostGivenUp && !st.jobs.front().message.last) {
    leave_out(self, st.jobs.front(), "the environment does not return from a step or a start of those before it");
    st.jobs.pop_front();
  }
  if (!st.jobs.empty()) start(self);
}

// Whether the last policy is already being evaluated, or waits for it. Then that evaluation becomes the last one.
bool is_already_open(EvaluatorState& st, const EvaluateMessage& last, const caf::strong_actor_ptr& asker) {
  const auto same = std::ranges::find_if(st.jobs, [&](const EvaluatorState::Job& job) {
    return job.message.weights->version.number == last.weights->version.number;
  });
  if (same == st.jobs.end()) return false;
  same->message.last = true;
  same->asker = asker;
  if (same == st.jobs.begin()) st.so_far.last = true;
  return true;
}

// Stats hears of the next evaluation before it hears the result of this one, so that no snapshot says that there is
// none.
void finish(EvaluatorSelf self, Evaluation result) {
  auto& st = self->state;
  const caf::strong_actor_ptr asker = std::move(st.jobs.front().asker);
  st.jobs.pop_front();
  if (!st.answers.empty()) result.answers = std::make_shared<const std::string>(std::exchange(st.answers, {}));
  if (result.error.empty()) st.told_left_out = false;
  const bool goes_on = !st.jobs.empty() && st.given_up.size() < kMostGivenUp;
  if (goes_on) start(self);
  if (goes_on && !st.context->deterministic) report_progress(self);
  deliver(self, result, asker);
  if (goes_on) return;
  start_next(self);
  if (!st.context->deterministic) report_progress(self);
}

// Tells the evaluation actor to end. It may be waiting for scores.
void stop_actor(EvaluatorSelf self, const Stop& stop) {
  self->send(self->state.actor, stop);
  if (self->state.grader) self->state.grader->abandon();
}

// Ends the current evaluation with the episodes that it has. Its actor may be inside a step for ever, so the next one
// is played by another.
void give_up(EvaluatorSelf self, const std::string& span) {
  auto& st = self->state;
  stop_actor(self, Stop{"no episode ends"});
  st.given_up.push_back(std::exchange(st.actor, nullptr));
  Evaluation result = st.so_far;
  result.error = "no episode ended within " + span + " (evaluation.timeout_ms); " + format_count(result.ended()) +
                 " of " + format_counted(st.planned, "episode") + (st.planned == 1 ? " was" : " were") + " played";
  if (st.failures > 0) result.error += "; " + environment_failed_text(st.failures, result.last_error);
  // Of those that wait, only the last of the run is tried if this one had no episode at all: the others would take as
  // long each, and each would leave a thread behind.
  std::deque<EvaluatorState::Job> waiting = std::exchange(st.jobs, {}), skipped;
  for (EvaluatorState::Job& job : waiting) {
    const bool made = result.ended() > 0 || st.jobs.empty() || job.message.last;
    (made ? st.jobs : skipped).push_back(std::move(job));
  }
  finish(self, result);
  for (const EvaluatorState::Job& job : skipped) leave_out(self, job, "no episode ended in the one before it");
}

void on_slice(EvaluatorSelf self, const EvaluationSlice& slice) {
  auto& st = self->state;
  const bool current = st.actor && self->current_sender() && self->current_sender()->address() == st.actor.address();
  if (!current || st.stopping) return;
  st.steps = slice.steps;
  if (slice.planned > 0) st.planned = slice.planned;
  st.failures = slice.failures;
  if (slice.so_far.ended() > st.so_far.ended()) {
    st.steps_at_end = slice.steps;
    st.last_end = self->clock().now();
  }
  st.so_far = slice.so_far;
  if (st.answers.size() < kMostAnswerBytes) st.answers += slice.answers;
  st.so_far.last = st.jobs.front().message.last;
  if (slice.over) return finish(self, st.so_far);
  const auto timeout = st.context->config.evaluation.timeout;
  const uint64_t most_steps = kStepsPerSecond * static_cast<uint64_t>(timeout.count()) / 1000;
  if (st.context->deterministic && timeout.count() > 0 && st.steps - st.steps_at_end > most_steps)
    return give_up(self, format_counted(most_steps, "step"));
  self->send(st.actor, next_atom_v);
}

void on_beat(EvaluatorSelf self) {
  auto& st = self->state;
  st.beats = !st.jobs.empty() && !st.stopping;
  if (!st.beats) return;
  const auto timeout = st.context->config.evaluation.timeout;
  if (timeout.count() > 0 && self->clock().now() - st.last_end >= timeout)
    give_up(self, std::to_string(timeout.count()) + " ms");
  else
    report_progress(self);
  beat(self);
}

// An actor whose environment never returns from a step or a start is named by the supervisor.
void quit_if_alone(EvaluatorSelf self) {
  if (!self->state.actor && self->state.given_up.empty()) self->quit();
}

// What the next start will do about policies that are not evaluated.
std::string resume_advice(const CheckpointConfig& config, size_t count) {
  const bool one = count == 1;
  if (config.keep_best > 0) return one ? "The same command evaluates it" : "The same command evaluates them";
  return one ? "The same command evaluates it if it has a checkpoint; with checkpoint.keep_best it has one"
             : "The same command evaluates those that have a checkpoint; with checkpoint.keep_best all have one";
}

void on_stop(EvaluatorSelf self, const Stop& stop) {
  auto& st = self->state;
  if (std::exchange(st.stopping, true)) return;
  std::vector<uint64_t> open;
  for (const EvaluatorState::Job& job : st.jobs)
    if (!job.message.last && !job.message.of_warmup)  // the command says so of the last one
      open.push_back(job.message.weights->version.number);
  if (!open.empty())
    log_warn("evaluator", "not evaluated: " + policies_text(open) + ": the run ends" +
                              (stop.reason.empty() ? "" : " (" + stop.reason + ")") + ". " +
                              resume_advice(st.context->config.checkpoint, open.size()));
  if (!st.given_up.empty())
    log_warn("evaluator", format_counted(st.given_up.size(), "evaluation") + " given up after evaluation.timeout_ms " +
                              (st.given_up.size() == 1 ? "has" : "have") + " not stopped yet");
  if (!st.jobs.empty() && !st.context->deterministic) self->send(st.stats, EvaluationProgress{});
  if (st.actor) stop_actor(self, stop);
  quit_if_alone(self);
}

}  // namespace

std::string policies_text(const std::vector<uint64_t>& updates) {
  constexpr size_t kNamed = 8;
  std::string text = updates.size() == 1 ? "the policy after update " : "the policies after updates ";
  const size_t shown = std::min(updates.size(), kNamed);
  for (size_t i = 0; i < shown; ++i) {
    const bool last = i + 1 == updates.size();
    text += (i == 0 ? "" : last ? " and " : ", ") + std::to_string(updates[i]);
  }
  return updates.size() > shown ? text + " and " + std::to_string(updates.size() - shown) + " more" : text;
}

EvaluatorActor::behavior_type evaluator(EvaluatorSelf self, RunContextPtr context, StatsActor stats) {
  begin_actor(self, *context);
  self->state.context = context;
  self->state.stats = stats;
  self->set_down_handler([self](const caf::down_msg& down) {
    auto& st = self->state;
    std::erase_if(st.given_up, [&](const EvaluationActor& actor) { return actor.address() == down.source; });
    const bool current = st.actor && down.source == st.actor.address();
    if (current) st.actor = nullptr;
    if (st.stopping) return quit_if_alone(self);
    if (!current || st.jobs.empty()) return;
    Evaluation result = st.so_far;
    result.error = describe(down.reason);
    finish(self, result);
  });
  return {
      [self](const EvaluateMessage& job) {
        auto& st = self->state;
        if (st.stopping) return;
        if (job.last && is_already_open(st, job, self->current_sender())) return;
        st.jobs.push_back({job, self->current_sender()});
        if (st.jobs.size() > 1) return;
        start_next(self);
        if (!st.context->deterministic) report_progress(self);
      },
      [self](const EvaluationSlice& slice) { on_slice(self, slice); },
      [self](beat_atom) { on_beat(self); },
      [self](const Stop& stop) { on_stop(self, stop); },
  };
}

}  // namespace troupe
