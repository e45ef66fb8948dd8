#pragma once
// What every actor of a run is built from: the config and the factories. Constant once made; shared by all actors of a
// process. The command line fills it with the real parts, tests and the simulator with theirs.

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "envs/env.h"
#include "models/policy.h"
#include "runtime/process_group.h"
#include "runtime/run_config.h"

namespace troupe {

struct Wiring {
  RunConfig config;
  EnvSpec spec;
  std::function<std::unique_ptr<Env>(const EnvConfig&)> make_env;
  // Empty in a process that only hosts workers.
  std::function<std::unique_ptr<Policy>()> make_policy;
  // Called on the thread of an actor that computes, before it does, with the number of compute threads it may use.
  std::function<void(int)> use_threads = [](int) {};
  // A backend for the weight plane whose members reach this process by `address`. Empty where there can be no weight plane to other
  // processes.
  std::function<std::shared_ptr<GroupBackend>(const std::string& address)> make_group_backend;
  // The address by which other processes reach this one; empty = the one by which the first of them came.
  std::string network_address;
  // Detached actors get threads of their own; false puts every actor on the system's scheduler (deterministic, simulated).
  bool threads = true;
  // When the process began, for reports; nothing = when the run's actors do.
  std::optional<std::chrono::steady_clock::time_point> started;
};

using WiringPtr = std::shared_ptr<const Wiring>;

}  // namespace troupe
