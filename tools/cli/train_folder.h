#pragma once
// What `troupe train` trains with, and in which folder. Any thread.

#include <string>

#include "actors/config/run_config.h"

namespace troupe {

struct TrainOptions;  // tools/cli/train_command.h

// The run folder of `troupe train`: --run if it is given; else CONFIG, if that is the folder of a run or the
// config.json in it; else runs/NAME (--name, or else the setting name). `config` is the result of load_run_config().
std::string run_folder_of(const TrainOptions& options, const RunConfig& config);

// The config that these flags train with. Unless it is set, trainer.shards is that of the run that is resumed, or in a
// new run the number of ranks; there are at least as many workers. Throws ConfigError.
RunConfig config_to_train(const TrainOptions& options);

// Throws ConfigError when the run folder of `troupe train` cannot be created because its path, or the beginning of it,
// is a file.
void require_room_for_folder(const TrainOptions& options, const RunConfig& config);

}  // namespace troupe
