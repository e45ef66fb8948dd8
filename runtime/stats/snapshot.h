#pragma once
// StatsSnapshot: what a run reports at one moment. The Stats actor fills it; the console, metrics.jsonl and the
// statistics socket show it. Plain values. A number without a value yet is NaN, which JSON shows as null.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/stats/alarms.h"
#include "runtime/stats/answer_figures.h"
#include "runtime/stats/evaluation_figures.h"
#include "runtime/stats/experience_words.h"
#include "runtime/stats/ledger.h"
#include "runtime/stats/run_histograms.h"
#include "runtime/stats/stage_seconds.h"
#include "runtime/stats/task_figures.h"
#include "runtime/stats/unknown.h"
#include "runtime/stats/verdict.h"
#include "runtime/stats/verifier_figures.h"

namespace troupe {

// Shares of time that actors spent in their handlers over the last 10 s, 0 to 1, on average over actors of a kind.
struct BusyShares {
  double workers = kUnknown;
  double stepping = kUnknown;  // of the workers' time: in steps of environments
  // Of the time of a group of environments, waiting: for a credit, and for actions.
  double credit_wait = kUnknown, action_wait = kUnknown;
  double inference = kUnknown;
  double scorers = kUnknown;
  double replay = kUnknown;
  double prefetcher = kUnknown;       // preparing super-batches
  double trainer = kUnknown;          // in updates
  double machine = kUnknown;          // of all processors of the trainer's machine, whoever used them
  double run = kUnknown;              // of the same, the part that the trainer's process and its children used
  double waiting = kUnknown;          // of the same, the part that their threads waited for
  double threads_waiting = kUnknown;  // how many threads that is on average; not in the JSON
};

// Of actors, by kind.
struct ActorTimes {
  // Shares of the last 10 s, 0 to 1, on average over actors of a kind: in handlers; of these, that handlers waited and
  // computed nothing; and waiting for messages.
  std::map<std::string, double> busy, blocked, waiting;
  std::map<std::string, double> oldest_seconds;  // that a message has waited for one of them
};

// What happened lately, for the verdict on the bottleneck (runtime/stats/bottleneck.h). Not in the JSON.
struct RecentFigures {
  // Of the last minute, or since the process started.
  uint64_t produced = 0, dropped_stale = 0, dropped_full = 0, filtered = 0;  // samples
  uint64_t env_failures = 0;                                                 // of environments
  uint64_t batches_full = 0, batches_timeout = 0, batches_all_waiting = 0;   // forward passes
  double trainer_wait = kUnknown;     // share of the trainer's time, of the updates that ended in the last 10 s or, if
                                      // they are long, in the time of three
  double evaluation_wait = kUnknown;  // the part of it that open evaluations held training
  double checkpoint_wait = kUnknown;  // the part of it in which a checkpoint was written before the next one
  double since_update = kUnknown;     // seconds since the newest update ended
  double longest_update = kUnknown;   // seconds, of the last 10 updates
  // Shares of time of about the last 10 s, where there are several workers: that the busiest one was busy, and of the
  // others in the middle, that they were busy and waited for credits.
  double busiest_worker = kUnknown, other_workers = kUnknown, others_wait = kUnknown;
};

struct StatsSnapshot {
  const ExperienceWords* words = &kStepWords;  // what its figures are called; not in the JSON
  double elapsed_seconds = 0;                  // over all starts of the run
  double progress = kUnknown;                  // 0..1 of the first stop criterion to be met; 0 without one
  double eta_seconds = kUnknown;

  uint64_t env_steps = 0;
  double env_steps_per_second = kUnknown;  // over the last 10 s
  double env_steps_per_second_60s = kUnknown;
  uint64_t updates = 0;
  double seconds_to_first_update = kUnknown;
  double updates_per_second = kUnknown;
  double reuse = kUnknown;                  // updates per trained sample
  double trainer_wait_fraction = kUnknown;  // of the trainer's time, waiting for data or for open evaluations

  BusyShares busy;
  RecentFigures recent;
  // The verdict where it is given: what the run shows (actors/verdict_hold.h), or what a snapshot from JSON had.
  std::optional<Bottleneck> told_bottleneck;

  double lag_p50 = kUnknown;  // updates between a sample's weights and its use
  double lag_p95 = kUnknown;
  double lag_max = kUnknown;
  uint64_t lag_cap = 0;
  double late_wait_seconds = 0;  // that updates of this start waited for rollouts under way, see replay.late
  Ledger ledger;
  uint64_t uncounted_at_most = 0;  // samples that crashed workers may have made beyond those in the ledger

  // Token runs, of this start.
  double answer_tokens_per_second = kUnknown;   // of answers that arrived at replay, over the last 10 s
  double trained_tokens_per_second = kUnknown;  // of answers that updates have used
  double produced_length = kUnknown;            // mean tokens of the answers that arrived at replay
  double trained_length = kUnknown;             // likewise of those that were trained
  double dropped_length = kUnknown;             // and of those dropped as stale
  uint64_t masked_tokens = 0;                   // of the answers that were trained, because they were too old
  AnswerFigures answers;

  uint64_t inference_up = 0;         // inference actors that serve, in this process and others
  uint64_t inference_own = 0;        // configured in this process; not in the JSON
  double batch_size_p50 = kUnknown;  // rows
  uint64_t batches_full = 0;         // batches that left because they were full,
  uint64_t batches_timeout = 0;      // because the oldest request had waited long enough,
  uint64_t batches_all_waiting = 0;  // because nobody was left who could add to them
  uint64_t batches_failed = 0;       // whose forward failed
  double inference_p50_ms = kUnknown;
  double inference_p99_ms = kUnknown;
  // Token runs, of this start; see generation.on_new_weights.
  uint64_t mixed_answers = 0;         // sampled by several versions of the weights
  uint64_t recomputed_tokens = 0;     // whose keys and values were computed anew
  uint64_t history_tokens = 0;        // of earlier turns, in requests for later ones
  uint64_t reused_tokens = 0;         // of these, whose keys and values were still there
  uint64_t weights_waited_steps = 0;  // steps made while newer weights waited for answers in progress
  double weights_waited_seconds = 0;  // that they waited

  bool several_epochs = false;   // trainer.epochs is above 1; not in the JSON
  uint64_t ranks_total = 1;      // trainer.ranks; 0 in deterministic runs, as the next one
  uint64_t ranks_up = 1;         // of them
  uint64_t ranks_here = 1;       // of these, on the machine of the trainer; not in the JSON, as the next two
  uint64_t rank_threads = 1;     // trainer.threads
  uint64_t rank_processors = 0;  // that the ranks of this machine may use; 0: not known, or they compute elsewhere
  bool waits_for_ranks = false;  // training has not begun, because not all have come; not in the JSON
  bool needs_scorers = false;    // not in the JSON
  uint64_t scorers_up = 0;       // that serve, in this process and others
  uint64_t scored_answers = 0;   // by all scorers, of this start
  uint64_t scorer_batches = 0;   // forward passes
  uint64_t scorer_failures = 0;  // of them, those that threw
  double scorer_p50_ms = kUnknown;

  uint64_t episodes = 0;
  double return_mean = kUnknown;  // over the statistics window, unscaled
  double return_std = kUnknown;
  double length_mean = kUnknown;
  double success_rate = kUnknown;
  std::map<std::string, double> return_parts;  // mean of each part that a verifier names
  TaskFigures tasks;                           // over the statistics window of each task
  std::map<std::string, double> learner;       // of the updates since the last report: kl, ess, losses, learning rates

  bool training_ended = false;
  uint64_t workers_up = 0;  // once training has ended: when it did
  uint64_t workers_total = 0;
  uint64_t workers_starting = 0;                   // launched or joined, and not up yet
  std::map<std::string, uint64_t> rows_served;     // by inference actor
  std::map<std::string, uint64_t> weights_behind;  // versions published and not yet applied, by receiver
  std::map<std::string, uint64_t> env_failures;  // one entry: the environment's id, or the task; none without a failure
  uint64_t request_retries = 0;                  // inference requests that workers asked again
  uint64_t quarantined = 0;                      // rows in quarantine now
  uint64_t skipped_steps = 0;                    // optimizer steps that were not finite
  std::string last_error;                        // of an environment or a request
  uint64_t rss_bytes = 0;                        // of the trainer's process; 0 = unknown
  uint64_t worker_bytes = 0;                     // of the processes of joined workers; 0 = there are none
  uint64_t environment_bytes = 0;                // of the processes of environments
  uint64_t verifier_bytes = 0;                   // of the processes of verifiers
  std::optional<VerifierFigures> verifier;       // of all workers since this start, if the run has a verifier
  std::map<std::string, Alarm> alarms;           // those raised now, by name
  std::vector<RaisedAlarm> raised;               // since the view before; not in the JSON
  std::optional<EvaluationResult> evaluation;    // the last one
  FailedEvaluations failed_evaluations;
  std::optional<EvaluationUnderWay> evaluating;
  std::optional<PromptSummary> prompts;  // only with task.sampling failure_weighted
  std::optional<WarmupState> warmup;     // while it is under way, and once when it is over
  RunHistograms histograms;
  std::optional<ActorTimes> actors;         // of the trainer's process
  std::optional<ActorTimes> joined_actors;  // of the processes that have joined the run
  StageFigures stages;
};

// Makes unknown what depends on the speed of the machine, or on how many ranks compute: all times, rates of time,
// memory, and the ranks.
void forget_times(StatsSnapshot& snapshot);

// One JSON object on one line, with the fields of snapshot_fields(); numbers that are not finite are null.
std::string to_json(const StatsSnapshot& snapshot);
// The snapshot that to_json() gave, with the figures that the JSON has; those that it lacks, or that have another type,
// are unknown. `words` are those of the run, which the JSON does not have. Throws ConfigError if it is no JSON object.
StatsSnapshot snapshot_of(const std::string& json, const ExperienceWords& words);
std::string to_json(const EvaluationResult& result);
std::string to_json(const FailedEvaluations& failed);
// What to_json() gave. Throws ConfigError if it is something else.
EvaluationResult evaluation_result_of(const std::string& json);
FailedEvaluations failed_evaluations_of(const std::string& json);
// The count of that name, such as "env_steps", in what to_json() gave for a snapshot. Throws ConfigError if it has
// none.
uint64_t count_in(const std::string& json, const std::string& name);
// What to_json() gave for a snapshot, with this evaluation in place of its own.
std::string with_evaluation(const std::string& json, const EvaluationResult& result);

// All numbers that are finite, by the JSON's dotted path with slashes ("lag/p95"), in what to_json() gave for a
// snapshot: the scalars for TensorBoard.
std::map<std::string, double> scalars_of(const std::string& json);
// What to_json() and scalars_of() give, in less time.
struct SnapshotLine {
  std::string json;
  std::map<std::string, double> scalars;
};
SnapshotLine line_of(const StatsSnapshot& snapshot);

}  // namespace troupe
