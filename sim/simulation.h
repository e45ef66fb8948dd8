#pragma once
// A whole small run of the real actors in one thread, under a clock, a schedule and faults drawn from a seed. The same
// seed gives the same run, event by event. Independent simulations may run on threads of their own.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "sim/scenario.h"

namespace troupe::sim {

struct Outcome {
  std::optional<std::string> violation;
  std::string scenario;
  std::string end;  // how the last process ended
  uint64_t events = 0;
  uint64_t trace_hash = 0;  // of all events in order
  uint64_t updates = 0;
  uint64_t processes = 0;  // of the trainer; more than one when it was killed and resumed
  uint64_t faults = 0;
  uint64_t largest_mailbox = 0;
};

// `trace` gets one line per event; null = none.
Outcome simulate(uint64_t seed, Mutation mutation = Mutation::none,
                 const std::function<void(const std::string&)>& trace = nullptr);

}  // namespace troupe::sim
