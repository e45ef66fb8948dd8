#include "actors/sampling_watch.h"

#include <algorithm>
#include <utility>

namespace troupe {

void SamplingWatch::joined(uint64_t worker, Clock::time_point now) {
  forget_the_absent(now);
  workers_[worker] = {now};
}

void SamplingWatch::left(uint64_t worker, bool failed) {
  workers_.erase(worker);
  if (!failed && workers_.empty()) failing_since_.reset();
}

void SamplingWatch::stepped(uint64_t worker, uint64_t env_steps, std::chrono::microseconds stepping,
                            Clock::time_point now) {
  const auto it = workers_.find(worker);
  if (it == workers_.end()) return;
  follow(it->second);
  it->second.stepping = stepping;
  if (env_steps <= it->second.env_steps) return;
  it->second.env_steps = env_steps;
  sampled(now);
}

// Steps are frequent and workers may be many, so what a step changes in each worker is done when that one reports.
void SamplingWatch::follow(Worker& worker) const {
  if (std::exchange(worker.followed, steps_) != steps_) worker.stepping_then = worker.stepping;
}

void SamplingWatch::sampled(Clock::time_point now) {
  failing_since_.reset();
  last_step_ = now;
  ++steps_;
}

void SamplingWatch::failing(uint64_t worker, const std::string& error, Clock::time_point now) {
  forget_the_absent(now);
  Clock::time_point since = now;
  if (const auto it = workers_.find(worker); it != workers_.end()) {
    it->second.failed = now;
    it->second.steps_then = steps_;
    follow(it->second);
    // Whole seconds, so that the short real time of calls has no effect where time is simulated. A deterministic run
    // that ends because of longer ones has hung, which depends on real time already.
    const auto in_vain = std::chrono::floor<std::chrono::seconds>(it->second.stepping - it->second.stepping_then);
    since -= std::clamp<Clock::duration>(in_vain, Clock::duration(0), patience_);
  }
  // Not where the clock stands still in calls: what they took would be no time since the last step.
  if (last_step_ && !deterministic_) since = std::max(since, *last_step_);
  failing_since_ = failing_since_ ? std::min(*failing_since_, since) : since;
  last_failure_ = now;
  error_ = error;
}

void SamplingWatch::forget_the_absent(Clock::time_point now) {
  if (workers_.empty() && now - last_failure_ > kAbsence) failing_since_.reset();
}

std::optional<std::string> SamplingWatch::verdict(Clock::time_point now) const {
  if (patience_.count() == 0 || !failing_since_ || now - *failing_since_ < patience_) return std::nullopt;
  if (workers_.empty() && now - last_failure_ > kNew) return std::nullopt;  // no worker is left that could fail
  const bool hopeful = std::ranges::any_of(workers_, [&](const auto& entry) {
    const Worker& worker = entry.second;
    const bool fails =
        worker.failed && worker.steps_then == steps_ && (deterministic_ || now - *worker.failed <= kSilence);
    return !fails && now - worker.joined >= kNew;
  });
  if (hopeful) return std::nullopt;
  const std::string time = std::to_string(patience_.count()) + " ms";
  return std::string(nothing_sampled_) + " for " + time +
         " (workers.failure_timeout_ms) because all of them fail; the last error: " + error_;
}

}  // namespace troupe
