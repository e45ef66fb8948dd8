#pragma once
// Whether what a peer sent fits the run. Replay and stats end the run when they fail, so a message of another process is checked
// before it is used: one that does not fit is dropped with a warning. Pure functions.

#include <optional>
#include <string>

#include "actors/messages.h"
#include "envs/env.h"
#include "runtime/run_config.h"

namespace troupe {

// One line when the message does not fit; nothing when it does.
std::optional<std::string> misfit(const RunConfig& config, const WorkerHello& hello);
std::optional<std::string> misfit(const RunConfig& config, const EnvSpec& spec, const WorkerReport& report);
// `newest` is the newest version that samples can come from.
std::optional<std::string> misfit(const RunConfig& config, const EnvSpec& spec, PolicyVersion newest,
                                  const Rollout& rollout);
std::optional<std::string> misfit(const InferenceReport& report);

// Bytes on the wire that no rollout and no request of the run exceeds.
size_t most_bytes_of_rollout(const RunConfig& config, const EnvSpec& spec);
size_t most_bytes_of_request(const RunConfig& config, const EnvSpec& spec);

}  // namespace troupe
