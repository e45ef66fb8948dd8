#pragma once
// `troupe train --init-from`: finds the weights with which a new run begins, and checks that a resumed run began with
// them. Plain functions; main thread.

#include <optional>
#include <string>

#include "envs/env.h"
#include "models/networks/model_config.h"
#include "runtime/run_folder/safetensors.h"

namespace troupe {

struct RunContext;

// The weights with which a run begins. Their metadata names their source, so that the same command can resume the run.
using InitialWeights = Safetensors;

// The model that begins with the weights.
struct InitTarget {
  const ModelConfig& model;
  const EnvSpec& env;
  const RunContext* tokens = nullptr;  // of a token run, with its model
};

// The weights in `init_from`, for a run in the folder `run`. `init_from` is a run folder (its newest checkpoint),
// RUN/checkpoints/best, RUN/checkpoints/150, the folder of a checkpoint, or a .safetensors file; for a token run also a
// folder with a model as transformers, or with adapters as PEFT writes it. Nothing when `init_from` is empty or the run
// began with it: then it is not read again, unless the copy that the run keeps is damaged or missing before the first
// update. A critic of a language model that is not the run's is left out. Throws ConfigError that begins with
// --init-from: the source does not exist or cannot be used, a tensor does not fit or had another meaning in the run
// that trained it, or the run has checkpoints and began with other weights.
std::optional<InitialWeights> read_init_from(const std::string& init_from, const std::string& run,
                                             const InitTarget& target);

// For a run in which recovery found a checkpoint, one that a killed process was replacing. Throws the ConfigError that
// read_init_from() throws for a run with checkpoints.
[[noreturn]] void refuse_to_resume(const InitialWeights& given, const std::string& run);

// The value of --init-from with which the run began whose config.json is `config`. Empty if it began with new weights,
// or if `config` is another config file.
std::string init_from_of_settings(const std::string& config);

// "the weights of runs/a/checkpoints/000000000245/model.safetensors", for the console and the log.
std::string initial_weights_text(const InitialWeights& weights);

}  // namespace troupe
