#pragma once
// Where a real run writes: run folder, statistics socket, console. Used by the recorder's two threads during the run
// (RunSink), and by the main thread after it.

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "actors/alarm_watch.h"
#include "actors/recorder.h"
#include "actors/supervisor.h"
#include "runtime/base/mutex.h"
#include "runtime/base/output.h"
#include "runtime/run_folder/run_folder.h"
#include "runtime/stats/snapshot.h"
#include "runtime/stats/socket.h"
#include "tools/cli/verdict_times.h"

namespace troupe {

// Keys in the checkpoints of a deterministic run, about metrics.jsonl: how many lines were written (a scalar), and the
// line that was held back (among the states of the actors).
constexpr const char* kMetricsLines = "metrics.lines";
constexpr const char* kMetricsHeld = "metrics.held";
// What the checkpoints of other runs say of it: how many lines it held, at least (a scalar).
constexpr const char* kMetricsAtLeast = "metrics.lines_at_least";
// RunOutcome::reason of a run that a signal ended during training.
constexpr const char* kInterrupted = "interrupted";
// The environment steps of a line of metrics.jsonl.
uint64_t env_steps_of(const std::string& line);

class RunReport : public RunSink {
 public:
  // `start` is where the run starts, `held` the line that a resumed deterministic run had held back.
  RunReport(RunFolder& folder, StatsSocket* socket, const RunConfig& config, const ReplayStart& start,
            const std::string* held = nullptr, Output& console = standard_output());

  void save(const Checkpoint& checkpoint) override;
  void keep(Checkpoint&& checkpoint) override;
  void evaluated(const Evaluation& evaluation) override;
  // The newest point is held back until one with more environment steps comes, or the end: so there is one line for
  // each number of steps, with the newest figures, and the last line has the last evaluation. Evaluations during the
  // training have lines of their own, which are written when they end.
  void record(const StatsSnapshot& snapshot) override;
  // Lines of their own, written at once, for those steps that no line of an earlier start has.
  void record_warmup(const StatsSnapshot& snapshot) override;
  void show(const StatsSnapshot& snapshot) override;
  void publish(const StatsSnapshot& snapshot) override;
  void keep_alarms(const StatsSnapshot& snapshot) override;

  // Called with each alarm that is raised from now on. Not during the run.
  void on_alarm(std::function<void(const RaisedAlarm&)> on_alarm) { on_alarm_ = std::move(on_alarm); }

  // For a deterministic run that cannot end: writes the newest checkpoint, and forgets what was reported after it. Call
  // it before finish(), while no other thread uses this object. Returns its number of updates, or nothing if this start
  // has made none. Throws as RunFolder::save_checkpoint() does.
  std::optional<uint64_t> save_kept();
  // Writes summary.json and the closing lines on the console, after the run has ended. Why summary.json or the last
  // line of metrics.jsonl could not be written; empty if both were.
  std::string finish(const RunOutcome& outcome, double wall_seconds);

  // How much memory the run was expected to take, in bytes: a closing line compares that with what it took.
  void expect_memory(uint64_t bytes) { expected_memory_ = bytes; }
  // Prints lines, also on a terminal: other processes print there as well.
  void print_lines() { terminal_ = false; }
  // How many updates earlier starts had made that were made again (runtime/run_folder/undone_updates.h).
  void undone(uint64_t updates) { undone_updates_ = updates; }

  // Whether training has ended, so that only the last evaluation may still run. Any thread.
  bool training_ended() const { return training_ended_; }

 private:
  struct Line {
    uint64_t env_steps = 0;
    double wall_time = 0;
    SnapshotLine figures;
  };
  // The newest checkpoint of this start, and what was reported up to it. Its contents are only kept until it is
  // written.
  struct Kept {
    Checkpoint checkpoint;
    StatsSnapshot last;
    uint64_t updates = 0;
    bool written = false;
  };
  void complete(Checkpoint& checkpoint) const;
  void note_refusals();
  StatsSnapshot with_alarms(StatsSnapshot snapshot);
  std::vector<RaisedAlarm> look_at_files(uint64_t updates);
  void write(const Checkpoint& checkpoint);
  void write_held();
  void write_evaluation(const std::string& point);
  void tell_evaluation(const Evaluation& evaluation);
  // The text of summary.json. `wall_seconds` is the time of this start, of which `after_training` came after the end of
  // training.
  std::string summary_of(const RunOutcome& outcome, double wall_seconds, double after_training) const;
  double mean_speed_so_far() const;
  void note_end(const StatsSnapshot& snapshot);
  void close_with(const std::string& line);
  StatsSnapshot with_times(StatsSnapshot snapshot);
  void show_warmup(const WarmupState& warmup);

  RunFolder& folder_;
  StatsSocket* socket_;
  RunConfig config_;
  ReplayStart start_;
  std::optional<Line> held_;
  std::optional<Kept> kept_;            // only in deterministic runs
  std::string last_evaluation_;         // its point, until a line has it
  std::optional<Evaluation> newest_;    // evaluation of this start that did not fail
  uint64_t written_ = 0;                // environment steps of the last line written
  std::vector<uint64_t> warmup_lines_;  // the steps of the lines of the warm-up that this start has written
  std::string checkpoint_refusal_;      // of the last checkpoint
  // Of what both threads use during the run: last_, ended_, refusals_ and files_.
  Mutex mutex_;
  std::vector<std::string> refusals_;  // why files could not be written last
  AlarmWatch files_;
  StatsSnapshot last_;   // shown or recorded
  StatsSnapshot first_;  // before the first of this start
  WarmupState warmup_;   // the newest that was shown
  std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now(), reported_ = begun_;
  std::chrono::steady_clock::time_point warmed_up_ = begun_;  // when the newest of the warm-up was shown
  std::atomic<bool> training_ended_ = false;
  std::chrono::steady_clock::time_point ended_;         // when it did
  std::optional<std::pair<uint64_t, uint64_t>> shown_;  // environment steps and updates of the last report
  uint64_t expected_memory_ = 0;                        // 0: nobody has said
  uint64_t undone_updates_ = 0;
  VerdictTimes verdicts_;
  std::function<void(const RaisedAlarm&)> on_alarm_;
  Output& console_;
  bool terminal_;
  size_t lines_drawn_ = 0;
  std::chrono::steady_clock::time_point next_warmup_line_;
  std::string last_line_;      // that was printed, where there is no terminal
  uint64_t stderr_lines_ = 0;  // on stderr when the block was last drawn
};

}  // namespace troupe
