#include "actors/config/inference_config.h"

#include "models/devices.h"

namespace troupe {

void describe(InferenceConfig& c, Fields& fields) {
  const Section s(fields, "inference", "actors", Change::at_resume_unless_deterministic);
  s.add(c.count, "count", between(0, 256),
        "inference actors inside the trainer's process; 0 = all of them join over the network");
  s.add(c.batch_size, "batch_size", between(1, 65536), "a batch is computed as soon as it has this many rows",
        {.needs = {kOnlyControlRuns}});
  s.add(c.max_batch, "max_batch", between(1, 65536), "most rows of one batch", {.needs = {kOnlyControlRuns}});
  s.add(c.timeout, "timeout_us", between(0, 10'000'000),
        "a smaller batch is computed when its oldest request is this old",
        {.needs = {kOnlyControlRuns, {.condition = is_false("deterministic"), .refused = false}}});
  s.add(c.threads, "threads", between(1, 1024), "CPU threads of one forward pass");
  s.add(c.device, "device", device_name_or_auto(),
        "device that inference computes on; auto = trainer.device; in a process that does not have that device, its "
        "first GPU, or the CPU if it has none");
}

}  // namespace troupe
