#include "actors/config/checkpoint_config.h"

namespace troupe {

void describe(CheckpointConfig& c, Fields& fields) {
  const Section s(fields, "checkpoint", "actors", Change::at_resume);
  s.add(c.every_updates, "every_updates", between(0, kMostCount), "updates between checkpoints; 0 = only at the end",
        {.elsewhere = kWords<"save_freq">});
  s.add(c.keep, "keep", between(0, 1e6), "how many of the newest checkpoints are kept; 0 = all");
  s.add(c.keep_best, "keep_best", between(0, 1000),
        "how many of the best-scoring checkpoints to keep in addition to keep; every evaluated policy is then saved. "
        "Evaluations: every evaluation.every_updates, and at the end of the run",
        {.elsewhere = kWords<"save_top_k">});
}

}  // namespace troupe
