#pragma once
// Liveness: from some event on a simulation has no more faults. Actors then run nearly in the order in which they get
// messages, and time passes in small steps. From there on the run must make progress, every inference actor must get
// new weights, and every rank must be asked; or the run ends. One thread.

#include <cstdint>
#include <map>

#include <caf/fwd.hpp>

#include "runtime/base/version.h"

namespace troupe::sim {

struct SimulatedRun;

struct Liveness {
  bool calm = false;        // there are no more faults
  uint64_t checked_at = 0;  // the number of events at the last check
  uint64_t progress = 0;    // what the run has done so far: updates, steps of a warm-up, processes
  double progressed = 0;    // when that increased last, in seconds of the clock; or when the faults stopped
  struct Awaited {
    PolicyVersion version;
    double since = 0;
  };
  std::map<caf::actor_id, Awaited> awaited;  // by inference actor: a version that it does not have yet
  std::map<size_t, double> away;             // inference processes without an inference actor in use: since when
  std::map<caf::actor_id, uint64_t> asked;   // by rank: the number of updates when it was asked last, or first seen
};

// In seconds of the clock, longer than all timeouts and pauses, also than the trainer waits for a silent rank.
double most_seconds_without_progress(SimulatedRun& run);
// The faults stop if it is time.
void begin_calm_if_due(SimulatedRun& run);
// Checks what must happen without faults; does nothing before. Cheap enough to be called after every event.
void check_liveness(SimulatedRun& run);

}  // namespace troupe::sim
