#include "actors/config/rollout_config.h"

namespace troupe {

void describe(RolloutConfig& c, Fields& fields) {
  const Section s(fields, "rollout", "actors", Change::never, {kOnlyControlRuns});
  s.add(c.length, "length", between(1, 65536), "decisions (actions) per row in one rollout (T)",
        {.elsewhere = kWords<"num_steps", "n_steps", "horizon">});
}

}  // namespace troupe
