#include "actors/config/replay_config.h"

namespace troupe {

void describe(ReplayConfig& c, Fields& fields) {
  const Section s(fields, "replay", "actors");
  s.add(c.mode, "mode", one_of(kWords<"consume_once", "reuse">),
        "consume_once: each sample is used in exactly one update; reuse: bounded FIFO, drawn from repeatedly");
  s.add(c.draw, "draw", one_of(kWords<"column", "sample">),
        "what is drawn as one: column, rollout.length steps of one row; or sample, single steps, so that an update "
        "uses trainer.super_batch samples exactly");
  s.add(c.capacity, "capacity", between(0, kMostCount),
        "samples held at most; 0 = max_policy_lag + 2 super-batches, at most 16", {.elsewhere = kWords<"buffer_size">});
  s.add(c.max_policy_lag, "max_policy_lag", between(0, 1e6),
        "updates between the weights that made a sample and its use; 0 = synchronous on-policy",
        {.elsewhere = kWords<"max_staleness">});
  s.add(c.max_reuse, "max_reuse", between(1, 1e6),
        "updates that may use one sample, with mode reuse; a full buffer takes new samples at that pace (64 at most)");
}

}  // namespace troupe
