#pragma once
// Trainer: takes a staged super-batch, runs the update and publishes the new weights. Detached. Never waits for data
// while a prefetched batch is ready, for receivers of weights, or for the disk.

#include <chrono>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/messages.h"
#include "actors/parts.h"
#include "actors/rank_gradients.h"
#include "actors/rank_group.h"
#include "actors/replay_buffer.h"
#include "actors/run_context.h"
#include "actors/warmup.h"
#include "actors/warmup_saves.h"
#include "models/shards/kept_moments.h"

namespace troupe {

struct TrainerPeers {
  PrefetcherActor prefetcher;
  ReplayActor replay;
  PublisherActor publisher;
  RecorderActor recorder;
  EvaluatorActor evaluator;
  StatsActor stats;
  caf::typed_actor<caf::reacts_to<TrainingEnded>, caf::reacts_to<save_atom>> supervisor;
  PublisherActor reference_publisher = {};  // if scorers compute with the reference
};

// A learner's state.
struct StateBefore {
  std::shared_ptr<const LearnerState> model;  // without moments
  AdamMoments moments;                        // of this rank's slice
};

// The update under way.
struct TrainerUpdate {
  uint64_t index = 0;
  StagedMessage batch;
  std::chrono::steady_clock::time_point begun;
  double progress = 0;
  std::optional<StateBefore> before = {};                // if the loss of a rank takes it back
  std::chrono::steady_clock::time_point attempted = {};  // when it began for the last time
  std::chrono::steady_clock::duration sending = {};      // to the other ranks, before this one has begun
  // At its end:
  std::chrono::steady_clock::time_point computed = {};  // on this rank, which has `weights` then
  std::shared_ptr<const UpdateReport> report = {};
  WeightsPtr weights = {};  // null with one rank
  uint64_t samples = 0;
};

struct TrainerState {
  static inline const char* name = "trainer";
  using Clock = std::chrono::steady_clock;

  RunContextPtr context;
  std::shared_ptr<Learner> learner;  // null once training has ended
  WeightsPtr reference;              // since training began, of a run with one
  WeightsPtr published;              // the last; null before training
  TrainerPeers peers;
  PolicyVersion version;
  uint64_t env_steps = 0;
  ReplayStart start;
  std::unique_ptr<Warmup> warmup;  // while it is under way: nothing is published, and no super-batch asked for
  uint64_t skipped_in_a_row = 0;   // updates since the last one that applied an optimizer step
  bool warned_of_skipped = false, warned_of_empty = false;
  double evaluated = std::numeric_limits<double>::quiet_NaN();  // mean return of the last evaluation during training
  Clock::time_point started, updated;  // `updated`: when the last update ended, or training began
  Clock::time_point counted_until;     // of these two, which are parts of the time since `updated`:
  Clock::duration held_for{};          // held by open evaluations
  Clock::duration saving_for{};        // held only until a checkpoint was written
  bool waiting = false;                // asked for a batch
  uint64_t evaluations = 0;            // requested and not yet made
  bool held = false;                   // the next batch is asked for when fewer evaluations are open
  bool warned_of_evaluations = false;
  // Not in deterministic runs, which begin an update when the recorder has no message left:
  bool checkpoint_open = false;  // one was sent and is not yet written
  bool checkpoint_owed = false;  // one follows, of the current policy, and then the next batch is asked for
  bool warned_of_disk = false;
  bool warmup_owed = false;  // a checkpoint of the end of the warm-up follows
  WarmupSaves warmup_saves;
  bool ended = false;
  // With several ranks:
  struct Rank {
    RankActor actor;
    std::string name = {};    // of its process; empty in this one
    bool has_state = false;   // the same as this one
    bool has_slice = false;   // of the moments
    uint64_t unanswered = 0;  // beats since it was asked whether it answers; 0: it has
  };
  std::optional<RankGroup> group;  // nothing with one
  std::vector<Rank> ranks;         // 1, 2, ...
  bool ranks_came = false;         // all were there once
  bool ranks_late = false;         // and some were not when it began to wait
  bool ask_owed = false;           // the first batch is asked for when they are
  RankExchangeActor exchange;
  uint64_t streams = 0;
  std::optional<RankGradients> gradients;       // over which they travel; nothing: they go to the exchange
  Rendezvous gradient_group;                    // of the last attempt
  std::vector<caf::actor_addr> gradient_ranks;  // which are in it besides this one
  bool gradients_failed = false;                // the next attempt needs another one
  int failures = 0;                             // since the last update that was complete
  uint64_t silence = 0;  // beats in which an update, or moments, waited and no rank said anything
  // Of the attempt that was complete, about the longest of late; nothing before the first.
  std::optional<Clock::duration> usual_update;
  // With trainer.zero the moments are divided into slices, of this rank and those that took part in the last update.
  size_t slices = 1;
  KeptMoments kept;                               // with copies of the moments
  uint64_t saves = 0;                             // requests for moments
  std::vector<caf::actor_addr> asked;             // ranks that have not answered the last one
  std::vector<AdamMoments> moments;               // what has come of it
  bool recovering = false;                        // it is because a rank was lost:
  std::string lost;                               // which, and why
  bool has_moments = false;                       // so that all of the state as it is are here, until they are divided
  std::vector<std::function<void()>> when_there;  // what waits until all have come
  PartAssembler parts;                            // of the ranks
  std::optional<TrainerUpdate> update;
  // Why to end after the update under way or, in deterministic runs, at the next turn.
  std::string end_reason, end_error;
  // Used in deterministic runs:
  bool saving = false;      // the other actors were told to save their states
  uint64_t resumed_at = 0;  // update of the checkpoint from which this process resumed
};

TrainerActor::behavior_type trainer(SelfPointer<TrainerActor, TrainerState> self, RunContextPtr context,
                                    std::shared_ptr<Learner> learner, const ReplayStart& start, TrainerPeers peers);

}  // namespace troupe
