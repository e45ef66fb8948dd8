#include "tools/cli/run_report.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include <nlohmann/json.hpp>

#include "actors/experience/kinds.h"
#include "actors/run_progress.h"
#include "runtime/base/errors.h"
#include "runtime/base/log.h"
#include "runtime/base/output.h"
#include "runtime/base/process_stats.h"
#include "runtime/base/suggest.h"
#include "runtime/stats/bottleneck.h"
#include "runtime/stats/console.h"
#include "runtime/stats/snapshot_fields.h"
#include "tools/cli/run_details.h"
#include "tools/cli/run_lines.h"
#include "tools/cli/run_summary.h"
#include "tools/cli/terminal.h"

namespace troupe {

namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr const char* kRecorder = "recorder";

double wall_clock() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

double seconds_since(std::chrono::steady_clock::time_point moment) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - moment).count();
}

}  // namespace

uint64_t env_steps_of(const std::string& line) {
  const OrderedJson json = OrderedJson::parse(line, nullptr, false);
  if (!json.is_object() || !json.contains("env_steps") || !json["env_steps"].is_number_unsigned())
    throw ConfigError("its metrics line has no env_steps");
  return json["env_steps"].get<uint64_t>();
}

RunReport::RunReport(RunFolder& folder, StatsSocket* socket, const RunConfig& config, const ReplayStart& start,
                     const std::string* held, Output& console)
    : folder_(folder),
      socket_(socket),
      config_(config),
      start_(start),
      console_(console),
      terminal_(isatty(STDOUT_FILENO) != 0) {
  if (held != nullptr) held_ = Line{env_steps_of(*held), wall_clock(), {*held, scalars_of(*held)}};
  if (!config.deterministic) written_ = start.env_steps;  // metrics.jsonl has the lines up to this point
  // The state of the run until the first report.
  last_.env_steps = start.env_steps;
  last_.updates = start.version.number;
  last_.ledger = start.ledger;
  last_.uncounted_at_most = start.uncounted;
  last_.episodes = start.totals.episodes;
  if (start.totals.env_failures > 0) last_.env_failures[env_or_task(config)] = start.totals.env_failures;
  last_.skipped_steps = start.totals.skipped_steps;
  last_.request_retries = start.totals.request_retries;
  last_.failed_evaluations.count = start.totals.failed_evaluations.count;
  last_.elapsed_seconds = start.totals.elapsed_seconds;
  first_ = last_;
  warmup_ = start.warmup;
}

void RunReport::complete(Checkpoint& checkpoint) const {
  if (config_.deterministic) {
    checkpoint.scalars[kMetricsLines] = static_cast<double>(folder_.metrics_lines());
    if (held_) checkpoint.extras[kMetricsHeld] = held_->figures.json;
  } else {
    // Lines of steps after that of a checkpoint of the warm-up may have come before it; a resume cuts them off.
    const auto made = checkpoint.scalars.find(kWarmupSteps);
    const auto later = std::ranges::count_if(warmup_lines_, [&](uint64_t step) {
      return made != checkpoint.scalars.end() && static_cast<double>(step) > made->second;
    });
    checkpoint.scalars[kMetricsAtLeast] =
        static_cast<double>(folder_.metrics_lines() - std::min(folder_.metrics_lines(), static_cast<uint64_t>(later)));
  }
}

void RunReport::write(const Checkpoint& checkpoint) {
  try {
    folder_.save_checkpoint(checkpoint, static_cast<uint64_t>(config_.checkpoint.keep),
                            due(checkpoint.updates, config_.evaluation.every_updates));
  } catch (const IoError& error) {
    checkpoint_refusal_ = error.what();
    note_refusals();
    throw;
  }
  checkpoint_refusal_.clear();
  note_refusals();
}

// After each write.
void RunReport::note_refusals() {
  std::vector<std::string> refusals = folder_.refusals();
  if (!checkpoint_refusal_.empty()) refusals.push_back(checkpoint_refusal_);
  const MutexLock lock(mutex_);
  refusals_ = std::move(refusals);
}

void RunReport::save(const Checkpoint& checkpoint) {
  Checkpoint completed = checkpoint;
  complete(completed);
  write(completed);
  if (config_.deterministic)
    kept_ = Kept{.checkpoint = {}, .last = last_, .updates = checkpoint.updates, .written = true};
}

void RunReport::keep(Checkpoint&& checkpoint) {
  complete(checkpoint);
  const uint64_t updates = checkpoint.updates;
  kept_ = Kept{.checkpoint = std::move(checkpoint), .last = last_, .updates = updates, .written = false};
}

std::optional<uint64_t> RunReport::save_kept() {
  held_.reset();
  last_evaluation_.clear();
  if (!kept_) {
    last_ = first_;
    return std::nullopt;
  }
  last_ = kept_->last;
  if (!std::exchange(kept_->written, true)) write(kept_->checkpoint);
  return kept_->updates;
}

void RunReport::evaluated(const Evaluation& evaluation) {
  // Before the line of metrics.jsonl, which says that the evaluation has ended.
  if (evaluation.answers) {
    folder_.write_answers(evaluation.version.number, *evaluation.answers);
    note_refusals();
  }
  if (!evaluation.point.empty() && !evaluation.last) write_evaluation(evaluation.point);
  if (evaluation.last) last_evaluation_ = evaluation.point;
  if (evaluation.error.empty()) {
    newest_ = evaluation;
    if (!evaluation.last) tell_evaluation(evaluation);
  }
  if (config_.checkpoint.keep_best == 0) return;
  const double score = evaluation.error.empty() ? evaluation.return_mean : kUnknown;
  folder_.rank_checkpoint({evaluation.version.number, score, evaluation.ended()});
}

// On a terminal, the block shows it.
void RunReport::tell_evaluation(const Evaluation& evaluation) {
  const std::string line = evaluation_after_text(evaluation, config_);
  if (terminal_)
    log_info("train", line);
  else
    close_with(line);
}

// A line of its own, at the update that was evaluated. TensorBoard has its other figures already.
void RunReport::write_evaluation(const std::string& point) {
  std::map<std::string, double> scalars = scalars_of(point);
  std::erase_if(scalars, [](const auto& scalar) { return !scalar.first.starts_with("eval/"); });
  folder_.write_metrics(point);
  folder_.write_scalars(wall_clock(), static_cast<int64_t>(env_steps_of(point)), scalars);
  note_refusals();
}

// Times of the run count until training ends, not to the end of the last evaluation.
void RunReport::note_end(const StatsSnapshot& snapshot) {
  if (!snapshot.training_ended || training_ended_) return;
  ended_ = std::chrono::steady_clock::now();
  training_ended_ = true;
}

void RunReport::record(const StatsSnapshot& snapshot) {
  {
    const MutexLock lock(mutex_);
    note_end(snapshot);
    if (snapshot.env_steps > last_.env_steps) last_ = snapshot;
    verdicts_.add(snapshot);
  }
  if (snapshot.env_steps <= written_) return;
  if (held_ && held_->env_steps < snapshot.env_steps) write_held();
  // A line of a deterministic run does not depend on the disk.
  held_ = Line{snapshot.env_steps, wall_clock(), line_of(config_.deterministic ? snapshot : with_alarms(snapshot))};
  if (snapshot.evaluation) last_evaluation_.clear();  // this line has it
}

void RunReport::record_warmup(const StatsSnapshot& snapshot) {
  const WarmupState& warmup = *snapshot.warmup;
  if (warmup.step <= folder_.warmup_step()) return;
  warmup_lines_.push_back(warmup.step);
  std::map<std::string, double> scalars{{"warmup/loss", warmup.loss}};
  if (warmup.checked == warmup.step && std::isfinite(warmup.pass_at_1)) scalars["warmup/pass_at_1"] = warmup.pass_at_1;
  folder_.write_metrics(to_json(snapshot));
  folder_.write_scalars(wall_clock(), static_cast<int64_t>(warmup.step), scalars);
  note_refusals();
}

void RunReport::publish(const StatsSnapshot& snapshot) {
  if (socket_ != nullptr) socket_->publish(to_json(with_alarms(snapshot)));
}

void RunReport::keep_alarms(const StatsSnapshot& snapshot) {
  folder_.note_alarms(snapshot.updates, snapshot.raised, with_alarms(snapshot).alarms);
  note_refusals();
}

// With those that are about the files of the run.
StatsSnapshot RunReport::with_alarms(StatsSnapshot snapshot) {
  const MutexLock lock(mutex_);
  for (const auto& [name, alarm] : files_.raised()) snapshot.alarms.insert_or_assign(name, alarm);
  return snapshot;
}

// Tells of the alarms about the files of the run, and returns those that were raised.
std::vector<RaisedAlarm> RunReport::look_at_files(uint64_t updates) {
  const std::string log = log_refusal();
  const MutexLock lock(mutex_);
  std::vector<std::string> refusals = refusals_;
  if (!log.empty()) refusals.push_back(log);
  files_.look_at_files(refusals, updates);
  for (const AlarmWatch::Line& line : files_.take_lines())
    line.warns ? log_warn(kRecorder, line.text) : log_info(kRecorder, line.text);
  return files_.take_raised();
}

void RunReport::write_held() {
  if (!held_) return;
  folder_.write_metrics(held_->figures.json);
  folder_.write_scalars(held_->wall_time, static_cast<int64_t>(held_->env_steps), held_->figures.scalars);
  written_ = held_->env_steps;
  held_.reset();
  note_refusals();
}

void RunReport::show(const StatsSnapshot& snapshot) {
  {
    const MutexLock lock(mutex_);
    note_end(snapshot);
    last_ = snapshot;
    verdicts_.add(snapshot);
    if (snapshot.warmup) {
      warmup_ = *snapshot.warmup;
      warmed_up_ = std::chrono::steady_clock::now();
    }
  }
  const std::vector<RaisedAlarm> of_files = look_at_files(snapshot.updates);
  publish(snapshot);
  if (on_alarm_)
    for (const auto* alarms : {&snapshot.raised, &of_files})
      for (const RaisedAlarm& raised : *alarms) on_alarm_(raised);
  if (snapshot.warmup) return show_warmup(*snapshot.warmup);
  const StatsSnapshot shown = with_alarms(config_.deterministic ? with_times(snapshot) : snapshot);
  if (terminal_) {
    // Lines printed since the last draw stay: the block is drawn again below them.
    const uint64_t written = stderr_lines();
    if (std::exchange(stderr_lines_, written) != written && isatty(STDERR_FILENO) != 0) lines_drawn_ = 0;
    const TerminalSize size = terminal_size();
    const std::vector<std::string> lines =
        console_block(printable(config_.name, std::string::npos), shown, size.columns, size.drawable_rows());
    // If the terminal was made smaller, lines that have scrolled off its top cannot be overwritten.
    if (draw(console_redraw(lines, std::min(lines_drawn_, size.drawable_rows())), console_))
      lines_drawn_ = lines.size();
  } else {
    // The end of training and the end of the run make two reports, of the same if nothing was evaluated in between.
    const std::string line = console_line(shown, line_columns());
    const bool shown_before = std::exchange(last_line_, line) == line;
    if (!shown.training_ended || shown.evaluating || !shown_before) print_line(line, console_);
  }
}

// A line after the first step and then every ten seconds, and one at the end.
void RunReport::show_warmup(const WarmupState& warmup) {
  if (warmup.complete) return close_with(warmup_end_text(warmup, config_));
  const auto now = std::chrono::steady_clock::now();
  if (warmup.step == 0 || now < next_warmup_line_) return;
  next_warmup_line_ = now + std::chrono::seconds(10);
  print_line(warmup_text(warmup), console_);
}

// Snapshots of a deterministic run contain no times. For the console they are computed from the real clock.
StatsSnapshot RunReport::with_times(StatsSnapshot s) {
  const auto now = training_ended_ ? ended_ : std::chrono::steady_clock::now();
  const double span = std::chrono::duration<double>(now - std::exchange(reported_, now)).count();
  s.elapsed_seconds = std::chrono::duration<double>(now - begun_).count();
  s.rss_bytes = resident_bytes();
  const double trained = std::chrono::duration<double>(now - warmed_up_).count();
  if (!s.training_ended) s.eta_seconds = seconds_left(s.progress, progress_at_start(config_.stop, start_), trained);
  const auto before = std::exchange(shown_, std::pair(s.env_steps, s.updates));
  if (!before || span <= 0) return s;
  s.env_steps_per_second = static_cast<double>(s.env_steps - before->first) / span;
  s.updates_per_second = static_cast<double>(s.updates - before->second) / span;
  return s;
}

// Prints a line, and logs it.
void RunReport::close_with(const std::string& line) {
  print_line(line, console_);
  log_info("train", line);
}

// By the records that are written.
double RunReport::mean_speed_so_far() const {
  try {
    if (!folder_.disk().exists(metrics_file(folder_.path()))) return kUnknown;
    const Record last = read_last_records(folder_.disk(), folder_.path(), false).last;
    return recorded_speed(folder_.disk(), folder_.path(), last);
  } catch (const IoError&) {
    return kUnknown;
  }
}

std::string RunReport::summary_of(const RunOutcome& outcome, double wall_seconds, double after_training) const {
  RunFacts facts{.config = config_, .start = start_, .last = last_, .outcome = outcome, .warmup = warmup_};
  // One that failed hides no score of an earlier one.
  const bool scored = outcome.evaluation && outcome.evaluation->error.empty();
  facts.evaluation = scored || (!newest_ && start_.totals.evaluation.empty()) ? outcome.evaluation : newest_;
  facts.trained_seconds = wall_seconds - after_training;
  facts.after_training = after_training;
  facts.warmup_seconds = std::chrono::duration<double>(warmed_up_ - begun_).count();
  if (!folder_.ranking().empty()) facts.best = folder_.ranking().front();
  facts.lost_writes = folder_.lost_writes();
  facts.lost_log_lines = log_lines_lost();
  facts.expected_memory = expected_memory_;
  facts.undone_updates = undone_updates_;
  facts.has_checkpoint = folder_.has_saved();
  facts.verdicts = verdicts_;
  facts.mean_speed = mean_speed_so_far();
  return run_summary(facts);
}

std::string RunReport::finish(const RunOutcome& given, double wall_seconds) {
  RunOutcome outcome = given;
  outcome.version.number = std::max(given.version.number, last_.updates);  // 0 is given after some failures
  // A start that fails before its first update leaves what the summary says of the run as it is.
  const bool nothing_made = !outcome.error.empty() && outcome.version.number == start_.version.number;
  const bool keep_summary = nothing_made && start_.version.number > 0 && folder_.has_summary();
  std::string refused;
  const auto attempt = [&](const auto& write) {
    try {
      write();
    } catch (const IoError& error) {
      if (refused.empty()) refused = error.what();
    }
  };
  attempt([&] { write_held(); });
  // There was no step since the last line, so that it could not have the last evaluation.
  attempt([&] {
    if (!last_evaluation_.empty()) write_evaluation(std::exchange(last_evaluation_, {}));
  });
  const double after_training = training_ended_ ? seconds_since(ended_) : 0;
  if (!keep_summary) attempt([&] { folder_.write_summary(summary_of(outcome, wall_seconds, after_training)); });
  begin_closing_lines();
  const ExperienceWords& words = *kind_of(config_).words;
  close_with(ended_with(outcome) + " after " + format_counted(last_.env_steps, words.step) + ", " +
             format_counted(outcome.version.number, "update") + ", " +
             format_seconds(start_.totals.elapsed_seconds + wall_seconds - after_training));
  if (warmup_.step > 0 && !warmup_.complete)
    close_with("warm-up: stopped after step " + format_count(warmup_.step) + " of at most " + format_count(warmup_.of));
  // The command prints the error that ended the run.
  if (outcome.error.empty() && env_failures_of(last_) > 0) close_with(failures_text(last_, words));
  if (const std::string failures = verifier_text(last_); !failures.empty()) close_with(failures);
  if (last_.uncounted_at_most > 0)
    close_with("uncounted: at most " + format_counted(last_.uncounted_at_most, words.sample) +
               " that killed workers made");
  if (outcome.evaluation && outcome.evaluation->error.empty())
    close_with(evaluation_text(*outcome.evaluation, config_));
  if (!outcome.evaluation && newest_) close_with(evaluation_after_text(*newest_, config_));
  if (!outcome.evaluation && outcome.error.empty() && outcome.reason != kInterrupted)
    close_with("evaluation: stopped before its end, so there is no result; the same command starts it again");
  if (!folder_.ranking().empty()) {
    const CheckpointScore& best = folder_.ranking().front();
    close_with("best checkpoint: after " + format_counted(best.updates, "update") + ", " + words.episode_return + ' ' +
               format_number(best.return_mean, 2));
  }
  if (const std::string verdicts = verdicts_.text(); !verdicts.empty()) close_with("bottleneck: " + verdicts);
  if (const std::string lost = lost_text(folder_.lost_writes(), log_lines_lost()); !lost.empty()) close_with(lost);
  if (const uint64_t peak = peak_resident_bytes(); peak > 0 && expected_memory_ > 0)
    close_with("peak memory " + format_bytes(peak) + ", estimated " + format_bytes(expected_memory_));
  print_line("Run folder: " + folder_.path(), console_);
  return refused;
}

}  // namespace troupe
