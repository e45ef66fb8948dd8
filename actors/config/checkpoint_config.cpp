#include "actors/config/checkpoint_config.h"

namespace troupe {

void describe(CheckpointConfig& c, Fields& fields) {
  const Section s(fields, "checkpoint", "actors", Change::at_resume);
  s.add(
      c.every_updates, "every_updates", between(0, kMostCount),
      "updates between checkpoints; 0 = only at the end. Training waits while one is due and another is being written",
      {.elsewhere = kWords<"save_freq">});
  s.add(c.keep, "keep", between(0, 1e6), "how many of the newest checkpoints are kept; 0 = all");
  s.add(c.keep_best, "keep_best", between(0, 1000),
        "how many of the best-scoring checkpoints are kept in addition to the newest ones; 0 = none. Above 0, every "
        "evaluated policy is saved: one every evaluation.every_updates updates, and the last one",
        {.elsewhere = kWords<"save_top_k">});
}

}  // namespace troupe
