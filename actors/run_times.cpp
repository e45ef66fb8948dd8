#include "actors/run_times.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "actors/experience/common/state_bytes.h"

namespace troupe {

namespace {

constexpr std::chrono::seconds kRecent{10};
constexpr size_t kMostUpdates = 4096;  // whose stages are kept, and transfers
constexpr size_t kMostVersions = 256;  // whose transfer is measured
constexpr double UpdateStages::* kOfTrainer[] = {&UpdateStages::prepare, &UpdateStages::forward,
                                                 &UpdateStages::backward, &UpdateStages::optimizer,
                                                 &UpdateStages::exchange};
constexpr double UpdateStages::* kAll[] = {&UpdateStages::draw,      &UpdateStages::collate,  &UpdateStages::copy,
                                           &UpdateStages::prepare,   &UpdateStages::forward,  &UpdateStages::backward,
                                           &UpdateStages::optimizer, &UpdateStages::exchange, &UpdateStages::publish};

}  // namespace

double RunTimes::Growth::mean(const Histogram& histogram, Clock::time_point now) {
  nanoseconds.add(now, static_cast<uint64_t>(std::min(1e9 * histogram.sum(), 1e18)));
  count.add(now, histogram.count());
  return nanoseconds.over(now, kRecent) / count.over(now, kRecent) / 1e9;
}

void RunTimes::add(const InferenceReport& report) {
  if (!report.batch_rows.empty())
    for (const int32_t rows : report.batch_rows.view<int32_t>()) histograms_.batch_rows.add(rows);
  if (!report.latency_us.empty())
    for (const float latency : report.latency_us.view<float>()) histograms_.inference_seconds.add(1e-6 * latency);
}

std::optional<std::string> RunTimes::add(const WorkerReport& report) {
  const bool steps = histograms_.step_seconds.add(report.times.step_seconds);
  const bool answers = histograms_.answer_seconds.add(report.times.answer_seconds);
  return steps && answers ? std::nullopt : std::optional<std::string>("its times are impossible");
}

void RunTimes::add(const ReplayReport& report) {
  for (const LagCounts& lags : report.lags)
    for (const auto& [lag, samples] : lags) histograms_.lag.add(static_cast<double>(lag), samples);
}

void RunTimes::add(const UpdateMessage& update, Clock::time_point now) {
  histograms_.update_seconds.add(update.update_seconds);
  UpdateStages stages = update.report->stages;
  stages.publish = update.update_seconds;
  for (const auto stage : kOfTrainer) stages.publish -= stages.*stage;
  stages.publish = std::max(stages.publish, 0.0);
  updates_.emplace_back(now, stages);
  published_[update.version.number] = now;
  if (published_.size() > kMostVersions) published_.erase(published_.begin());
  forget_old(now);
}

// Weights may be applied before the message about their update is here.
void RunTimes::add(const Applied& applied, Clock::time_point now) {
  if (published_.empty() || applied.version.number < published_.begin()->first) return;
  const auto published = published_.find(applied.version.number);
  const double seconds =
      published == published_.end() ? 0 : std::chrono::duration<double>(now - published->second).count();
  transfers_.emplace_back(now, seconds);
  forget_old(now);
}

void RunTimes::forget_old(Clock::time_point now) {
  const auto forget = [&](auto& newest) {
    while (newest.size() > 1 && (now - newest.front().first > kRecent || newest.size() > kMostUpdates))
      newest.pop_front();
  };
  forget(updates_);
  forget(transfers_);
}

void RunTimes::fill(StatsSnapshot& snapshot, Clock::time_point now) {
  snapshot.histograms = histograms_;
  snapshot.joined_actors = joined_.times(now);
  snapshot.stages.env_step = env_steps_.mean(histograms_.step_seconds, now);
  snapshot.stages.answer = answers_.mean(histograms_.answer_seconds, now);
  forget_old(now);
  if (!transfers_.empty()) {
    double sum = 0;
    for (const auto& [at, seconds] : transfers_) sum += seconds;
    snapshot.stages.transfer = sum / static_cast<double>(transfers_.size());
  }
  if (updates_.empty()) return;
  UpdateStages& mean = snapshot.stages.update.emplace();
  for (const auto& [end, stages] : updates_)
    for (const auto stage : kAll) mean.*stage += stages.*stage / static_cast<double>(updates_.size());
}

void RunTimes::fill_actors(StatsSnapshot& snapshot, const std::map<std::string, ActorBoard::Figures>& figures,
                           Clock::time_point now) {
  ActorTimes& times = snapshot.actors.emplace();
  for (const auto& [kind, of_kind] : figures) {
    times.oldest_seconds[kind] = of_kind.oldest_seconds;
    const auto share = [&](Rate& rate, uint64_t us) {
      rate.add(now, us);
      return rate.over(now, kRecent) / 1e6 / static_cast<double>(of_kind.actors);
    };
    ActorRates& rates = actors_[kind];
    const double busy = std::min(share(rates.busy, of_kind.busy_us), 1.0);
    const double blocked = share(rates.blocked, of_kind.blocked_us);
    if (!std::isfinite(busy) || !std::isfinite(blocked)) continue;
    times.busy[kind] = busy;
    times.blocked[kind] = std::min(blocked, busy);
    times.waiting[kind] = 1 - busy;
  }
}

std::string RunTimes::save() const { return to_bytes(histograms_.lag.counts(), histograms_.batch_rows.counts()); }

void RunTimes::load(const std::string& bytes) {
  HistogramCounts lag, batch_rows;
  from_bytes(bytes, "histograms", lag, batch_rows);
  histograms_ = {};
  if (!histograms_.lag.add(lag) || !histograms_.batch_rows.add(batch_rows))
    throw std::runtime_error("histograms: their saved counts are impossible");
}

}  // namespace troupe
