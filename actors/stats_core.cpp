#include "actors/stats_core.h"

#include <algorithm>
#include <cmath>

#include "actors/alarm_facts.h"
#include "actors/experience/common/state_bytes.h"
#include "actors/experience/kinds.h"
#include "actors/percentiles.h"
#include "actors/run_progress.h"
#include "algorithms/advantages/advantages.h"
#include "runtime/base/child_memory.h"
#include "runtime/base/log.h"
#include "runtime/base/machine.h"
#include "runtime/base/process_stats.h"

namespace troupe {

namespace {

constexpr std::chrono::seconds kShort{10}, kLong{60};

double seconds(StatsCore::Clock::duration d) { return std::chrono::duration<double>(d).count(); }

double ratio(uint64_t sum, uint64_t count) { return static_cast<double>(sum) / static_cast<double>(count); }

// Of the means of returns. Answers to a prompt are alike, so that they need more of them than episodes.
int64_t window_of(const RunConfig& config) {
  return is_token_run(config) ? std::max(config.stats.window, config.trainer.super_batch) : config.stats.window;
}

}  // namespace

StatsCore::StatsCore(const RunConfig& config, bool reports_success, Clock::time_point started, const ReplayStart& start,
                     const ActionSpec* action)
    : config_(config),
      reports_success_(reports_success),
      started_(started),
      training_started_(started),
      start_(start),
      progress_before_(progress_at_start(config.stop, start)),
      points_(config, start.ledger.produced),
      point_env_steps_(start.env_steps),
      episodes_(static_cast<size_t>(window_of(config))),
      recent_(start, started),
      alarms_(alarm_facts(config, window_of(config), action)),
      answers_(config, static_cast<size_t>(window_of(config))),
      workers_(config, start.totals.env_failures, start.totals.request_retries),
      receivers_(config.deterministic),
      published_(start.version) {
  now_.inference_own = static_cast<uint64_t>(config.inference.count);
  now_.several_epochs = config.trainer.epochs > 1;
  now_.ranks_total = static_cast<uint64_t>(config.trainer.ranks);
  now_.rank_threads = static_cast<uint64_t>(config.trainer.threads);
  add(RanksMessage{1, config.deterministic || now_.ranks_total == 1});
  now_.needs_scorers = has_scorers(config);
  now_.words = kind_of(config).words;
  now_.lag_cap = static_cast<uint64_t>(config.replay.max_policy_lag);
  now_.updates = start.version.number;
  now_.env_steps = start.env_steps;
  now_.ledger = start.ledger;
  now_.uncounted_at_most = start.uncounted;
  now_.episodes = start_.totals.episodes;
  now_.skipped_steps = start_.totals.skipped_steps;
  recall(start_.totals);
  evaluated_ = start_.totals.open_evaluations;
  if (config.deterministic) now_.failed_evaluations = start_.totals.failed_evaluations;
  now_.failed_evaluations.count = start_.totals.failed_evaluations.count;
  begin_rates(started);
}

// The rates of steps, updates and tokens count from one moment, so that their quotients are means.
void StatsCore::begin_rates(Clock::time_point now) {
  env_rate_.add(now, now_.env_steps);
  update_rate_.add(now, now_.updates);
  tokens_rate_.add(now, answer_tokens());
  trained_tokens_rate_.add(now, trained_tokens());
}

// Training does not depend on them, and a checkpoint of another version of this program may hold others.
void StatsCore::recall(const StatsTotals& totals) {
  try {
    if (!totals.window.empty()) episodes_.load(totals.window);
  } catch (const std::runtime_error& unreadable) {
    log_warn("stats", std::string(unreadable.what()) + ": the statistics window begins anew");
  }
  try {
    if (!totals.alarms.empty()) from_bytes(totals.alarms, "alarms", alarms_);
  } catch (const std::runtime_error& unreadable) {
    alarms_ = AlarmWatch(alarms_.facts());
    log_warn("stats", std::string(unreadable.what()) + ": the alarms compare with this start alone");
  }
}

void StatsCore::begin_training(Clock::time_point now) {
  training_started_ = now;
  for (Rate* rate : {&env_rate_, &update_rate_, &tokens_rate_, &trained_tokens_rate_, &workers_covered_, &workers_busy_,
                     &stepping_busy_, &inference_busy_, &scorers_busy_, &replay_busy_, &prefetcher_busy_,
                     &trainer_busy_, &credit_wait_, &action_wait_})
    *rate = {};
  machine_.begin_anew();
  verdicts_ = VerdictHold(now);
  begin_rates(now);
}

std::optional<std::string> StatsCore::add(const WorkerReport& report, Clock::time_point now) {
  if (auto why = workers_.add(report, now)) return why;
  return times_.add(report);
}

void StatsCore::add(const InferenceReport& report) {
  if (report.role == Role::scoring) return scorers_.add(report);
  batches_.add(report);
  receivers_.add(report);
  times_.add(report);
}

void StatsCore::add(const Applied& applied, Clock::time_point now) {
  if (receivers_.add(applied)) times_.add(applied, now);
}

void StatsCore::add(const ReceiverGone& gone) {
  gone.role == Role::scoring ? scorers_.add(gone) : receivers_.add(gone);
}

void StatsCore::note(const TokenFigures& tokens) {
  tokens_ = tokens;
  answers_.note(tokens);
  const SampleTokens &produced = tokens.produced, &trained = tokens.trained, &dropped = tokens.dropped;
  if (produced.samples > 0) now_.produced_length = ratio(produced.tokens, produced.samples);
  if (trained.samples > 0) now_.trained_length = ratio(trained.tokens, trained.samples);
  if (dropped.samples > 0) now_.dropped_length = ratio(dropped.tokens, dropped.samples);
  now_.masked_tokens = tokens.masked;
}

void StatsCore::add(const RanksMessage& ranks) {
  now_.ranks_up = ranks.up;
  now_.waits_for_ranks = !ranks.complete;
  machine_.set_ranks(ranks.processes_here);
  now_.ranks_here = machine_.ranks().size() + 1;
  if (config_.trainer.device == "cpu") now_.rank_processors = processors(machine_.ranks());
}

void StatsCore::add(const ReplayReport& report, Clock::time_point now) {
  now_.ledger = report.ledger;
  now_.env_steps = report.env_steps;
  now_.workers_up = report.workers;
  now_.workers_total = report.workers_total;
  now_.uncounted_at_most = report.uncounted;
  now_.reuse = report.reuse;
  now_.late_wait_seconds = report.late_wait_seconds;
  note(report.tokens);
  busy_.replay = report.busy_us;
  times_.add(report);
  if (report.training_ended) end_training(now);
  for (const LagCounts& lags : report.lags) lags_.push_back(lags);
  while (lags_.size() > kLagBatches) lags_.pop_front();
  for (const Episodes& episodes : report.episodes) {
    now_.episodes += static_cast<uint64_t>(episodes.count());
    episodes_.add(episodes);
  }
  if (report.update) add(*report.update, now);
}

void StatsCore::add(const UpdateMessage& update, Clock::time_point now) {
  if (std::isnan(now_.seconds_to_first_update)) now_.seconds_to_first_update = seconds(now - started_);
  now_.updates = update.version.number;
  published_ = update.version;
  wait_seconds_ += update.wait_seconds;
  update_seconds_ += update.update_seconds;
  recent_.add(update, now);
  times_.add(update, now);
  busy_.trainer += static_cast<uint64_t>(1e6 * update.update_seconds);
  busy_.prefetcher += static_cast<uint64_t>(1e6 * update.stage_seconds);
  for (LearnerFigures* figures : {&point_figures_, &view_figures_}) figures->add(update.report->metrics);
  now_.skipped_steps += update.report->skipped;
  const EpisodeWindow::Summary returns = episodes_.full() ? episodes_.summary() : EpisodeWindow(0).summary();
  alarms_.add({.number = now_.updates,
               .metrics = update.report->metrics,
               .skipped_steps = update.report->skipped > 0,
               .progress = progress(seconds(now - training_started_)),
               .return_mean = returns.return_mean,
               .return_std = returns.return_std,
               .newest_return_mean = episodes_.full() ? episodes_.newest_return_mean() : kUnknown,
               .success_rate = reports_success_ ? returns.success_rate : kUnknown});
  keep_for_evaluation(update, now);
}

// Keeps what the run is after an update that is evaluated.
void StatsCore::keep_for_evaluation(const UpdateMessage& update, Clock::time_point now) {
  const auto every = static_cast<uint64_t>(config_.evaluation.every_updates);
  if (every == 0 || now_.updates % every != 0) return;
  StatsSnapshot s = snapshot(now);
  s.evaluation.reset();
  s.evaluating.reset();
  s.learner = update.report->metrics;
  evaluated_[now_.updates] = to_json(s);
}

std::string StatsCore::add(const Evaluation& e, Clock::time_point now) {
  const uint64_t updates = e.version.number;
  if (now_.evaluating && now_.evaluating->updates == updates) now_.evaluating.reset();
  const auto kept = evaluated_.find(updates);
  std::string point = kept != evaluated_.end() ? std::move(kept->second) : "";
  evaluated_.erase(evaluated_.begin(), evaluated_.upper_bound(updates));
  const uint64_t env_steps = point.empty() ? now_.env_steps : count_in(point, "env_steps");
  if (!e.error.empty()) {
    const uint64_t count = now_.failed_evaluations.count + 1;
    now_.failed_evaluations = {count, updates, env_steps, e.episodes, e.failed_episodes, e.error};
    return "";
  }
  now_.evaluation = EvaluationResult{.updates = updates,
                                     .episodes = e.episodes,
                                     .return_mean = e.return_mean,
                                     .return_std = e.return_std,
                                     .length_mean = e.length_mean,
                                     .cut_fraction = e.cut_fraction,
                                     .success_rate = e.success_rate,
                                     .failed_episodes = e.failed_episodes,
                                     .env_steps = env_steps,
                                     .pass_at = e.pass_at};
  last_evaluated_ |= e.last;
  return point.empty() ? to_json(take_report(now)) : with_evaluation(point, *now_.evaluation);
}

bool StatsCore::take_point_due() { return points_.take_due(now_.ledger.produced) && has_new_steps(); }

StatsSnapshot StatsCore::take_point(Clock::time_point now) {
  StatsSnapshot result = snapshot(now);
  result.learner = point_figures_.take();
  if (!last_evaluated_) result.evaluation.reset();
  result.evaluating.reset();
  point_env_steps_ = result.env_steps;
  return result;
}

void StatsCore::add(const WarmupState& warmup) {
  const double before = now_.warmup ? now_.warmup->seconds : warmup.seconds;
  busy_.trainer += static_cast<uint64_t>(1e6 * std::max(warmup.seconds - before, 0.0));
  now_.warmup = warmup;
}

StatsSnapshot StatsCore::take_report(Clock::time_point now) {
  StatsSnapshot result = snapshot(now);
  result.learner = view_figures_.take();
  return result;
}

StatsSnapshot StatsCore::take_view(Clock::time_point now) {
  StatsSnapshot result = take_report(now);
  if (!now_.training_ended && !now_.warmup) {
    const bool compare = !config_.deterministic;  // a resumed run does not know which weights receivers had applied
    alarms_.look(result, compare ? receivers_.behind(published_) : std::vector<std::string>{}, now);
    result.alarms = alarms_.raised();
  }
  result.raised = alarms_.take_raised();
  return result;
}

StatsTotals StatsCore::totals(Clock::time_point now) const {
  StatsTotals totals;
  totals.episodes = now_.episodes;
  totals.env_failures = workers_.env_failures();
  totals.request_retries = workers_.retries();
  totals.skipped_steps = now_.skipped_steps;
  totals.evaluation = now_.evaluation ? to_json(*now_.evaluation) : start_.totals.evaluation;
  totals.failed_evaluations = now_.failed_evaluations.or_earlier(start_.totals.failed_evaluations);
  if (config_.deterministic) return totals;  // its checkpoints depend neither on time nor on the number of starts
  totals.elapsed_seconds = start_.totals.elapsed_seconds + seconds(in_training(now) - started_);
  totals.starts = start_.totals.starts + 1;
  totals.answer_tokens = answer_tokens();
  totals.trained_tokens = trained_tokens();
  totals.window = episodes_.save();
  totals.alarms = to_bytes(alarms_);
  totals.open_evaluations = evaluated_;
  return totals;
}

double StatsCore::progress(double seconds_of_training) const {
  return run_progress(config_.stop, now_.env_steps, now_.updates,
                      time_progress(config_.stop, seconds_of_training, start_));
}

void StatsCore::fill_progress(StatsSnapshot& s, Clock::time_point now) const {
  s.elapsed_seconds = start_.totals.elapsed_seconds + seconds(now - started_);
  const double trained = s.warmup ? 0 : seconds(now - training_started_);
  s.progress = progress(trained);
  const bool waits_for_ranks = now_.ranks_up < now_.ranks_total && update_seconds_ == 0;
  if (!s.training_ended && !waits_for_ranks) s.eta_seconds = seconds_left(s.progress, progress_before_, trained);
  s.env_steps_per_second = env_rate_.over(now, kShort);
  s.env_steps_per_second_60s = env_rate_.over(now, kLong);
  s.updates_per_second = update_rate_.over(now, kShort);
}

void StatsCore::fill_tokens(StatsSnapshot& s, Clock::time_point now) {
  tokens_rate_.add(now, answer_tokens());
  trained_tokens_rate_.add(now, trained_tokens());
  s.answer_tokens_per_second = tokens_rate_.over(now, kShort);
  s.trained_tokens_per_second = trained_tokens_rate_.over(now, kShort);
  s.answers = answers_.figures(episodes_);
  s.answers.tokens = answer_tokens();
  s.answers.trained_tokens = trained_tokens();
}

void StatsCore::fill_busy(StatsSnapshot& s, Clock::time_point now) {
  // Of `whole` microseconds a second. Updates are counted when they end, so within 10 s more of their time may be
  // counted than has passed.
  const auto share = [&](Rate& rate, uint64_t busy_us, double whole) {
    rate.add(now, busy_us);
    const double result = rate.over(now, kShort) / whole;
    return std::isfinite(result) ? std::min(result, 1.0) : kUnknown;
  };
  constexpr double kOne = 1e6;  // an actor
  // Of the time that the reports of workers are about, so that it does not matter when they come.
  const WorkerTable::Times& workers = workers_.times();
  workers_covered_.add(now, workers.covered);
  const double covered = workers_covered_.over(now, kShort);
  s.busy.workers = share(workers_busy_, workers.busy, covered);
  s.busy.stepping = share(stepping_busy_, workers.step, covered);
  s.busy.credit_wait = share(credit_wait_, workers.credit_wait, covered);
  s.busy.action_wait = share(action_wait_, workers.action_wait, covered);
  const auto inference = static_cast<double>(s.inference_up), scorers = static_cast<double>(s.scorers_up);
  if (receivers_.heard()) s.busy.inference = share(inference_busy_, receivers_.busy_us(), inference * kOne);
  s.busy.scorers = share(scorers_busy_, scorers_.busy_us(), scorers * kOne);
  s.busy.replay = share(replay_busy_, busy_.replay, kOne);
  s.busy.prefetcher = share(prefetcher_busy_, busy_.prefetcher, kOne);
  s.busy.trainer = share(trainer_busy_, busy_.trainer, kOne);
  machine_.fill(s.busy, now, kShort);
}

void StatsCore::fill_inference(StatsSnapshot& s) {
  batches_.fill(s);
  receivers_.fill(s, published_);
  scorers_.fill(s);
}

void StatsCore::fill_workers(StatsSnapshot& s, Clock::time_point now) const {
  if (const uint64_t failures = workers_.env_failures()) s.env_failures[env_or_task(config_)] = failures;
  workers_.fill(s, now);
  if (!s.training_ended) s.workers_starting = launched_workers_ - std::min(launched_workers_, s.workers_up);
}

StatsSnapshot StatsCore::snapshot(Clock::time_point real_now) {
  const Clock::time_point now = in_training(real_now);
  StatsSnapshot s = now_;
  env_rate_.add(now, s.env_steps);
  update_rate_.add(now, s.updates);
  fill_progress(s, now);
  if (now_.words->tokens) fill_tokens(s, now);
  fill_inference(s);
  fill_workers(s, now);
  if (!config_.deterministic) {
    fill_busy(s, now);
    if (board_) times_.fill_actors(s, board_->figures(real_now), now);
    s.recent = recent_.take(s, workers_.env_failures(), now);
    workers_.fill_spread(s.recent, now);
  }
  LagCounts lags;
  for (const LagCounts& of_batch : lags_)
    for (const auto& [lag, samples] : of_batch) lags[lag] += samples;
  s.lag_p50 = lag_percentile(lags, 0.5);
  s.lag_p95 = lag_percentile(lags, 0.95);
  s.lag_max = lags.empty() ? kUnknown : static_cast<double>(lags.rbegin()->first);
  if (wait_seconds_ + update_seconds_ > 0) s.trainer_wait_fraction = wait_seconds_ / (wait_seconds_ + update_seconds_);
  const EpisodeWindow::Summary episodes = episodes_.summary();
  s.return_mean = episodes.return_mean;
  s.return_std = episodes.return_std;
  s.length_mean = episodes.length_mean;
  s.return_parts = episodes_.part_means();
  s.tasks = episodes_.task_figures();
  if (reports_success_)
    s.success_rate = episodes.success_rate;
  else
    s.tasks.success_rate.clear();
  s.alarms = alarms_.raised();
  times_.fill(s, now);
  const WorkerTable::Memory memory = workers_.memory(now);
  s.rss_bytes = resident_bytes();
  s.worker_bytes = memory.workers;
  s.environment_bytes = memory.environments + resident_bytes(ChildKind::environment);
  s.verifier_bytes = memory.verifiers + resident_bytes(ChildKind::verifier);
  if (config_.deterministic)
    forget_times(s);
  else
    s.told_bottleneck = verdicts_.shown(s, now);
  return s;
}

bool StatsCore::take_due() {
  if (now_.updates <= reported_ || now_.updates % static_cast<uint64_t>(config_.stats.every_updates) != 0) return false;
  reported_ = now_.updates;
  return true;
}

}  // namespace troupe
