#pragma once
// StatsCore: what stats knows of a run, without the actor. Times come from the caller; one thread.

#include <algorithm>
#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "actors/alarm_watch.h"
#include "actors/answer_summary.h"
#include "actors/curve_points.h"
#include "actors/episode_window.h"
#include "actors/latest_batches.h"
#include "actors/learner_figures.h"
#include "actors/machine_use.h"
#include "actors/messages.h"
#include "actors/rate.h"
#include "actors/receiver_table.h"
#include "actors/recent_counts.h"
#include "actors/replay_buffer.h"
#include "actors/run_times.h"
#include "actors/scorer_table.h"
#include "actors/verdict_hold.h"
#include "actors/worker_table.h"
#include "envs/env.h"
#include "runtime/stats/actor_board.h"
#include "runtime/stats/snapshot.h"

namespace troupe {

class StatsCore {
 public:
  using Clock = std::chrono::steady_clock;

  // `started` is when this start of the run began: times count from there. `start` is what it starts from, after a
  // resume what the checkpoint had. `action` is what the environment takes; none in a token run.
  StatsCore(const RunConfig& config, bool reports_success, Clock::time_point started, const ReplayStart& start = {},
            const ActionSpec* action = nullptr);

  // The trainer starts now: the used fraction of stop.seconds and the estimate of what is left count from here. Without
  // this call they count from `started`.
  void begin_training(Clock::time_point now);

  // Why the report is dropped: another process sent what no worker of this run can say. Nothing when it counts.
  std::optional<std::string> add(const WorkerReport& report, Clock::time_point now);
  void add(const InferenceReport& report);
  void add(const Applied& applied, Clock::time_point now);
  void add(const ReceiverGone& gone);
  // The actor of this index has ended. A scorer that the run has refused is known to nobody else.
  void receiver_ended(InferenceIndex inference_index) {
    if (!now_.training_ended) scorers_.add(ReceiverGone{inference_index, Role::scoring});
  }
  // See JoinedActors::add(). `here`: the number of the process, if it is on this machine.
  std::optional<std::string> add(const std::string& process, const ProcessReport& report, Clock::time_point now,
                                 std::optional<pid_t> here = {}) {
    if (here) machine_.heard(*here, now);
    return times_.add(process, report, now);
  }
  void add(const LaunchedWorkers& workers) { launched_workers_ = workers.count; }
  void add(const RanksMessage& ranks);
  void add(const ReplayReport& report, Clock::time_point now);
  void add(const UpdateMessage& update, Clock::time_point now);
  // Returns the point of the evaluation, see Evaluation::point. After one that failed the last good one stays, and the
  // point is empty.
  std::string add(const Evaluation& e, Clock::time_point now);
  void add(const EvaluationProgress& progress) { now_.evaluating = progress.now; }
  void add(const WarmupState& warmup);
  // Snapshots do not show it any more.
  void end_warmup() { now_.warmup.reset(); }
  // The run is over.
  void end(Clock::time_point now) { end_training(now); }

  // Reports what the actors note there. Without this call their times are unknown.
  void watch(std::shared_ptr<ActorBoard> board) { board_ = std::move(board); }

  bool training_ended() const { return now_.training_ended; }
  uint64_t updates() const { return now_.updates; }  // that replay has told of
  // Environment steps were counted since the last point.
  bool has_new_steps() const { return now_.env_steps > point_env_steps_; }
  // Whether the samples that just arrived make a point; true once for each.
  bool take_point_due();
  // The run at this moment. The figures of the learner are those since the last point, or the last view or report. A
  // point has the last evaluation, that of the final policy, and no other: those have points of their own. A view is a
  // report in which alarms are raised and lowered.
  StatsSnapshot take_point(Clock::time_point now);
  StatsSnapshot take_report(Clock::time_point now);
  StatsSnapshot take_view(Clock::time_point now);
  StatsTotals totals(Clock::time_point now) const;
  // One line for each alarm that was raised or lowered since the last call.
  std::vector<AlarmWatch::Line> take_alarm_lines() { return alarms_.take_lines(); }
  // The name of an alarm of level error that was raised since the last call; empty without one.
  std::string take_error_alarm() { return alarms_.take_error(); }
  static constexpr size_t kLagBatches = 100;  // lag percentiles are over the samples of that many updates

  // Deterministic runs have no clock: a view is due every stats.every_updates updates, once.
  bool take_due();

  // All but times as bytes, and back.
  std::string save(Clock::time_point now) const;
  void load(const std::string& bytes, Clock::time_point now);

 private:
  // Sums of microseconds, of all actors of a kind.
  struct BusyTimes {
    uint64_t replay = 0, prefetcher = 0, trainer = 0;
  };

  void end_training(Clock::time_point now) {
    if (!std::exchange(now_.training_ended, true)) training_ended_ = now;
  }
  // The moment that figures are about: the last evaluation and the wait for workers are no part of the training.
  Clock::time_point in_training(Clock::time_point now) const {
    return training_ended_ ? std::min(now, *training_ended_) : now;
  }
  void note(const TokenFigures& tokens);
  void begin_rates(Clock::time_point now);
  uint64_t answer_tokens() const { return start_.totals.answer_tokens + tokens_.produced.tokens; }
  uint64_t trained_tokens() const { return start_.totals.trained_tokens + tokens_.trained.tokens - tokens_.masked; }
  void recall(const StatsTotals& totals);
  StatsSnapshot snapshot(Clock::time_point now);
  void keep_for_evaluation(const UpdateMessage& update, Clock::time_point now);
  void fill_progress(StatsSnapshot& s, Clock::time_point now) const;
  void fill_busy(StatsSnapshot& s, Clock::time_point now);
  void fill_tokens(StatsSnapshot& s, Clock::time_point now);
  void fill_inference(StatsSnapshot& s);
  void fill_workers(StatsSnapshot& s, Clock::time_point now) const;
  double progress(double seconds_of_training) const;

  RunConfig config_;
  bool reports_success_;
  Clock::time_point started_, training_started_;
  std::optional<Clock::time_point> training_ended_;
  ReplayStart start_;
  double progress_before_;  // when the process started
  StatsSnapshot now_;
  CurvePoints points_;
  uint64_t point_env_steps_;  // of the last point
  LearnerFigures point_figures_, view_figures_;
  std::map<uint64_t, std::string> evaluated_;  // the run after updates whose evaluation has not ended, as JSON
  bool last_evaluated_ = false;
  EpisodeWindow episodes_;
  RunTimes times_;
  std::shared_ptr<ActorBoard> board_;
  RecentCounts recent_;
  AlarmWatch alarms_;
  std::deque<LagCounts> lags_;
  TokenFigures tokens_;
  AnswerSummary answers_;
  Rate env_rate_, update_rate_, tokens_rate_, trained_tokens_rate_;
  BusyTimes busy_;
  Rate workers_covered_, workers_busy_, stepping_busy_, inference_busy_, scorers_busy_, replay_busy_, prefetcher_busy_,
      trainer_busy_;
  Rate credit_wait_, action_wait_;
  MachineUse machine_;
  VerdictHold verdicts_;
  LatestBatches batches_;
  WorkerTable workers_;
  uint64_t launched_workers_ = 0;
  ReceiverTable receivers_;
  ScorerTable scorers_;
  PolicyVersion published_;
  double wait_seconds_ = 0, update_seconds_ = 0;
  uint64_t reported_ = 0;  // updates of the last view that was due
};

}  // namespace troupe
