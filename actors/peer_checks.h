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
#include "actors/token_run.h"
#include "envs/env.h"
#include "models/learning/recurrence.h"

namespace troupe {

struct RunContext;

// One line when the message does not fit; nothing when it does.
std::optional<std::string> misfit(const RunConfig& config, const WorkerHello& hello);
std::optional<std::string> misfit(const RunConfig& config, const EnvSpec& spec, const WorkerReport& report);
// `newest` is the newest version that samples can come from.
std::optional<std::string> misfit(const RunConfig& config, const EnvSpec& spec, const Recurrence& recurrence,
                                  PolicyVersion newest, const Rollout& rollout);
std::optional<std::string> misfit(const InferenceReport& report);
std::optional<std::string> misfit(const EnvSpec& spec, const Recurrence& recurrence, const ActRequest& request);
// `reply` is without a fault.
std::optional<std::string> misfit(const RunConfig& config, const EnvSpec& spec, const Recurrence& recurrence,
                                  const ActRequest& request, const ActReply& reply);

// Token runs.
std::optional<std::string> misfit(const RunConfig& config, const TokenRun& tokens, const GenerateRequest& request);
// `reply` is without a fault.
std::optional<std::string> misfit(const TokenRun& tokens, const GenerateRequest& request, const GenerateReply& reply);
std::optional<std::string> misfit(const RunConfig& config, const TokenRun& tokens, PolicyVersion newest,
                                  const Rollout& rollout);

// A rollout of either kind of run.
std::optional<std::string> misfit(const RunContext& context, PolicyVersion newest, const Rollout& rollout);
size_t most_bytes_of_rollout(const RunContext& context);

// Rows of a request of which only the values are needed.
int64_t value_rows(const ActRequest& request);

// Workers state their own number, inference actors their inference index. Who has which one.
using NumberHolders = std::map<caf::actor_addr, uint64_t>;
// Whether the sender may not have that number: it has another one, or another actor has it.
bool is_taken(const NumberHolders& holders, const caf::actor_addr& sender, uint64_t number);

// Bytes on the wire that no rollout, request, reply and report of a worker of the run exceeds.
size_t most_bytes_of_rollout(const RunConfig& config, const EnvSpec& spec, const Recurrence& recurrence);
size_t most_bytes_of_request(const RunConfig& config, const EnvSpec& spec, const Recurrence& recurrence);
size_t most_bytes_of_reply(const RunConfig& config, const EnvSpec& spec, const Recurrence& recurrence);
size_t most_bytes_of_report(const RunConfig& config);
size_t most_bytes_of_rollout(const RunConfig& config, const TokenRun& tokens);
size_t most_bytes_of_request(const RunConfig& config, const TokenRun& tokens);
size_t most_bytes_of_reply(const RunConfig& config, const TokenRun& tokens);

}  // namespace troupe
