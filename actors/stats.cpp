#include "actors/stats.h"

#include <algorithm>
#include <cmath>

#include <caf/event_based_actor.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/state_bytes.h"
#include "runtime/caf_system.h"
#include "runtime/log.h"
#include "runtime/process_stats.h"

namespace troupe {

namespace {

constexpr std::chrono::seconds kShort{10}, kLong{60};
constexpr std::chrono::seconds kWorkerSilence{5};  // a worker reports every second
constexpr size_t kLatencyWindow = 8192;

double seconds(StatsCore::Clock::duration d) { return std::chrono::duration<double>(d).count(); }

template <class T>
double percentile(const std::deque<T>& values, double p) {
  if (values.empty()) return kUnknown;
  std::vector<T> sorted(values.begin(), values.end());
  const auto k = static_cast<size_t>(std::lround(p * static_cast<double>(sorted.size() - 1)));
  std::nth_element(sorted.begin(), sorted.begin() + static_cast<std::ptrdiff_t>(k), sorted.end());
  return static_cast<double>(sorted[k]);
}

// The smallest lag that at least a share p of all samples do not exceed.
double lag_percentile(const std::map<uint64_t, uint64_t>& counts, double p) {
  uint64_t total = 0, seen = 0;
  for (const auto& [lag, count] : counts) total += count;
  for (const auto& [lag, count] : counts) {
    seen += count;
    if (static_cast<double>(seen) >= p * static_cast<double>(total)) return static_cast<double>(lag);
  }
  return kUnknown;
}

template <class T>
void append_bounded(std::deque<T>& window, const Array& values, size_t limit) {
  if (values.empty()) return;
  for (T value : values.view<T>()) window.push_back(value);
  while (window.size() > limit) window.pop_front();
}

}  // namespace

void StatsCore::Rate::add(Clock::time_point now, uint64_t count) {
  points.emplace_back(now, count);
  while (points.size() > 2 && now - points[1].first > kLong) points.pop_front();
}

double StatsCore::Rate::over(Clock::time_point now, std::chrono::seconds window) const {
  if (points.size() < 2) return kUnknown;
  auto first = points.begin();
  while (std::next(first, 2) != points.end() && now - std::next(first)->first >= window) ++first;
  const double span = seconds(points.back().first - first->first);
  return span <= 0 ? kUnknown : static_cast<double>(points.back().second - first->second) / span;
}

StatsCore::StatsCore(const RunConfig& config, bool reports_success, Clock::time_point started, PolicyVersion first,
                     uint64_t env_steps)
    : config_(config), reports_success_(reports_success), started_(started), published_(first) {
  const Clock::time_point now = started;
  now_.lag_bound = static_cast<uint64_t>(config.replay.max_policy_lag);
  now_.updates = first.number;
  now_.env_steps = env_steps;
  env_rate_.add(now, env_steps);
  update_rate_.add(now, first.number);
}

void StatsCore::add(const WorkerReport& report, Clock::time_point now) { workers_[report.worker] = {report, now}; }

void StatsCore::add(const Episodes& episodes) {
  const auto returns = episodes.returns.view<float>();
  const auto lengths = episodes.lengths.view<int32_t>();
  const auto success = episodes.success.view<uint8_t>();
  const auto limit = static_cast<size_t>(config_.stats.window);
  for (size_t i = 0; i < returns.size(); ++i) {
    returns_.emplace_back(returns[i], lengths[i]);
    successes_.push_back(success[i]);
  }
  now_.episodes += returns.size();
  while (returns_.size() > limit) returns_.pop_front();
  while (successes_.size() > limit) successes_.pop_front();
}

void StatsCore::add(const InferenceReport& report) {
  append_bounded<int32_t>(batch_rows_, report.batch_rows, kLatencyWindow);
  append_bounded<float>(latency_us_, report.latency_us, kLatencyWindow);
  InferenceReport& counts = receivers_[report.receiver].report = report;
  counts.batch_rows = counts.latency_us = {};
}

void StatsCore::add(const Applied& applied) { receivers_[applied.receiver].applied = applied.version; }

void StatsCore::add(const ReceiverGone& gone) { receivers_[gone.receiver].gone = true; }

uint64_t StatsCore::behind(const Receiver& receiver) const {
  return receiver.applied ? published_.number - std::min(published_.number, receiver.applied->number) : 0;
}

std::vector<std::string> StatsCore::alarms() {
  std::vector<std::string> lines;
  for (auto& [id, receiver] : receivers_) {
    const uint64_t now = behind(receiver);
    const bool falls_back = now > receiver.behind_before || (now > 0 && receiver.applied == receiver.applied_before);
    receiver.strikes = falls_back && !receiver.gone ? receiver.strikes + 1 : 0;
    if (receiver.strikes == kAlarmLooks)
      lines.push_back("inference " + std::to_string(id) + " falls behind: it applied version " +
                      receiver.applied->text() + ", " + std::to_string(now) + " before the newest");
    receiver.behind_before = now;
    receiver.applied_before = receiver.applied;
  }
  return lines;
}

void StatsCore::add(const ReplayReport& report) {
  now_.ledger = report.ledger;
  now_.env_steps = report.env_steps;
  now_.workers_up = report.workers;
  now_.reuse = report.reuse;
  for (const auto& [lag, samples] : report.lags) lag_counts_[lag] += samples;
}

void StatsCore::add(const UpdateMessage& update, Clock::time_point now) {
  if (std::isnan(now_.seconds_to_first_update)) now_.seconds_to_first_update = seconds(now - started_);
  now_.updates = update.version.number;
  published_ = update.version;
  wait_seconds_ += update.wait_seconds;
  update_seconds_ += update.update_seconds;
  now_.learner = update.report->metrics;
  now_.skipped_steps += update.report->skipped;
}

void StatsCore::add(const Evaluation& evaluation) {
  EvaluationResult& result = now_.evaluation.emplace();
  result.updates = evaluation.version.number;
  result.episodes = evaluation.episodes;
  result.return_mean = evaluation.return_mean;
  result.return_std = evaluation.return_std;
  result.length_mean = evaluation.length_mean;
  result.success_rate = evaluation.success_rate;
}

StatsSnapshot StatsCore::snapshot(Clock::time_point now) {
  StatsSnapshot s = now_;
  s.elapsed_seconds = seconds(now - started_);
  env_rate_.add(now, s.env_steps);
  update_rate_.add(now, s.updates);
  s.env_steps_per_second = env_rate_.over(now, kShort);
  s.env_steps_per_second_60s = env_rate_.over(now, kLong);
  s.updates_per_second = update_rate_.over(now, kShort);
  const StopConfig& stop = config_.stop;
  s.progress = 0;
  if (stop.env_steps > 0)
    s.progress = std::max(s.progress, static_cast<double>(s.env_steps) / static_cast<double>(stop.env_steps));
  if (stop.updates > 0)
    s.progress = std::max(s.progress, static_cast<double>(s.updates) / static_cast<double>(stop.updates));
  if (stop.seconds > 0) s.progress = std::max(s.progress, s.elapsed_seconds / stop.seconds);
  s.progress = std::min(s.progress, 1.0);
  if (s.progress > 0) s.eta_seconds = s.elapsed_seconds * (1 - s.progress) / s.progress;
  s.lag_p50 = lag_percentile(lag_counts_, 0.5);
  s.lag_p95 = lag_percentile(lag_counts_, 0.95);
  s.lag_max = lag_counts_.empty() ? kUnknown : static_cast<double>(lag_counts_.rbegin()->first);
  s.batch_size_p50 = percentile(batch_rows_, 0.5);
  s.inference_p50_ms = percentile(latency_us_, 0.5) / 1000;
  s.inference_p99_ms = percentile(latency_us_, 0.99) / 1000;
  for (const auto& [id, receiver] : receivers_) {
    const InferenceReport& report = receiver.report;
    s.batches_full += report.full;
    s.batches_timeout += report.timeout;
    s.batches_all_waiting += report.all_waiting;
    s.batches_failed += report.failed;
    const std::string name = "inference " + std::to_string(id);
    s.rows_served[name] = report.rows;
    if (receiver.applied && !receiver.gone) s.weights_behind[name] = behind(receiver);
  }
  if (wait_seconds_ + update_seconds_ > 0) s.trainer_wait_fraction = wait_seconds_ / (wait_seconds_ + update_seconds_);
  if (!returns_.empty()) {
    const auto count = static_cast<double>(returns_.size());
    double sum = 0, squares = 0, lengths = 0, successes = 0;
    for (const auto& [value, length] : returns_) {
      sum += value;
      lengths += length;
    }
    for (uint8_t success : successes_) successes += success;
    s.return_mean = sum / count;
    for (const auto& [value, length] : returns_) squares += (value - s.return_mean) * (value - s.return_mean);
    s.return_std = std::sqrt(squares / count);
    s.length_mean = lengths / count;
    if (reports_success_) s.success_rate = successes / count;
  }
  for (const auto& [id, worker] : workers_) {
    if (worker.report.env_failures > 0) s.env_failures[config_.env.id] += worker.report.env_failures;
    s.request_retries += worker.report.retries;
    if (now - worker.at <= kWorkerSilence) s.quarantined += worker.report.quarantined;
    if (!worker.report.last_error.empty()) s.last_error = worker.report.last_error;
  }
  s.workers_total = workers_.size();
  s.rss_bytes = resident_bytes();
  if (config_.deterministic) forget_times(s);
  return s;
}

bool StatsCore::take_due() {
  if (now_.updates <= reported_ || now_.updates % static_cast<uint64_t>(config_.stats.every_updates) != 0) return false;
  reported_ = now_.updates;
  return true;
}

std::string StatsCore::save(Clock::time_point now) const {
  std::vector<float> returns;
  std::vector<int32_t> lengths;
  for (const auto& [value, length] : returns_) {
    returns.push_back(value);
    lengths.push_back(length);
  }
  std::vector<std::pair<std::string, WireDouble>> learner(now_.learner.begin(), now_.learner.end());
  std::vector<std::pair<WorkerReport, int64_t>> workers;  // with the time since they reported
  for (const auto& [id, seen] : workers_) {
    workers.emplace_back(seen.report, (now - seen.at).count());
    workers.back().first.rss_bytes = 0;
  }
  std::vector<std::pair<InferenceReport, bool>> receivers;
  for (const auto& [id, receiver] : receivers_) receivers.emplace_back(receiver.report, receiver.gone);
  const EvaluationResult e = now_.evaluation.value_or(EvaluationResult{});
  return to_bytes(
      now_.env_steps, now_.updates, WireDouble(now_.reuse), now_.ledger, now_.episodes, learner, now_.workers_up,
      now_.skipped_steps, now_.evaluation.has_value(), e.updates, e.episodes, WireDouble(e.return_mean),
      WireDouble(e.return_std), WireDouble(e.length_mean), WireDouble(e.success_rate), lag_counts_,
      Array::of<float>({static_cast<int64_t>(returns.size())}, returns), lengths,
      std::vector<uint8_t>(successes_.begin(), successes_.end()),
      std::vector<int32_t>(batch_rows_.begin(), batch_rows_.end()), workers, receivers, published_, reported_);
}

void StatsCore::load(const std::string& bytes, Clock::time_point now) {
  WireDouble reuse, return_mean, return_std, length_mean, success_rate;
  EvaluationResult e;
  bool evaluated = false;
  std::vector<std::pair<std::string, WireDouble>> learner;
  Array returns;
  std::vector<int32_t> lengths, batch_rows;
  std::vector<uint8_t> successes;
  std::vector<std::pair<WorkerReport, int64_t>> workers;
  std::vector<std::pair<InferenceReport, bool>> receivers;
  from_bytes(bytes, "stats", now_.env_steps, now_.updates, reuse, now_.ledger, now_.episodes, learner, now_.workers_up,
             now_.skipped_steps, evaluated, e.updates, e.episodes, return_mean, return_std, length_mean, success_rate,
             lag_counts_, returns, lengths, successes, batch_rows, workers, receivers, published_, reported_);
  now_.reuse = reuse;
  now_.learner = {learner.begin(), learner.end()};
  e.return_mean = return_mean;
  e.return_std = return_std;
  e.length_mean = length_mean;
  e.success_rate = success_rate;
  if (evaluated) now_.evaluation = e;
  for (size_t i = 0; i < lengths.size(); ++i) returns_.emplace_back(returns.view<float>()[i], lengths[i]);
  successes_.assign(successes.begin(), successes.end());
  batch_rows_.assign(batch_rows.begin(), batch_rows.end());
  for (const auto& [report, age] : workers) workers_[report.worker] = {report, now - Clock::duration(age)};
  for (const auto& [report, gone] : receivers) {
    receivers_[report.receiver].report = report;
    receivers_[report.receiver].gone = gone;
  }
}

StatsActor::behavior_type stats_actor(StatsActor::stateful_pointer<StatsState> self, WiringPtr wiring,
                                      RecorderActor recorder, PolicyVersion first, uint64_t env_steps) {
  guard(self);
  self->state.core = std::make_unique<StatsCore>(wiring->config, wiring->spec.reports_success,
                                                 wiring->started.value_or(self->clock().now()), first, env_steps);
  const auto interval = wiring->config.stats.interval;
  const auto emit = [self, recorder] {
    self->send(recorder,
               SnapshotMessage{std::make_shared<const StatsSnapshot>(self->state.core->snapshot(self->clock().now()))});
  };
  if (const std::string* state = wiring->state_of("stats"))
    restoring([&] { self->state.core->load(*state, self->clock().now()); });
  beat_after(self, *wiring, interval);
  return {
      [self](const WorkerReport& report) { self->state.core->add(report, self->clock().now()); },
      [self](const Episodes& episodes) { self->state.core->add(episodes); },
      [self](const InferenceReport& report) { self->state.core->add(report); },
      [self](const Applied& applied) { self->state.core->add(applied); },
      [self](const ReceiverGone& gone) { self->state.core->add(gone); },
      [self](const ReplayReport& report) { self->state.core->add(report); },
      [self](const UpdateMessage& update) { self->state.core->add(update, self->clock().now()); },
      [self](const Evaluation& evaluation) { self->state.core->add(evaluation); },
      [self, wiring, emit, interval](beat_atom) {
        if (!wiring->in_turns || self->state.core->take_due()) emit();
        for (const std::string& line : self->state.core->alarms()) log_warn("stats", line);
        beat_after(self, *wiring, interval);
      },
      [self](const SaveMessage& save) {
        self->send(save.recorder, ActorState{"stats", self->state.core->save(self->clock().now())});
      },
      [self, emit, recorder](const Stop& stop) {
        emit();
        self->send(recorder, stop);
        self->quit();
      },
  };
}

}  // namespace troupe
