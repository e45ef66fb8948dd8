#include "actors/config/replay_config.h"

namespace troupe {

void describe(ReplayConfig& c, Fields& fields) {
  const Section s(fields, "replay", "actors");
  s.add(c.mode, "mode", one_of(kWords<"consume_once", "reuse">),
        "consume_once: each sample is used in at most one update; reuse: a bounded FIFO buffer, from which samples are "
        "drawn repeatedly");
  s.add(c.draw, "draw", one_of(kWords<"column", "sample">),
        "column: the rollout.length steps of a row are drawn together; sample: single steps are drawn, so that an "
        "update uses exactly trainer.super_batch samples. sample is refused with recurrent models, "
        "algorithm.rollout_correction, and estimators, surrogates and aggregations that need whole columns (vtrace, "
        "gspo, ...)",
        {.needs = {kOnlyControlRuns}});
  s.add(c.capacity, "capacity", between(0, kMostCount),
        "most samples in the buffer; 0 = as many as max_policy_lag + 2 super-batches hold, but not more than 16 "
        "super-batches",
        {.elsewhere = kWords<"buffer_size">});
  s.add(c.max_policy_lag, "max_policy_lag", between(0, 1e6),
        "the lag cap: most updates between the policy that chose an action and the one that is trained on it; 0 = "
        "synchronous, on-policy",
        {.elsewhere = kWords<"max_staleness", "max_head_offpolicyness">});
  s.add(c.max_reuse, "max_reuse", between(1, 1e6),
        "most updates that use one sample; a full buffer takes new samples as fast as updates use up old "
        "ones, as if this were at most 64",
        {.needs = {{.condition = is("replay.mode", kWords<"reuse">)}}});
  s.add(
      c.late, "late", one_of(kWords<"auto", "wait", "mask", "drop">),
      "what happens with rollouts and answers that take so long that they could exceed the lag "
      "cap. wait: the last update that may use them waits for them, so that nothing is lost and the slowest worker "
      "sets the pace; mask: token runs: updates do not wait, and train on a late answer without its tokens that exceed "
      "the lag cap; drop: updates do not wait, and what exceeds the lag cap is dropped as a whole; auto: wait in "
      "token runs, whose long answers would be lost, drop in others",
      {.change = Change::at_resume, .needs = {{.condition = is("replay.mode", kWords<"consume_once">)}}});
  s.add(c.filter_groups, "filter_groups", anything(),
        "groups whose answers all have the same reward are not trained on: they have no advantage with "
        "estimators that compare answers of a group; after 10 super-batches of such answers in a row, they are trained "
        "like others, so that a run always ends",
        {.elsewhere = kWords<"dynamic_sampling", "dynamic_filtering">, .needs = {kOnlyTokenRuns}});
}

}  // namespace troupe
