#include "actors/prefetcher.h"

#include <algorithm>
#include <span>
#include <utility>

#include <caf/event_based_actor.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/rank_group.h"
#include "runtime/caf/system.h"

namespace troupe {

namespace {

using PrefetcherSelf = SelfPointer<PrefetcherActor, PrefetcherState>;

using StagedHolder = caf::typed_actor<caf::reacts_to<StagedMessage>>;

// Hands over the staged batch and keeps exactly one batch requested. A deterministic run requests only the batch that
// the trainer waits for, so that none is in transit when all actors are idle.
void pump(PrefetcherSelf self) {
  auto& st = self->state;
  if (!st.staged.empty() && st.trainer) {
    self->send(
        caf::actor_cast<StagedHolder>(st.trainer),
        StagedMessage{std::exchange(st.staged, {}), std::exchange(st.drawn, {}), st.env_steps, st.stage_seconds});
    st.trainer = nullptr;
  }
  if (st.staged.empty() && !st.asked && (st.trainer || !st.deterministic)) {
    st.asked = true;
    self->send(st.replay, next_atom_v);
  }
}

// The first ones, which rank 0 computes while no rank is missing.
std::span<const std::shared_ptr<const SuperBatch>> own_shards(const RunContext& context, const BatchMessage& message) {
  const auto ranks = static_cast<size_t>(context.config.trainer.ranks);
  return std::span(message.shards).first(shards_of_rank(0, ranks, message.shards.size()).count);
}

}  // namespace

PrefetcherActor::behavior_type prefetcher(PrefetcherSelf self, RunContextPtr context,
                                          std::shared_ptr<const Stager> stager, ReplayActor replay) {
  begin_actor(self, *context);
  self->state.stager = std::move(stager);
  self->state.replay = replay;
  self->state.deterministic = context->deterministic;
  return {
      [self](next_atom) {
        self->state.trainer = self->current_sender();
        pump(self);
      },
      [self, context](const BatchMessage& message) {
        auto& st = self->state;
        if (!st.threads_set) context->use_threads(1);
        st.threads_set = true;
        st.asked = false;
        const auto begin = self->clock().now();
        double copied = 0;
        for (const auto& shard : own_shards(*context, message)) {
          st.staged.push_back(st.stager->stage(*shard));
          copied += st.staged.back()->stages.copy;
        }
        if (context->config.trainer.ranks > 1) st.drawn = message.shards;
        st.stage_seconds = std::chrono::duration<double>(self->clock().now() - begin).count();
        UpdateStages& stages = st.staged.front()->stages;  // of all shards
        stages.copy = copied;
        stages.draw = message.draw_seconds;
        stages.collate = std::max(st.stage_seconds - copied, 0.0);
        st.env_steps = message.shards.front()->env_steps;
        pump(self);
      },
      [self](const Stop&) { self->quit(); },
  };
}

}  // namespace troupe
