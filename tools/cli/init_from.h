#pragma once
// `troupe train --init-from`: where the weights that a new run begins from are, and whether a run that goes on began
// from them. Plain functions; main thread.

#include <optional>
#include <string>

#include "envs/env.h"
#include "models/networks/model_config.h"
#include "runtime/run_folder/safetensors.h"

namespace troupe {

// The weights that a run begins from. Their metadata says where they are from, so that the same command resumes the
// run.
using InitialWeights = Safetensors;

// What `init_from` leads to, for a run in the folder `run` with the model `model` for `env`: the newest checkpoint of a
// run folder, RUN/checkpoints/best, RUN/checkpoints/150, the folder of a checkpoint, or a .safetensors file. Nothing
// when `init_from` is empty or the run began from it: then it is not looked at again, unless the weights that the run
// keeps are damaged or missing before its first update. Throws ConfigError that begins with --init-from: nothing is
// there, it cannot be used, a tensor does not fit or meant something else in the run that trained it, or the run has
// checkpoints and began from something else.
std::optional<InitialWeights> read_init_from(const std::string& init_from, const std::string& run,
                                             const ModelConfig& model, const EnvSpec& env);

// The run turned out to have a checkpoint after all, one that a killed process was replacing. Throws ConfigError as
// read_init_from() does for a run with checkpoints.
[[noreturn]] void refuse_to_resume(const InitialWeights& given, const std::string& run);

// What --init-from was for the run whose config.json is at `config`; empty where the run began with new weights, or
// `config` is another run file.
std::string init_from_of_settings(const std::string& config);

// "the weights of runs/a/checkpoints/000000000245/model.safetensors", for the console and the log.
std::string initial_weights_text(const InitialWeights& weights);

}  // namespace troupe
