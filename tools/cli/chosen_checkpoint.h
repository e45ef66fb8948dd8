#pragma once
// The checkpoint of a run that a command uses. Plain functions; main thread. Works while `train` still writes the run.

#include <cstdint>
#include <optional>
#include <string>

#include "actors/config/run_config.h"
#include "runtime/run_folder/checkpoint.h"
#include "tools/cli/flags.h"

namespace troupe {

struct ChosenCheckpoint {
  Checkpoint checkpoint;
  std::string path;  // its folder
};

// --checkpoint: newest, best or a number of updates.
void add_checkpoint_flag(Flags& flags, std::string& into);

// The checkpoint of the run in the folder `run`, whose config is `config`: `which` is newest (the newest that can be
// used; others are named in the log), best, or a number of updates. `weight_bytes` limits the size of what is read,
// as CheckpointStore::expect_weights() does. Throws ConfigError when there is no such checkpoint or it cannot be used.
ChosenCheckpoint load_checkpoint(const std::string& run, const RunConfig& config, const std::string& which,
                                 std::optional<uint64_t> weight_bytes = {});

// How far its weights are trained: "12 updates", or "0 updates and 1,064 steps of the warm-up".
std::string trained_text(uint64_t updates, uint64_t warmup_steps);
uint64_t warmup_steps_of(const Checkpoint& checkpoint);

}  // namespace troupe
