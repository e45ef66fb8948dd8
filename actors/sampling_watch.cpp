#include "actors/sampling_watch.h"

#include <algorithm>

namespace troupe {

void SamplingWatch::joined(uint64_t worker, Clock::time_point now) {
  forget_the_absent(now);
  workers_[worker] = {now};
}

void SamplingWatch::left(uint64_t worker, bool failed) {
  workers_.erase(worker);
  if (!failed && workers_.empty()) failing_since_.reset();
}

void SamplingWatch::stepped(uint64_t worker, uint64_t env_steps) {
  const auto it = workers_.find(worker);
  if (it == workers_.end() || env_steps <= it->second.env_steps) return;
  it->second.env_steps = env_steps;
  sampled();
}

void SamplingWatch::sampled() {
  failing_since_.reset();
  ++steps_;
}

void SamplingWatch::failing(uint64_t worker, const std::string& error, Clock::time_point now) {
  forget_the_absent(now);
  if (!failing_since_) failing_since_ = now;
  last_failure_ = now;
  error_ = error;
  if (const auto it = workers_.find(worker); it != workers_.end()) {
    it->second.failed = now;
    it->second.steps_then = steps_;
  }
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
  return "no environment has made a step for " + std::to_string(patience_.count()) +
         " ms (workers.failure_timeout_ms) because all of them fail; the last error: " + error_;
}

}  // namespace troupe
