#pragma once
// The policy of a run folder, for the commands that only read it. Works beside a `train` that is still going on.

#include <memory>
#include <string>

#include "actors/run_context.h"
#include "models/heads/heads.h"
#include "models/policy.h"

namespace troupe {

struct TrainedRun {
  std::shared_ptr<const RunContext> context;
  std::unique_ptr<Policy> policy;  // with the weights of the checkpoint
  PolicyVersion version;
  uint64_t env_steps = 0;
};

// `which` checkpoint is one of load_checkpoint() (tools/cli/chosen_checkpoint.h). Computes on `device`, or, if that is
// empty, where the run evaluates; on the CPU, with a warning, where this machine has no such device. Sets this thread's
// compute threads as the run's inference has them. Names checkpoints that cannot be used in the log. Throws
// ConfigError: no such device, no run folder, no such checkpoint, none that can be used, or one that does not fit the
// config beside it.
TrainedRun load_trained_run(const std::string& folder, const std::string& which, const std::string& device);

// The line for the user where that policy computes numbers that are not finite.
std::string not_finite_line(const std::string& folder, const std::string& which, const NotFinite& failure);

}  // namespace troupe
