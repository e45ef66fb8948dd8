#pragma once
// A complete small run of the real actors in one thread. The clock, the schedule and the faults are drawn from a seed;
// the same seed gives the same run, event by event. Independent simulations may run in different threads.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "sim/scenario.h"

namespace troupe::sim {

struct Outcome {
  std::optional<std::string> violation;
  std::string scenario;
  std::string end;  // how the last process ended, as text
  uint64_t events = 0;
  uint64_t trace_hash = 0;  // of all events in order
  uint64_t updates = 0;
  uint64_t processes = 0;  // trainer processes; more than one if it was killed and resumed
  uint64_t faults = 0;
  uint64_t largest_mailbox = 0;
  uint64_t shared_score_calls = 0;  // of verifiers, with several groups of answers
  uint64_t lost_groups = 0;         // on which a verifier died
  uint64_t shared_scorings = 0;     // forward passes of scorers with several groups of answers
  uint64_t killed_scorers = 0;
  uint64_t killed_ranks = 0;  // rank processes
  uint64_t broken_rank_connections = 0;
  uint64_t muted_ranks = 0;   // rank processes from which nothing arrived any more
  uint64_t frozen_ranks = 0;  // rank processes that came back after the run had given them up
  uint64_t recoveries = 0;    // of the moments of a slice after the loss of a rank
  uint64_t lost_moments = 0;  // processes that ended because that was not possible
  uint64_t killed_inference_processes = 0;
  uint64_t transfers = 0;          // of weights to an inference process, which it took over
  uint64_t damaged_transfers = 0;  // in which a block of data arrived with a wrong bit
  uint64_t broken_transfers = 0;   // that failed with an error
  uint64_t turns = 0;              // of answers, after the first ones
  uint64_t computed_anew = 0;      // tokens of answers whose keys and values older weights had made before
};

// Runs the simulation of a seed. `trace` gets one line per event; nullptr = none.
Outcome simulate(uint64_t seed, Mutation mutation = Mutation::none,
                 const std::function<void(const std::string&)>& trace = nullptr, RunKind kind = RunKind::drawn);
// Whether the invariant that must catch this bug has done so in a simulation with it.
bool catches(const MutationInfo& bug, const Outcome& outcome);

}  // namespace troupe::sim
