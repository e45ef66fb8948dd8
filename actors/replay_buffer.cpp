#include "actors/replay_buffer.h"

#include <algorithm>
#include <utility>

#include <caf/event_based_actor.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/deterministic_run.h"
#include "actors/experience/kinds.h"
#include "actors/replay_counts.h"
#include "runtime/base/log.h"
#include "runtime/base/suggest.h"
#include "runtime/base/text_format.h"
#include "runtime/caf/system.h"

namespace troupe {

namespace {

constexpr std::chrono::milliseconds kRecountInterval{500};
constexpr size_t kErrorBytes = 1000;  // length to which the error of an environment is cut

void grant(ReplaySelf self) {
  if (self->state.training_ended) return;
  auto& st = self->state;
  for (const CreditGrant& granted : st.store->grant()) {
    st.credits.granted(granted.worker, self->clock().now());
    self->send(st.workers.at(granted.worker), Credits{granted.count});
  }
}

// Sends a super-batch to the prefetcher if it waits for one that is there. False if not.
bool hand_out(ReplaySelf self) {
  auto& st = self->state;
  if (!st.prefetcher) return false;
  const auto begin = self->clock().now();
  std::optional<std::vector<SuperBatch>> shards = st.store->sample(begin.time_since_epoch());
  if (!shards) return false;
  BatchMessage message;
  for (SuperBatch& shard : *shards) message.shards.push_back(std::make_shared<const SuperBatch>(std::move(shard)));
  message.draw_seconds = std::chrono::duration<double>(self->clock().now() - begin).count();
  auto to = caf::actor_cast<PrefetcherActor>(st.prefetcher);
  st.prefetcher = nullptr;
  self->send(to, std::move(message));
  return true;
}

// Call it after each change that may make a super-batch complete or allow credits.
void serve(ReplaySelf self) {
  auto& st = self->state;
  if (!st.acts_at_rest) {
    hand_out(self);
    return grant(self);
  }
  if (!std::exchange(st.rest_awaited, true)) self->delayed_send(self, kIdleStep, idle_atom_v);
}

// No actor has a message left. With the super-batch an update begins, and only when it has ended and no message is left
// again may workers sample.
void on_rest(ReplaySelf self) {
  self->state.rest_awaited = false;
  if (!self->state.store->closed() && !hand_out(self)) grant(self);
}

// How a worker ended.
struct Leave {
  bool in_order = false;  // it was told to stop and did
  bool failed = false;    // it ended with an error, but not because it was killed or lost its connection
};

Leave leave_of(const caf::error& reason) {
  return {.in_order = !reason, .failed = reason && reason.category() != caf::atom("exit")};
}

// Removes the worker with the address `source`, if there is one.
void forget_worker(ReplaySelf self, const caf::actor_addr& source, Leave how) {
  auto& st = self->state;
  const auto it = st.worker_of.find(source);
  if (it == st.worker_of.end()) return;
  st.sampling.left(it->second, how.failed);
  st.credits.left(it->second);
  st.store->leave(it->second, st.training_ended || how.in_order);
  st.workers.erase(it->second);
  st.worker_of.erase(it);
  if ((st.training_ended || st.stopping) && st.workers.empty()) {
    close_counts(self);
  } else {
    report(self);
  }
}

void on_down(ReplaySelf self, const caf::down_msg& down) {
  auto& st = self->state;
  const caf::actor_addr& source = down.source;
  st.parts.forget(source);
  forget_worker(self, source, leave_of(down.reason));
  if (st.store->closed()) return;
  if (const auto it = st.receiver_of.find(source); it != st.receiver_of.end()) {
    st.store->receiver_gone(it->second);
    st.receiver_of.erase(it);
  }
  serve(self);
}

void on_gone(ReplaySelf self, const WorkerGone& gone) {
  auto& st = self->state;
  st.gone_workers.insert(gone.worker);
  const auto worker = st.workers.find(gone.worker);
  if (worker == st.workers.end()) return;
  const caf::actor_addr address = worker->second.address();
  st.parts.forget(address);
  forget_worker(self, address, {});
  if (!st.store->closed()) serve(self);
}

// Warns that a message of another process, which does not fit the run, is ignored.
void drop(ReplaySelf self, const std::string& what, const std::string& why) {
  self->state.misfits.warn(what + " is dropped: " + why, self->clock().now());
}

// Whether the current message comes from this worker.
bool is_from(ReplaySelf self, uint64_t worker) {
  if (!self->current_sender()) return false;
  const auto it = self->state.worker_of.find(self->current_sender()->address());
  return it != self->state.worker_of.end() && it->second == worker;
}

bool is_remote(ReplaySelf self) { return self->current_sender()->node() != self->node(); }

// Ends the worker that sent the current message, because the message does not fit the run. Its partial rollouts are
// lost. If replay only dropped the message, the worker's credits would never come back.
void expel(ReplaySelf self, uint64_t worker, const std::string& why) {
  self->state.misfits.warn("worker " + std::to_string(worker) + " is removed from the run: " + why,
                           self->clock().now());
  const CreditHolder handle = self->state.workers.at(worker);
  self->send_exit(handle, make_error(Fault::bad_message, why));
  forget_worker(self, handle.address(), {});
  if (!self->state.store->closed()) serve(self);
}

// Refuses a hello. The sender is told to end, because it would wait for credits for ever. With Fault::incompatible its
// process does not try again.
void turn_away(ReplaySelf self, uint64_t worker, const std::string& why, Fault fault = Fault::bad_message) {
  drop(self, "the hello of worker " + std::to_string(worker), why);
  if (self->state.worker_of.contains(self->current_sender()->address())) return;  // it works under another number
  self->send_exit(caf::actor_cast<caf::actor>(self->current_sender()), make_error(fault, why));
}

void on_hello(ReplaySelf self, const WorkerHello& hello) {
  auto& st = self->state;
  if (!self->current_sender() || st.training_ended || st.stopping)
    return;  // the connection is already lost, or the run needs no more workers
  if (st.gone_workers.contains(hello.worker)) return;
  if (const auto why = spec_difference(st.spec, hello.spec))
    return turn_away(self, hello.worker, "the worker does not fit the run: " + *why, Fault::incompatible);
  if (const auto why = misfit(st.context->config, hello)) return turn_away(self, hello.worker, *why);
  if (is_taken(st.worker_of, self->current_sender()->address(), hello.worker))
    return turn_away(self, hello.worker, "its number belongs to another worker");
  auto worker = caf::actor_cast<CreditHolder>(self->current_sender());
  st.store->join(hello.worker, hello.groups, hello.samples_per_rollout);
  st.workers[hello.worker] = worker;
  st.worker_of[worker.address()] = hello.worker;
  st.seen.insert(hello.worker);
  st.sampling.joined(hello.worker, self->clock().now());
  self->monitor(worker);
  report(self);
  serve(self);
}

std::string save(const ReplayState& st) {
  TROUPE_CHECK(st.lags.empty() && !st.prefetcher, st.lags.size());
  return st.store->save();
}

void end_training(ReplayState& st) {
  if (!st.training_ended && !st.stopping) st.workers_at_end = st.workers.size();
}

void on_checkpoint(ReplaySelf self, const CheckpointMessage& message) {
  auto& st = self->state;
  if (!message.last) return send_checkpoint(self, message);
  end_training(st);
  st.training_ended = true;
  st.last_checkpoint = message;
  await_workers(self);
}

void on_update(ReplaySelf self, const UpdateMessage& update) {
  auto& st = self->state;
  if (st.store->closed()) return;
  if (update.failed) {
    st.store->failed(update.index);
  } else {
    st.store->trained(update.index);
    LagCounts& lags = st.lags.emplace_back();
    for (const auto& [lag, samples] : st.store->last_lags()) lags[lag] += samples;
  }
  report(self, update);
}

void on_stop(ReplaySelf self) {
  auto& st = self->state;
  end_training(st);
  st.stopping = true;
  if (st.store->closed()) return self->quit();
  await_workers(self);
}

void note_delivery(uint64_t worker, bool was_overdue) {
  if (was_overdue) log_info("replay", "worker " + std::to_string(worker) + " makes steps again");
}

// Credits of a worker that does not use them would keep others from sampling for ever: with the lag cap, their samples
// are waited for.
void revoke_unused(ReplaySelf self) {
  auto& st = self->state;
  if (st.training_ended || st.stopping) return;
  const auto now = self->clock().now();
  // While no inference actor serves, no worker can make a step.
  const bool served = st.store->applied_number().has_value();
  const auto holds_credit = [&](uint64_t worker) { return served && st.store->credits_of(worker) > 0; };
  for (const uint64_t worker : st.credits.overdue(now, holds_credit)) {
    const uint32_t count = st.store->revoke(worker);
    log_warn("replay", "worker " + std::to_string(worker) + " has made no step for " +
                           std::to_string(st.credits.silence(worker, now).count()) + " ms and loses its " +
                           format_counted(count, "credit") +
                           ": others may sample in its place (workers.credit_timeout_ms)");
    serve(self);
  }
}

void on_rollout(ReplaySelf self, const RolloutMessage& message) {
  auto& st = self->state;
  const Rollout& rollout = *message.rollout;
  if (!is_from(self, rollout.worker)) return;  // the worker is gone, or another process uses its number
  if (is_remote(self))
    if (const auto why = misfit(*st.context, st.store->version(), rollout))
      return expel(self, rollout.worker, "a rollout does not fit the run: " + *why);
  st.store->push(message.rollout);
  if (rollout.samples > 0) st.sampling.sampled(self->clock().now());
  note_delivery(rollout.worker, st.credits.delivered(rollout.worker, self->clock().now()));
  serve(self);
  report(self);
}

void on_report(ReplaySelf self, const WorkerReport& report) {
  auto& st = self->state;
  if (!is_from(self, report.worker)) return;
  if (is_remote(self))
    if (const auto why = misfit(st.context->config, st.context->spec, report))
      return expel(self, report.worker, "a report does not fit the run: " + *why);
  st.store->progress(report.worker, report.partial, report.last);
  const auto now = self->clock().now();
  constexpr uint64_t kLongest = uint64_t{1} << 50;  // microseconds, 35 years
  st.sampling.stepped(report.worker, report.env_steps, std::chrono::microseconds(std::min(report.step_us, kLongest)),
                      now);
  // No worker can push answers while there is no scorer.
  note_delivery(report.worker, report.without_scorer ? st.credits.delivered(report.worker, now)
                                                     : st.credits.stepped(report.worker, report.env_steps, now));
}

void on_applied(ReplaySelf self, const Applied& applied) {
  auto& st = self->state;
  if (!self->current_sender() || st.gone.contains(applied.inference_index)) return;
  const std::string what =
      "version " + applied.version.text() + " of inference actor " + std::to_string(applied.inference_index);
  if (is_taken(st.receiver_of, self->current_sender()->address(), applied.inference_index))
    return drop(self, what, "its number belongs to another one");
  if (applied.version > st.store->version()) return drop(self, what, "this version has not been published yet");
  if (!st.store->applied(applied.inference_index, applied.version))
    return drop(self, what, "it is older than the one before");
  if (st.receiver_of.try_emplace(self->current_sender()->address(), applied.inference_index).second)
    self->monitor(caf::actor_cast<caf::actor>(self->current_sender()));
  serve(self);
}

void on_part(ReplaySelf self, const Part& part) {
  auto& st = self->state;
  if (!self->current_sender()) return;  // the connection is already lost
  const auto sender = st.worker_of.find(self->current_sender()->address());
  if (sender == st.worker_of.end()) return;
  RolloutMessage rollout;
  WorkerReport report;
  try {
    TROUPE_CHECK(part.of == PartOf::rollout || part.of == PartOf::report, static_cast<int>(part.of));
    const auto whole = st.parts.add(sender->first, part);
    if (!whole) return;
    if (part.of == PartOf::rollout)
      rollout = deserialize<RolloutMessage>(self->system(), *whole);
    else
      report = deserialize<WorkerReport>(self->system(), *whole);
  } catch (const std::exception& e) {
    return expel(self, sender->second, e.what());
  }
  if (part.of == PartOf::rollout)
    on_rollout(self, rollout);
  else
    on_report(self, report);
}

}  // namespace

ReplayActor::behavior_type replay_buffer(ReplaySelf self, RunContextPtr context, const ReplayStart& start,
                                         StatsActor stats,
                                         caf::typed_actor<caf::reacts_to<SamplingFailed>> supervisor) {
  begin_actor(self, *context);
  auto& st = self->state;
  const RunConfig& config = context->config;
  st.store.emplace(replay_rules(config), static_cast<size_t>(config.trainer.shards), start.version, config.seed,
                   start.ledger, start.env_steps, start.uncounted);
  const bool greedy = needs_greedy_answer(config);  // with each rollout
  if (greedy) st.store->expect_baselines();
  // Not in a deterministic run: if its stop.env_steps is raised at a resume, it must have granted the same credits as a
  // run that had the higher limit from the start.
  if (!context->deterministic && config.stop.env_steps > 0)
    st.store->stop_at(static_cast<uint64_t>(config.stop.env_steps),
                      greedy ? 2 : static_cast<uint64_t>(context->spec.action.chunk));
  st.context = context;
  st.acts_at_rest = context->deterministic && config.trainer.shards > 1;
  st.stats = stats;
  st.parts = PartAssembler(std::max(kind_of(*context).most_bytes_of_rollout(*context), most_bytes_of_report(config)));
  st.sampling = SamplingWatch(config.workers.failure_timeout, context->deterministic, *kind_of(config).words);
  if (!context->deterministic) st.credits = CreditWatch(config.workers.credit_timeout);
  st.spec = spec_fields(*context);
  const auto watch_sampling = [self, supervisor] {
    auto& st = self->state;
    if (st.sampling_failed) return;
    if (const auto error = st.sampling.verdict(self->clock().now())) {
      st.sampling_failed = true;
      self->send(supervisor, SamplingFailed{*error});
    }
  };
  if (const std::string* state = context->state_of("replay")) restoring([&] { st.store->load(*state); });
  self->set_down_handler([self](const caf::down_msg& down) { on_down(self, down); });
  beat_after(self, *context, kRecountInterval);
  return {
      [self](const WorkerHello& hello) { on_hello(self, hello); },
      [self](const RolloutMessage& message) { on_rollout(self, message); },
      [self](const Part& part) { on_part(self, part); },
      [self](const WorkerReport& report) { on_report(self, report); },
      [self, watch_sampling](const EnvironmentsFailing& failing) {
        // Accepted also from a worker that has not sent a hello, because its environments could not be made.
        const caf::strong_actor_ptr& sender = self->current_sender();
        if (!sender || is_taken(self->state.worker_of, sender->address(), failing.worker)) return;
        self->state.sampling.failing(failing.worker, printable(failing.error, kErrorBytes), self->clock().now());
        watch_sampling();
      },
      [self](const Applied& applied) { on_applied(self, applied); },
      [self](next_atom) {
        self->state.prefetcher = self->current_sender();
        serve(self);
      },
      [self](const WorkerGone& gone) { on_gone(self, gone); },
      [self](const ReceiverGone& gone) {
        auto& st = self->state;
        st.gone.insert(gone.inference_index);
        st.store->receiver_gone(gone.inference_index);
        serve(self);
      },
      [self](const UpdateMessage& update) { on_update(self, update); },
      [self](const CheckpointMessage& message) { on_checkpoint(self, message); },
      [self](due_atom) { on_due(self); },
      [self](idle_atom) { on_rest(self); },
      [self, context, watch_sampling](beat_atom) {
        watch_sampling();
        revoke_unused(self);
        recount(*self->state.store);
        report(self);
        beat_after(self, *context, kRecountInterval);
      },
      [self](const SaveMessage& message) { self->send(message.recorder, ActorState{"replay", save(self->state)}); },
      [self](const Stop&) { on_stop(self); },
  };
}

}  // namespace troupe
