#include "actors/config/inference_config.h"

#include "models/devices.h"

namespace troupe {

void describe(InferenceConfig& c, Fields& fields) {
  const Section s(fields, "inference", "actors", Change::at_resume_unless_deterministic);
  s.add(c.count, "count", between(0, 256),
        "inference actors inside the trainer's process; 0 = all of them join over the network");
  s.add(c.batch_size, "batch_size", between(1, 65536), "rows at which a batch leaves at once");
  s.add(c.max_batch, "max_batch", between(1, 65536), "rows no batch exceeds");
  s.add(c.timeout, "timeout_us", between(0, 10'000'000), "age of the oldest request at which a batch leaves");
  s.add(c.threads, "threads", between(1, 1024), "compute threads of one forward");
  s.add(
      c.device, "device", device_name_or_auto(),
      "where inference computes; auto = on trainer.device, in a process without it on its first GPU, else on the CPU");
}

}  // namespace troupe
