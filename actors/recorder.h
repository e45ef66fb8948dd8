#pragma once
// Recorder: passes checkpoints and figures to a RunSink: the run folder, console and sockets of a real run, or memory
// in a simulation. Detached, so that no other actor waits for it. An actor of its own writes to the disk, so that
// console and statistics port go on while a checkpoint is written; no other actor of a run does.

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "actors/messages.h"
#include "actors/run_context.h"
#include "runtime/run_folder/checkpoint.h"

namespace troupe {

class RunSink {
 public:
  virtual ~RunSink() = default;
  // All may throw; the error is logged and counted, and the run continues. LockLost ends the run: it no longer holds
  // the lock of its folder. With RunContext::threads, show() and publish() are called by one thread and the others by
  // another.
  virtual void save(const Checkpoint& checkpoint) = 0;
  // A checkpoint that is not due, of a deterministic run that may not be able to make another one. Replaces the one
  // before.
  virtual void keep(Checkpoint&&) {}
  // An evaluation has ended, possibly with an error. Its checkpoint may follow.
  virtual void evaluated(const Evaluation&) {}
  // A point of the curves, besides those of evaluations. A point with the env_steps of the previous one replaces it.
  virtual void record(const StatsSnapshot& snapshot) = 0;
  // A point of the curves of the warm-up, which `snapshot` has. A resumed run may give the one of a step again.
  virtual void record_warmup(const StatsSnapshot&) {}
  // The current snapshot, for the console and the statistics port.
  virtual void show(const StatsSnapshot& snapshot) = 0;
  // The same, for the statistics port alone.
  virtual void publish(const StatsSnapshot&) {}
  // Keeps the alarms of a snapshot that was shown.
  virtual void keep_alarms(const StatsSnapshot&) {}
};

struct RecorderState {
  static inline const char* name = "recorder";
  std::map<std::string, std::string> states;  // for the next checkpoint
  // Checkpoints that could not be written: when the next line about them is due, and those that no line was about.
  std::chrono::steady_clock::time_point next_error_line;
  uint64_t unlogged = 0;
};

RecorderActor::behavior_type recorder(SelfPointer<RecorderActor, RecorderState> self, RunContextPtr context,
                                      std::shared_ptr<RunSink> sink,
                                      caf::typed_actor<caf::reacts_to<CheckpointWritten>> supervisor);

}  // namespace troupe
