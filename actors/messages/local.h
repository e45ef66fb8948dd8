#pragma once
// Messages between actors of one process. They never cross the network; most carry shared pointers.

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/messages/batches.h"
#include "actors/messages/control.h"
#include "actors/messages/stats_totals.h"
#include "models/experience/rollout.h"
#include "models/experience/sample_tokens.h"
#include "models/policy.h"
#include "runtime/stats/ledger.h"
#include "runtime/stats/snapshot.h"
#include "runtime/weights/weights.h"

namespace troupe {

struct SenderStep;
class WeightSender;

struct WeightsMessage {
  WeightsPtr weights;
};

// From the weight plane: its sender has admitted a receiver.
struct PlaneReady {
  std::shared_ptr<WeightSender> sender;
};

// Outcome of one sender step.
struct PlaneStep {
  std::shared_ptr<const SenderStep> step;
};

// To the publisher and the weight plane: send weights to this receiver too.
struct ReceiverJoined {
  InferenceIndex inference_index = 0;
  InferenceMember host;
  std::string address;  // numeric address of the run at which the receiver's process reached it
};

// From the publisher: this receiver gets no more weights.
struct ReceiverLost {
  InferenceIndex inference_index = 0;
  std::string why;
};

// To replay: this worker is gone. Its process has joined again under another number.
struct WorkerGone {
  uint64_t worker = 0;
};

// To stats: how many workers this process has started, and of other processes have joined, that have not ended. Those
// that replay does not know yet start their environments.
struct LaunchedWorkers {
  uint64_t count = 0;
};

// To stats, from the trainer of a run with several ranks: how many are there, itself among them.
struct RanksMessage {
  uint64_t up = 1;
  bool complete = false;                   // all were there once: training waits for none
  std::vector<pid_t> processes_here = {};  // on this machine, without this one
};

struct UpdateMessage {
  PolicyVersion version;  // after the update
  uint64_t index = 0;
  bool failed = false;  // every optimizer step was skipped because it was not finite: its samples are lost
  uint64_t samples = 0;
  double update_seconds = 0;
  double wait_seconds = 0;             // of the trainer, before it
  double evaluation_wait_seconds = 0;  // the part of it that open evaluations held training
  double checkpoint_wait_seconds = 0;  // the part of it in which a checkpoint was written before the next one
  double stage_seconds = 0;            // of its super-batch, while the update before ran
  std::shared_ptr<const UpdateReport> report;
};

// Samples of one super-batch by their lag.
using LagCounts = std::map<uint64_t, uint64_t>;

// What this start of the run has counted of samples that are made of tokens (ExperienceKind::count).
struct TokenFigures {
  SampleTokens produced, trained;
  SampleTokens dropped;  // as stale
  uint64_t masked = 0;   // tokens of `trained` that were too old
  uint64_t groups = 0;   // produced with at least two samples that have a score,
  uint64_t alike = 0;    // of these, whose rewards are all equal

  TokenFigures& operator+=(const TokenFigures& other) {
    produced += other.produced;
    trained += other.trained;
    dropped += other.dropped;
    masked += other.masked;
    groups += other.groups;
    alike += other.alike;
    return *this;
  }

  template <class I> friend typename I::result_type inspect(I& f, TokenFigures& x) {
    return f(x.produced.samples, x.produced.tokens, x.produced.cut, x.trained.samples, x.trained.tokens,
             x.dropped.samples, x.dropped.tokens, x.masked, x.produced.turns, x.produced.most_turns, x.groups, x.alike);
  }
};

// The counts of replay at one moment. It sends a report after every rollout and update, whenever a worker joins or
// leaves, and every 500 ms.
struct ReplayReport {
  Ledger ledger;
  uint64_t env_steps = 0;      // of the samples that the ledger counts as produced
  uint64_t workers = 0;        // connected now; once training has ended, those connected when it did
  uint64_t workers_total = 0;  // ever connected
  uint64_t uncounted = 0;      // see ReplayStore::uncounted_at_most()
  double reuse = 0;
  double late_wait_seconds = 0;  // that updates of this start waited for rollouts under way, see replay.late
  uint64_t busy_us = 0;          // time in handlers, of this start
  TokenFigures tokens;
  bool training_ended = false;
  // Since the report before:
  std::vector<LagCounts> lags;          // of the updates that were trained
  std::vector<Episodes> episodes;       // of the rollouts counted
  std::optional<UpdateMessage> update;  // the one that is counted with this report
};

struct Evaluation {
  PolicyVersion version;
  uint64_t episodes = 0;          // played to their end; the figures are of these
  uint64_t failed_episodes = 0;   // see EpisodeSummary::failed
  double return_mean = kUnknown;  // these are unknown while no episode is over
  double return_std = kUnknown;
  double length_mean = kUnknown;
  double cut_fraction = kUnknown;  // of answers
  double success_rate = kUnknown;  // see EpisodeSummary::success_rate
  bool last = false;
  bool of_warmup = false;  // as in EvaluateMessage
  std::string error;
  bool not_finite = false;  // it failed because an output of the model is not finite
  // Set by stats for the sink, unless it failed: the run after the update that was evaluated, with this evaluation, as
  // a line of metrics.jsonl.
  std::string point;
  std::string last_error;                      // of the environment; empty without one
  PassAtK pass_at = {};                        // of answers
  std::shared_ptr<const std::string> answers;  // lines for answers.jsonl; null without any

  uint64_t ended() const { return episodes + failed_episodes; }
};

struct EvaluateMessage {
  WeightsPtr weights;
  bool last = false;
  bool of_warmup = false;     // a check of the warm-up, whose result only the asker gets
  WeightsPtr reference = {};  // of a run with one: the KL of the answers to it is kept
};

// To stats: how far the warm-up is.
struct WarmupMessage {
  WarmupState state;
  bool point = false;  // of the curves
};

// To the evaluator: how far the evaluation under way is, after some of its steps.
struct EvaluationSlice {
  uint64_t steps = 0;     // that every row has made
  uint64_t planned = 0;   // episodes, or prompts, that it plays; 0 = not known
  Evaluation so_far;      // of the episodes that have ended
  uint64_t failures = 0;  // of the environment
  std::string answers;    // lines for answers.jsonl since the slice before
  bool over = false;
};

// To stats: the evaluation under way, if there is one.
struct EvaluationProgress {
  std::optional<EvaluationUnderWay> now;
};

// The contents of a checkpoint. The trainer fills in the learner and sends it to replay after its updates. Replay adds
// its counts and sends it to stats, which adds the totals and sends it to the recorder.
struct CheckpointMessage {
  std::shared_ptr<const LearnerState> learner;
  PolicyVersion version;
  uint64_t env_steps = 0;
  Ledger ledger;
  uint64_t uncounted = 0;
  StatsTotals totals;
  bool last = false;  // training has ended
};

struct CheckpointWritten {
  PolicyVersion version;
  bool last = false;
  std::string error;  // empty = complete on disk
};

// To the recorder, in deterministic runs: the state of the actor with this name, for the next checkpoint.
struct ActorState {
  std::string name;
  std::string bytes;
};

// In deterministic runs: send your state to the recorder, for the next checkpoint.
struct SaveMessage {
  caf::typed_actor<caf::reacts_to<ActorState>> recorder;
};

// For the run's sink: a point of the curves, one of the warm-up, a report for the console and the statistics port, one
// for the port alone, because an evaluation has ended, or a report that was shown, whose alarms are kept.
enum class SnapshotUse : uint8_t { point, warmup, report, port, alarms };
struct SnapshotMessage {
  std::shared_ptr<const StatsSnapshot> snapshot;
  SnapshotUse use = SnapshotUse::point;
};

// From replay: all environments fail, and none has made a step for workers.failure_timeout_ms.
struct SamplingFailed {
  std::string error;
};

// From stats: an alarm was raised that ends the run (stop.on_collapse).
struct Collapsed {
  std::string alarm;
};

// The pause before the restart of a worker or an inference actor is over. `ended` is the number of the worker, or the
// index of the inference actor, that it replaces.
struct RestartDue {
  bool inference = false;
  uint64_t ended = 0;
};

// The trainer has ended: it reached a limit, was told to stop, or failed (error not empty).
struct TrainingEnded {
  PolicyVersion version;
  std::string reason;
  std::string error;
  WeightsPtr weights;  // the last; null: it failed at once, and there is no last checkpoint and no evaluation
  WeightsPtr reference = {};
};

}  // namespace troupe
