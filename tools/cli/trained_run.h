#pragma once
// The policy of a run folder, for the commands that only read it. Works while `train` still writes the run.

#include <memory>
#include <string>
#include <vector>

#include "actors/run_context.h"
#include "models/heads/heads.h"
#include "models/policy.h"

namespace troupe {

struct TrainedRun {
  std::shared_ptr<RunContext> context;
  WeightsPtr weights;    // of the checkpoint
  WeightsPtr reference;  // of a run with one
  PolicyVersion version;
  uint64_t env_steps = 0;
  uint64_t warmup_steps = 0;
};

// `which` is as for load_checkpoint() (tools/cli/chosen_checkpoint.h), `moved` as for load_stored_config(). Computes on
// `device` or, if that is empty, on the device on which the run evaluates; on the CPU, with a warning, if this machine
// does not have it. Sets the number of compute threads of this thread to that of the run's inference. Logs checkpoints
// that cannot be used. Throws ConfigError: no such device, no run folder, no such checkpoint, none that can be used, or
// one that does not fit the config beside it.
TrainedRun load_trained_run(const std::string& folder, const std::string& which, const std::string& device,
                            const std::vector<std::string>& moved);

// Reads the reward model of the run, if it has one. Only who scores answers needs it. Throws ConfigError if it cannot
// be used, or is another one than that of the run in `folder`.
void read_reward_model(const TrainedRun& run, const std::string& folder);

// The error line for a policy that computes numbers that are not finite.
std::string not_finite_line(const std::string& folder, const std::string& which, const NotFinite& failure);

}  // namespace troupe
