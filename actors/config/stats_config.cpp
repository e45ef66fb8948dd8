#include "actors/config/stats_config.h"

namespace troupe {

void describe(StatsConfig& c, Fields& fields) {
  const Section s(fields, "stats", "actors", Change::at_resume);
  s.add(c.interval, "interval_ms", between(10, 3'600'000), "time between reports",
        {.needs = {{.condition = is_false("deterministic"), .refused = false}}});
  s.add(c.every_updates, "every_updates", between(1, 1e9),
        "updates between reports of a deterministic run, which has no clock",
        {.needs = {{.condition = is_true("deterministic"), .instead = "use stats.interval_ms"}}});
  s.add(c.window, "window", between(1, 1e6),
        "episodes over which returns are averaged; token runs: answers, and at least trainer.super_batch of them");
  s.add(c.history, "history", between(1, 1e6),
        "newest snapshots kept for clients that ask for history; of older ones every 16th and every 256th is kept",
        {.needs = {{.condition = is_false("deterministic"), .refused = false}}});
}

}  // namespace troupe
