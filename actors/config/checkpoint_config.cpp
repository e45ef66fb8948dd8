#include "actors/config/checkpoint_config.h"

namespace troupe {

void describe(CheckpointConfig& c, Fields& fields) {
  const Section s(fields, "checkpoint", "actors", Change::at_resume);
  s.add(c.every_updates, "every_updates", between(0, kMostCount), "updates between checkpoints; 0 = only at the end");
  s.add(c.keep, "keep", between(0, 1e6), "newest checkpoints kept; 0 = all");
}

}  // namespace troupe
