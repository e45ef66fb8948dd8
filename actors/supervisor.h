#pragma once
// Supervisor: starts, watches, restarts and stops every actor of a run in the trainer's process, and lets workers and
// inference actors of other processes join. A child that ends is restarted, replaced, or ends the run with a reason.
// Event-based.

#include <array>
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
#include "runtime/base/limited_log.h"

namespace troupe {

// How a run ended. `error` is empty unless the run failed.
struct RunOutcome {
  PolicyVersion version;
  std::string reason;
  std::string error;
  std::optional<Evaluation> evaluation;  // of the final policy; absent when the run was interrupted
  bool checkpoint_written = false;
  std::string checkpoint_error;
  // Children that did not stop within kFarewell because their environment is still inside a step. Do not wait for them.
  std::vector<std::string> left_behind;
};

// What a run needs besides its context.
struct RunDependencies {
  std::shared_ptr<Learner> learner;  // the trainer takes it
  ReplayStart start;
  std::shared_ptr<RunSink> sink;
  // The supervisor calls this once: when every child has stopped or was left behind, or, after an exception in the
  // supervisor itself, when the children have been told to end.
  std::function<void(const RunOutcome&)> on_end;
};

// When a run stops, each stage begins when the actors of the one before it have ended.
enum class StopStage : uint8_t {
  first,   // workers, inference actors and most others
  stats,   // after every actor that reports to it
  record,  // after stats has sent the last snapshot
};

struct SupervisorState {
  static inline const char* name = "supervisor";

  enum class Phase { running, ending, stopping };

  struct Inference {
    InferenceService service;
    InferenceActor local;  // null when it is in another process
    InferenceMember host;  // its host in that process; null when it is local
    bool serving = false;  // has weights
    RestartLimit restarts;
    Role role = Role::sampling;
  };
  struct RestingInference {
    RestartLimit restarts;
    Role role = Role::sampling;
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
  PublisherActor publisher, reference_publisher;  // of the policy, and of what scorers compute with; that may be none
  ReplayActor replay;
  PrefetcherActor prefetcher;
  EvaluatorActor evaluator;
  TrainerActor trainer;
  std::map<InferenceIndex, Inference> inference;
  std::array<Placement, kRoles> placements;  // by role
  // By role: the address that inference processes use for this one; empty until the first joins.
  std::array<std::string, kRoles> weights_addresses;
  std::string gradients_address;                     // at which the ranks meet, once the first has joined
  std::shared_ptr<const Signature> signature;        // of what is published
  std::shared_ptr<const Signature> saved_signature;  // of all tensors of the learner
  std::map<caf::actor_addr, Member> members;
  std::map<caf::actor_addr, Stoppable> rank_hosts;  // of ranks in other processes, once they are ready
  uint64_t next_rank_process = 1;
  std::set<caf::actor_addr> leaving;  // children that were told to stop and still have something to report
  uint64_t next_worker = 0;
  InferenceIndex next_inference_index = 0;
  // Children to be restarted after a pause, by the number of the worker that ended, or the inference index.
  std::map<uint64_t, RestartLimit> resting_workers;
  std::map<uint64_t, RestingInference> resting_inference;
  // How long the end of the run waits for each kind of child; nullopt until that kind was told to stop.
  std::optional<std::chrono::steady_clock::time_point> members_until, others_until;
  // Processes that join and are lost again and again must not fill the log. A run of some 100 workers has all its
  // lines.
  static constexpr int kMemberLines = 256;  // of each kind at once
  LimitedLog joins{name, kMemberLines}, losses{name, kMemberLines};
  RunOutcome outcome;

  Placement& placement(Role role) { return placements[static_cast<size_t>(role)]; }
  const PublisherActor& publisher_of(Role role) const {
    return role == Role::sampling ? publisher : reference_publisher;
  }

  bool interrupted = false;
  bool evaluated = false;
};

using SupervisorSelf = SelfPointer<SupervisorActor, SupervisorState>;

SupervisorActor::behavior_type supervisor(SupervisorSelf self, RunContextPtr context, RunDependencies dependencies);

}  // namespace troupe
