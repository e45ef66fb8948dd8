#pragma once
// Recorder: the only actor that touches the disk. Detached, so that nobody waits for it. What it writes to is a
// RunSink: the run folder, console and sockets of a real run, memory in a simulation.

#include <memory>

#include "actors/messages.h"
#include "actors/run_context.h"
#include "runtime/run_folder/checkpoint.h"

namespace troupe {

class RunSink {
 public:
  virtual ~RunSink() = default;
  // All may throw; the error is logged and counted, the run goes on. LockLost ends it: its folder is no longer its own.
  virtual void save(const Checkpoint& checkpoint) = 0;
  // An evaluation has ended, maybe with an error. Its checkpoint may follow.
  virtual void evaluated(const Evaluation&) {}
  // A point of the curves. One that comes with the env_steps of the point before replaces it.
  virtual void record(const StatsSnapshot& snapshot) = 0;
  // For those who watch the run.
  virtual void show(const StatsSnapshot& snapshot) = 0;
};

struct RecorderState {
  static inline const char* name = "recorder";
  std::map<std::string, std::string> states;  // for the next checkpoint
};

RecorderActor::behavior_type recorder(RecorderActor::stateful_pointer<RecorderState> self, RunContextPtr context,
                                      std::shared_ptr<RunSink> sink,
                                      caf::typed_actor<caf::reacts_to<CheckpointWritten>> supervisor);

}  // namespace troupe
