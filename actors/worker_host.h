#pragma once
// WorkerHost: keeps one rollout worker joined to a run from a process of its own. Connects to the run's gate, joins, starts the
// worker with what the welcome says, and starts over when the connection or the worker is lost. Event-based; only connects
// outward. It ends when the run ends, when it cannot join for kJoinPatience, or when the worker cannot be made.

#include <chrono>
#include <functional>
#include <string>

#include "actors/messages.h"
#include "actors/wiring.h"

namespace troupe {

constexpr std::chrono::seconds kJoinPatience{120};

struct RunAddress {
  std::string host;
  uint16_t port = 0;
  std::function<GateActor()>
      local;  // the gate itself, where there is no network; it gives nothing while there is no run
};

struct WorkerHostState {
  static inline const char* name = "worker host";
  using Clock = std::chrono::steady_clock;

  RunAddress run;
  std::function<WiringPtr(const std::string& config)> make_wiring;
  std::function<void(const std::string& error)> on_end;
  GateActor gate;
  WorkerActor worker;
  uint64_t id = 0;
  bool found_run = false;     // a run answered once, so that an outage is worth waiting for
  bool trying_again = false;  // begin_atom is on its way
  uint64_t attempt = 0;       // of joining; what an earlier one brings comes too late
  bool ending = false;
  Clock::time_point lost_at;
  std::chrono::milliseconds backoff{0};
};

// `make_wiring` turns the run's config into environments. `on_end` is called once, with an empty text when the run ended in
// order, else with one line.
WorkerHostActor::behavior_type worker_host(WorkerHostActor::stateful_pointer<WorkerHostState> self, RunAddress run,
                                           std::function<WiringPtr(const std::string&)> make_wiring,
                                           std::function<void(const std::string&)> on_end);

}  // namespace troupe
