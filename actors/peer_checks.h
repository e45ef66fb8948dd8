#pragma once
// Whether what a peer sent fits the run. Replay and stats end the run when they fail, so a message of another process
// is checked before it is used. Pure functions.

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include <caf/actor_addr.hpp>

#include "actors/config/run_config.h"
#include "actors/messages.h"
#include "envs/env.h"

namespace troupe {

// One line when the message does not fit; nothing when it does.
std::optional<std::string> misfit(const RunConfig& config, const WorkerHello& hello);
std::optional<std::string> misfit(const RunConfig& config, const EnvSpec& spec, const WorkerReport& report);
std::optional<std::string> misfit(const InferenceReport& report);

// Workers state their own number, inference actors their inference index. Who has which one.
using NumberHolders = std::map<caf::actor_addr, uint64_t>;
// Whether the sender may not have that number: it has another one, or another actor has it.
bool is_taken(const NumberHolders& holders, const caf::actor_addr& sender, uint64_t number);

// Bytes on the wire that no report of a worker of the run exceeds.
size_t most_bytes_of_report(const RunConfig& config);

}  // namespace troupe
