#pragma once
// Whether a run fits this program and this machine, judged before anything starts. Pure functions; any thread.

#include <cstdint>
#include <string>
#include <vector>

#include "actors/config/run_config.h"
#include "envs/env.h"

namespace troupe {

struct Machine {
  uint64_t processors = 0;
  uint64_t memory = 0;  // bytes that a process can still take

  // The one this program runs on.
  static Machine here();
};

// Which devices of the config this build cannot use, in one line that begins with the first setting; empty when
// there is none. The run file may be meant for another machine.
std::string devices_missing_in_build(const RunConfig& config);
// Throws ConfigError, which begins with `setting`, when it names a device that this build cannot use.
void require_device_of_build(const std::string& setting, const std::string& device);

// Why the run cannot have the memory it needs, beginning with the setting that takes most of it; empty when it fits.
std::string memory_shortage(const RunConfig& config, const EnvSpec& env, const Machine& machine);

// Bytes that the run needs at least.
uint64_t memory_needed(const RunConfig& config, const EnvSpec& env);

// What is likely a mistake on this machine, but may work: one line each, beginning with the setting.
std::vector<std::string> machine_warnings(const RunConfig& config, const EnvSpec& env, const Machine& machine);

// The threads that `troupe train` starts with this config, beside those it has when it has read it, and a few more:
// LibTorch has threads of its own, and others send weights once an inference process joins.
size_t threads_needed(const RunConfig& config);

}  // namespace troupe
