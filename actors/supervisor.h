#pragma once
// Supervisor: starts, watches, restarts and stops every actor of a run in the trainer's process, and lets workers and
// inference actors of other processes join. A child that ends is restarted, replaced, or ends the run with a reason.
// Event-based.

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "actors/messages.h"
#include "actors/placement.h"
#include "actors/recorder.h"
#include "actors/replay_buffer.h"
#include "actors/restart_limit.h"
#include "actors/run_context.h"

namespace troupe {

// How a run ended. `error` is empty unless it could not go on.
struct RunOutcome {
  PolicyVersion version;
  std::string reason;
  std::string error;
  std::optional<Evaluation> evaluation;  // of the final policy; absent when the run was interrupted
  bool checkpoint_written = false;
  std::string checkpoint_error;
  // Children that did not stop within kFarewell of being told: their environment is inside a step. They must not be
  // waited for.
  std::vector<std::string> left_behind;
};

// What a run starts from.
struct RunDependencies {
  std::shared_ptr<Learner> learner;
  ReplayStart start;
  std::shared_ptr<RunSink> sink;
  // Called once, by the supervisor: when the children have stopped or were left behind, or, after an exception in the
  // supervisor itself, when they have been told to end.
  std::function<void(const RunOutcome&)> on_end;
};

// When a run stops, each stage begins when the actors of the one before it have ended.
enum class StopStage : uint8_t {
  first,   // workers, inference actors and most others
  stats,   // nobody can report any more
  record,  // the last snapshot was sent
};

struct SupervisorState {
  static inline const char* name = "supervisor";

  enum class Phase { running, ending, stopping };

  struct Inference {
    InferenceService service;
    InferenceActor local;  // none when it is in another process,
    InferenceMember host;  // whose host this is then
    bool serving = false;  // has weights
    RestartLimit restarts;
  };
  struct Member {  // a worker, of this process or another
    uint64_t id = 0;
    MemberActor actor;
    bool local = false;
    RestartLimit restarts;
  };

  RunContextPtr context;
  RunDependencies dependencies;
  Phase phase = Phase::running;
  StopStage stop_stage = StopStage::first;  // in Phase::stopping
  RecorderActor recorder;
  StatsActor stats;
  PublisherActor publisher;
  ReplayActor replay;
  PrefetcherActor prefetcher;
  EvaluatorActor evaluator;
  TrainerActor trainer;
  std::map<InferenceIndex, Inference> inference;
  Placement placement;
  std::string weights_address;  // by which inference processes reach this one, once the first has
  std::shared_ptr<const Signature> signature;
  std::map<caf::actor_addr, Member> members;
  std::set<caf::actor_addr> leaving;  // children that were told to stop and still have something to report
  uint64_t next_worker = 0;
  InferenceIndex next_inference_index = 0;
  // What comes back after a pause, by the number of the worker that ended, or the inference index.
  std::map<uint64_t, RestartLimit> resting_workers, resting_inference;
  // Until when the end of the run waits for each kind of child; nothing before it was told.
  std::optional<std::chrono::steady_clock::time_point> members_until, others_until;
  RunOutcome outcome;
  bool interrupted = false;
  bool evaluated = false;
};

using SupervisorSelf = SupervisorActor::stateful_pointer<SupervisorState>;

SupervisorActor::behavior_type supervisor(SupervisorSelf self, RunContextPtr context, RunDependencies dependencies);

}  // namespace troupe
