#pragma once
// Whether this program and this machine can hold a run, checked before anything starts. Pure functions; any thread.

#include <cstdint>
#include <string>
#include <vector>

#include "actors/config/run_config.h"
#include "envs/env.h"

namespace troupe {

struct Machine {
  uint64_t processors = 0;
  uint64_t memory = 0;     // bytes that are still available to a process
  bool by_ulimit = false;  // `ulimit -v` leaves less than the machine has

  // The one this program runs on.
  static Machine here();
};

// The devices of the config that this build cannot use, or NCCL, in one line that begins with the first setting; empty
// if there are none. The config file may be meant for another machine.
std::string devices_missing_in_build(const RunConfig& config);
// Throws ConfigError, which begins with `setting`, when it names a device that this build cannot use.
void require_device_of_build(const std::string& setting, const std::string& device);

// Why the memory is too small for the run, beginning with the setting that needs most of it; empty if it is enough.
std::string memory_shortage(const RunConfig& config, const EnvSpec& env, const Machine& machine);

// The memory that the settings of the run need, in bytes: without the program itself.
uint64_t memory_needed(const RunConfig& config, const EnvSpec& env);

// The same with the program.
uint64_t estimated_memory(const RunConfig& config, const EnvSpec& env);

// "about 3.2 GB, 2.2 GB of it for weights, gradients and moments of the trainer (model.path: /models/small)".
std::string memory_summary(const RunConfig& config, const EnvSpec& env);
// All that the memory is for, the largest first: one line each, with the setting that determines it.
std::string memory_table(const RunConfig& config, const EnvSpec& env);

// Settings that are probably a mistake, in any run or on this machine, but may work: one line each, beginning with the
// setting.
std::vector<std::string> probable_mistakes(const RunConfig& config, const EnvSpec& env, const Machine& machine);

// The number of threads that `troupe train` starts after it has read this config, and a few more: LibTorch starts
// threads, and others send weights once an inference process joins.
size_t threads_needed(const RunConfig& config);

}  // namespace troupe
