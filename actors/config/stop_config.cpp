#include "actors/config/stop_config.h"

namespace troupe {

void describe(StopConfig& c, Fields& fields) {
  const Section s(fields, "stop", "actors", Change::at_resume);
  s.add(c.env_steps, "env_steps", between(0, 1e15),
        "environment steps (token runs: answers) after which the run ends; 0 = no limit",
        {.elsewhere = kWords<"total_timesteps", "total_steps">});
  s.add(c.updates, "updates", between(0, kMostCount), "updates after which the run ends; 0 = no limit");
  s.add(c.seconds, "seconds", between(0, 1e9),
        "seconds of training after which the run ends, without the warm-up of a token run, counted from 0 at each "
        "resume; "
        "0 = no limit");
  s.add(c.eval_return, "eval_return", between(-1e12, 1e12),
        "the run ends when an evaluation during training reaches this mean return (token runs: share of right "
        "answers); 0 = off");
  s.add(c.after_warmup, "after_warmup", anything(), "the run ends when its warm-up is over, before the first update",
        {.needs = {kOnlyTokenRuns, {.condition = is_at_least("warmup.steps", 1)}}});
  s.add(c.on_collapse, "on_collapse", anything(),
        "the run ends when an alarm of level `error` is raised: `return_collapse`, `kl_extreme` or `non_finite`; one "
        "that was raised before a resume does not count");
}

}  // namespace troupe
