#pragma once
// SimulatedRun: the state of one simulation, on which the functions of schedule.h, faults.h, mutate.h and processes.h
// operate. One thread.

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <typeinfo>
#include <utility>
#include <vector>

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/mailbox_element.hpp>
#include <caf/scheduler/test_coordinator.hpp>

#include "actors/messages.h"
#include "actors/supervisor.h"
#include "runtime/base/memory_disk.h"
#include "runtime/base/rng.h"
#include "sim/checker.h"
#include "sim/fakes.h"
#include "sim/group_network.h"
#include "sim/link.h"
#include "sim/liveness.h"
#include "sim/simulated_sink.h"
#include "sim/simulation.h"

namespace troupe::sim {

using Seconds = std::chrono::duration<double>;

// A process that has joined the run over a connection.
struct RemoteProcess {
  bool host_ended = true;
  std::vector<std::shared_ptr<Link>> links;  // the last one is the newest
  caf::actor_clock::time_point stalled_until;
};

// One with a worker.
struct WorkerProcess : RemoteProcess {
  WorkerHostActor host;
};

// One with an inference actor or a scorer.
struct InferenceProcess : RemoteProcess {
  InferenceHostActor host;
  RunContextPtr context;
  Role role = Role::sampling;
};

// A rank besides the first in a process of its own.
struct RankProcess : RemoteProcess {
  RankHostActor host;
};

struct SimulatedRun {
  SimulatedRun(const Scenario& scenario, const std::function<void(const std::string&)>& trace);

  const Scenario& scenario() const { return world.scenario; }
  caf::detail::test_actor_clock& clock() { return scheduler->clock(); }
  double now() { return Seconds(clock().now().time_since_epoch()).count(); }
  bool chance(double p) { return rng.uniform_double() < p; }
  // Adds a line to the trace: something happens; an actor handles a message or, with nullptr, starts.
  void event(const std::string& text);
  void note(const std::string& kind, uint64_t ordinal, caf::mailbox_element* element);
  // All processes that are connected to the run.
  std::vector<RemoteProcess*> remote_processes();

  World world;
  Checker checker;
  Rng rng;
  Rng rank_rng;  // for the faults of rank processes
  std::function<void(const std::string&)> trace;
  Outcome outcome;
  MemoryDisk disk;
  caf::actor_system_config system_config;
  std::unique_ptr<caf::actor_system> system;
  caf::scheduler::test_coordinator* scheduler = nullptr;
  size_t running_at_rest = 0;
  GroupNetwork network;
  RunContextPtr context;
  std::vector<WorkerProcess> nodes;
  std::vector<InferenceProcess> inference_processes;
  std::vector<RankProcess> ranks;
  std::vector<std::shared_ptr<Link>> old_links;

  SupervisorActor supervisor;
  std::shared_ptr<SimulatedSink> sink;
  RunOutcome run_outcome;
  bool ended = false, crashed = false, done = false;
  bool cause = false;         // a fault was injected that may end the process with an error
  bool disk_crashes = false;  // its fault lasts as long as the process
  bool interrupted = false, disk_fault = false, disk_faults_ever = false;
  uint32_t endings = 0;
  uint32_t rank_faults = 0;
  double idle_seconds = 0;
  Liveness live;
  std::string welcomed;                      // the config in the first welcome
  std::function<void()> afterwards;          // what a mutation does once the actor has handled its message
  uint64_t seen_operations = 0;              // of `network`, when the actors were idle last
  caf::actor_clock::time_point polls_until;  // until then receivers of weights look for them
  uint64_t progress = 0;
  bool evaluation_killed = false;  // an evaluation under way
  bool disturbed = false;          // messages to or from replay were changed or lost in this process
  PolicyVersion start_version;
  std::map<uint64_t, uint64_t> priority;
  std::map<const std::type_info*, uint64_t> type_hash;
  std::vector<WeightsPtr> old_weights;
  std::map<std::pair<uint64_t, uint32_t>, Array> last_states;  // by worker and group
  std::shared_ptr<const SuperBatch> last_batch;
  std::optional<RoundResult> last_round;  // of ranks
  // Of ranks with slices, by the actor that was told:
  std::map<caf::actor_id, std::vector<AdamMoments>> last_moments;         // by the sender, what it has handed over
  std::map<caf::actor_id, std::pair<uint64_t, uint64_t>> last_slice;      // rank and ranks
  std::map<std::pair<caf::actor_id, uint64_t>, Array> last_parameters;    // by the piece as well
  std::map<std::pair<caf::actor_id, uint64_t>, AdamMoments> last_copies;  // by the first element as well
  RolloutPtr last_answers;
  std::vector<RolloutPtr> unused;  // groups of answers that no batch has had
  std::vector<Score> last_scores;
  Array last_reference;  // that a scorer computed
  caf::actor leaked;
};

}  // namespace troupe::sim
