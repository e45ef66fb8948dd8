#pragma once
// What every actor of a run is built from: the config and the factories. Constant once made; shared by all actors of a
// process. The command line fills it with the real factories, tests and the simulator with theirs.

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "actors/config/run_config.h"
#include "actors/messages.h"
#include "envs/env.h"
#include "models/policy.h"
#include "models/recurrence.h"
#include "runtime/weights/process_group.h"

namespace troupe {

struct RunContext {
  RunConfig config;
  EnvSpec spec;
  Recurrence recurrence;
  std::function<std::unique_ptr<Env>(const EnvConfig&)> make_env;
  // That many rows for an evaluation. Empty in a process that only hosts workers.
  std::function<std::unique_ptr<Env>(int64_t rows)> make_evaluation_env;
  // Of the run's model, for the inference host, which shows it to the run. Empty in a process that only hosts workers.
  std::shared_ptr<const Signature> signature;
  // Empty in a process that only hosts workers.
  std::function<std::unique_ptr<Policy>()> make_policy;
  // The same for evaluations, which may compute on another device. Empty: make_policy makes these too.
  std::function<std::unique_ptr<Policy>()> make_evaluation_policy;
  // Called on the thread of an actor that computes, before it does, with the number of compute threads it may use.
  std::function<void(int)> use_threads = [](int) {};
  // A backend for the weight plane whose members reach this process by `address`. Empty where there can be no weight
  // plane to other processes.
  std::function<std::shared_ptr<GroupBackend>(const std::string& address)> make_group_backend;
  // The address by which other processes reach this one; empty = the one by which the first of them came.
  std::string network_address;
  // Detached actors get threads of their own; false puts every actor on the system's scheduler (deterministic,
  // simulated).
  bool threads = true;
  // Deterministic runs, see actors/deterministic_run.h: actors beat, report, save and begin an update only when they
  // are told that it is their turn, never at a time.
  bool deterministic = false;
  // Those that are resumed: what the actors left in the checkpoint, by their names.
  std::map<std::string, std::string> states;
  // When the process began, for reports; nothing = when the run's actors do.
  std::optional<std::chrono::steady_clock::time_point> started;

  const std::string* state_of(const std::string& actor) const {
    const auto it = states.find(actor);
    return it == states.end() ? nullptr : &it->second;
  }
};

// Makes an actor beat again after `interval`, except where a turn will tell it to.
template <class Self>
void beat_after(Self* self, const RunContext& context, std::chrono::milliseconds interval) {
  if (!context.deterministic) self->delayed_send(self, interval, beat_atom_v);
}

// How long the end of a run waits for an actor that may be silent: a worker in another process, or one whose
// environment is inside a step.
constexpr std::chrono::milliseconds kFarewell{2500};

using RunContextPtr = std::shared_ptr<const RunContext>;

}  // namespace troupe
