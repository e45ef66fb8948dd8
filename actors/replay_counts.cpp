#include "actors/replay_counts.h"

#include <utility>

#include <caf/event_based_actor.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "runtime/caf/system.h"

namespace troupe {

namespace {

// The last checkpoint waits for the final counts. If that takes longer than this, it is also written at once.
constexpr std::chrono::milliseconds kCheckpointWaits{300};
constexpr uint64_t kMostRecounted = 20'000;  // units

Ledger balanced_ledger(const ReplayShards& store) {
  const Ledger ledger = store.ledger();
  TROUPE_CHECK(ledger.balances(), ledger.text());
  return ledger;
}

// As balanced_ledger(), but also counts the stored samples and compares. That takes longer the more there are, so it is
// not done with many of them.
Ledger recounted_ledger(const ReplayShards& store) {
  const Ledger ledger = balanced_ledger(store);
  if (store.stored_units() > kMostRecounted) return ledger;
  TROUPE_CHECK(ledger.waiting == store.count_waiting(), ledger.text(), store.count_waiting());
  return ledger;
}

}  // namespace

void recount(const ReplayShards& store) { recounted_ledger(store); }

void report(ReplaySelf self, std::optional<UpdateMessage> update) {
  auto& st = self->state;
  ReplayReport report;
  report.ledger = balanced_ledger(*st.store);
  report.env_steps = st.store->env_steps();
  report.training_ended = st.training_ended || st.stopping;
  report.workers = report.training_ended ? st.workers_at_end : st.workers.size();
  report.workers_total = st.seen.size();
  report.uncounted = st.store->uncounted_at_most();
  report.reuse = st.store->mean_reuse();
  report.busy_us = self->busy_us();
  report.late_wait_seconds = st.store->late_wait_seconds(self->clock().now().time_since_epoch());
  report.tokens = st.store->token_figures();
  report.lags = std::exchange(st.lags, {});
  report.episodes = st.store->take_episodes();
  report.update = std::move(update);
  self->send(st.stats, std::move(report));
}

// They include every update that the checkpoint contains, because the trainer sends the
// checkpoint after its updates.
void send_checkpoint(ReplaySelf self, CheckpointMessage message) {
  auto& st = self->state;
  message.ledger = recounted_ledger(*st.store);
  message.env_steps = st.store->env_steps();
  message.uncounted = st.store->uncounted_at_most();
  self->send(st.stats, std::move(message));
}

void close_counts(ReplaySelf self) {
  auto& st = self->state;
  st.store->close();
  report(self);
  if (st.last_checkpoint) send_checkpoint(self, std::move(*st.last_checkpoint));
  st.last_checkpoint.reset();
  if (st.stopping) self->quit();
}

void await_workers(ReplaySelf self) {
  auto& st = self->state;
  if (st.store->closed()) return;
  if (st.workers.empty()) return close_counts(self);
  if (!st.give_up_at) st.give_up_at = self->clock().now() + kFarewell;
  self->delayed_send(self, kCheckpointWaits, due_atom_v);
}

void on_due(ReplaySelf self) {
  auto& st = self->state;
  if (st.store->closed()) return;
  const auto now = self->clock().now();
  if (now < *st.give_up_at) {
    if (st.last_checkpoint && !std::exchange(st.checkpoint_copied, true)) {
      CheckpointMessage copy = *st.last_checkpoint;
      copy.last = false;
      send_checkpoint(self, std::move(copy));
    }
    self->delayed_send(self, *st.give_up_at - now, due_atom_v);
    return;
  }
  for (const auto& [id, worker] : st.workers) st.store->leave(id, /*in_order=*/true);
  st.workers.clear();
  st.worker_of.clear();
  close_counts(self);
}

}  // namespace troupe
