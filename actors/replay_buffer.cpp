#include "actors/replay_buffer.h"

#include <utility>

#include <caf/event_based_actor.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "runtime/caf_system.h"
#include "runtime/log.h"

namespace troupe {

namespace {

using Self = ReplayActor::stateful_pointer<ReplayState>;

constexpr std::chrono::milliseconds kReportInterval{500};
constexpr std::chrono::seconds kLastWords{3};  // how long the end waits for workers to say what they leave

void grant(Self self) {
  for (const CreditGrant& granted : self->state.store->grant())
    self->send(self->state.workers.at(granted.worker), Credits{granted.count});
}

void serve(Self self) {
  auto& st = self->state;
  if (st.prefetcher) {
    if (std::optional<SuperBatch> batch = st.store->sample()) {
      st.lags.insert(st.lags.end(), st.store->last_lags().begin(), st.store->last_lags().end());
      auto to = caf::actor_cast<PrefetcherActor>(st.prefetcher);
      st.prefetcher = nullptr;
      self->send(to, BatchMessage{std::make_shared<const SuperBatch>(std::move(*batch))});
    }
  }
  grant(self);
}

Ledger checked_ledger(const ReplayStore& store) {
  const Ledger ledger = store.ledger();
  TROUPE_CHECK(ledger.balances(), ledger.text());
  TROUPE_CHECK(ledger.waiting == store.count_waiting(), ledger.text(), store.count_waiting());
  return ledger;
}

void report(Self self) {
  auto& st = self->state;
  self->send(st.stats, ReplayReport{checked_ledger(*st.store), st.store->env_steps(), st.store->credits_outstanding(),
                                    st.workers.size(), st.store->mean_reuse(), std::move(st.lags)});
  st.lags.clear();
}

// The last report: exact, because every worker that stops in order says before what it leaves.
void finish(Self self) {
  report(self);
  self->quit();
}

void on_down(Self self, const caf::down_msg& down) {
  auto& st = self->state;
  const caf::actor_addr& source = down.source;
  st.parts.forget(source);
  if (const auto it = st.worker_of.find(source); it != st.worker_of.end()) {
    st.store->leave(it->second, /*in_order=*/st.training_ended || !down.reason);
    st.workers.erase(it->second);
    st.worker_of.erase(it);
    if (st.stopping && st.workers.empty()) return finish(self);
  }
  if (const auto it = st.receiver_of.find(source); it != st.receiver_of.end()) {
    st.store->receiver_gone(it->second);
    st.receiver_of.erase(it);
  }
  serve(self);
}

void on_hello(Self self, const WorkerHello& hello) {
  auto& st = self->state;
  if (!self->current_sender()) return;  // its connection is lost already
  auto worker = caf::actor_cast<CreditHolder>(self->current_sender());
  st.store->join(hello.worker, hello.groups, hello.samples_per_rollout);
  st.workers[hello.worker] = worker;
  st.worker_of[worker.address()] = hello.worker;
  self->monitor(worker);
  serve(self);
}

std::string save(const ReplayState& st) {
  TROUPE_CHECK(st.lags.empty() && !st.prefetcher, st.lags.size());
  return st.store->save();
}

// The books after the updates that the checkpoint holds: the trainer's word of each came before it. A deterministic checkpoint
// keeps the trainer's count of steps, because it also holds what workers have made since.
void on_checkpoint(Self self, CheckpointMessage message) {
  auto& st = self->state;
  message.ledger = checked_ledger(*st.store);
  if (!st.in_turns) message.env_steps = st.store->env_steps();
  if (message.last) {
    st.training_ended = true;
    message.ledger.left_over += std::exchange(message.ledger.waiting, 0);  // nobody will use it any more
  }
  self->send(st.recorder, std::move(message));
}

void on_stop(Self self) {
  auto& st = self->state;
  st.stopping = true;
  if (st.workers.empty()) return finish(self);
  self->delayed_send(self, kLastWords, due_atom_v);
}

// Workers that have not said a last word are taken at the one before.
void give_up_waiting(Self self) {
  auto& st = self->state;
  for (const auto& [id, worker] : st.workers) st.store->leave(id, /*in_order=*/true);
  finish(self);
}

void on_rollout(Self self, const RolloutMessage& message) {
  self->state.store->push(message.rollout);
  serve(self);
}

// A worker that sends nonsense loses it; replay goes on.
void on_part(Self self, const Part& part) {
  try {
    if (const auto whole = self->state.parts.add(self->current_sender()->address(), part))
      on_rollout(self, deserialize<RolloutMessage>(self->system(), *whole));
  } catch (const std::exception& e) {
    log_warn("replay", e.what());
  }
}

}  // namespace

ReplayActor::behavior_type replay_buffer(Self self, WiringPtr wiring, ReplayStart start, StatsActor stats,
                                         RecorderActor recorder) {
  guard(self);
  auto& st = self->state;
  const RunConfig& config = wiring->config;
  st.store.emplace(config.replay, static_cast<uint64_t>(config.trainer.super_batch), start.version, config.seed,
                   start.ledger, start.env_steps);
  st.in_turns = wiring->in_turns;
  st.stats = stats;
  st.recorder = recorder;
  if (const std::string* state = wiring->state_of("replay")) restoring([&] { st.store->load(*state); });
  self->set_down_handler([self](const caf::down_msg& down) { on_down(self, down); });
  beat_after(self, *wiring, kReportInterval);
  return {
      [self](const WorkerHello& hello) { on_hello(self, hello); },
      [self](const RolloutMessage& message) { on_rollout(self, message); },
      [self](const Part& part) { on_part(self, part); },
      [self](const WorkerReport& worker) {
        self->state.store->progress(worker.worker, worker.partial_samples, worker.partial_env_steps);
      },
      [self](const Applied& applied) {
        auto& st = self->state;
        if (!self->current_sender() || st.gone.contains(applied.receiver)) return;
        if (st.receiver_of.try_emplace(self->current_sender()->address(), applied.receiver).second)
          self->monitor(caf::actor_cast<caf::actor>(self->current_sender()));
        st.store->applied(applied.receiver, applied.version);
        serve(self);
      },
      [self](next_atom) {
        self->state.prefetcher = self->current_sender();
        serve(self);
      },
      [self](const ReceiverGone& gone) {
        auto& st = self->state;
        st.gone.insert(gone.receiver);
        st.store->receiver_gone(gone.receiver);
        serve(self);
      },
      [self](const UpdateMessage& update) {
        if (update.applied) {
          self->state.store->trained(update.index);
        } else {
          self->state.store->failed(update.index);
        }
      },
      [self](const CheckpointMessage& message) { on_checkpoint(self, message); },
      [self](due_atom) { give_up_waiting(self); },
      [self, wiring](beat_atom) {
        report(self);
        beat_after(self, *wiring, kReportInterval);
      },
      [self](const SaveMessage& message) { self->send(message.recorder, ActorState{"replay", save(self->state)}); },
      [self](const Stop&) { on_stop(self); },
  };
}

}  // namespace troupe
