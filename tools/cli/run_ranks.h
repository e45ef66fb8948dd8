#pragma once
// The other ranks of a run, as the process of rank 0 deals with them: it starts them, or a launcher has. Used by the
// main thread of `troupe train`.

#include <cstdint>
#include <optional>
#include <string>

#include "actors/config/run_config.h"
#include "tools/cli/address.h"
#include "tools/cli/child_processes.h"
#include "tools/cli/join_listener.h"
#include "tools/cli/launcher.h"
#include "tools/cli/stop_signals.h"
#include "tools/cli/train_command.h"

namespace troupe {

// The flags of the same run without a launcher: with its number of ranks, and with the address on which rank 0 listens.
TrainOptions options_of_launch(TrainOptions options, const Launch& launch);

// The config of the same command line as another rank than 0, as JSON; empty if its CONFIG is not on this machine.
// Throws ConfigError.
std::string config_of_rank(const TrainOptions& options, const Launch& launch);

// Starts the other ranks, which join the run that listens at `run`.
void start_ranks(std::optional<ChildProcesses>& ranks, const Address& run, int64_t count);

// Says in the log and on the console which rank this is, and where the others find it.
void announce_launch(const Launch& launch);

// Tells the ranks that a launcher has started with this one that the run is finished, and waits until they have ended,
// for at most kLaunchWait. Returns the exit code.
int tell_finished(JoinListener& listener, const Launch& launch, StopSignals& signals);

// The line with which the run is resumed.
std::string resume_line(const std::optional<Launch>& launch);

}  // namespace troupe
