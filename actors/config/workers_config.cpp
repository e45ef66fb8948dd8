#include "actors/config/workers_config.h"

namespace troupe {

void describe(WorkersConfig& c, Fields& fields) {
  const Section s(fields, "workers", "actors", Change::at_resume_unless_deterministic);
  s.add(c.count, "count", between(0, 4096),
        "rollout workers inside the trainer's process; 0 = all of them join over the network",
        {.elsewhere = kWords<"num_workers", "num_env_runners">});
  s.add(c.groups, "groups", between(1, 64),
        "vector environments per worker: one steps while another waits for its actions; token runs: prompts on which a "
        "worker waits at a time");
  s.add(c.quarantine_after, "quarantine_after", between(1, 1e6),
        "failures in a row after which a sub-environment is in quarantine: its worker does not step it again",
        {.needs = {kOnlyControlRuns}});
  s.add(c.restart_backoff, "restart_backoff_ms", between(0, 600'000),
        "pause after a failure of a sub-environment, doubled with each further failure in a row",
        {.needs = {kOnlyControlRuns, {.condition = is_at_least("workers.quarantine_after", 2)}}});
  s.add(c.failure_timeout, "failure_timeout_ms", between(0, 86'400'000),
        "the run ends when every environment has failed for this long without one step; 0 = never");
  s.add(c.credit_timeout, "credit_timeout_ms", between(0, 86'400'000),
        "a worker that may sample and makes no step for this long, or for four times the longest time that any worker "
        "has needed so far, must let others sample in its place; 0 = never",
        {.needs = {{.condition = is_false("deterministic"), .refused = false}}});
}

}  // namespace troupe
