#pragma once
// SamplingWatch: whether the run still samples. It has failed when, for a given time, no worker has made an environment
// step and every worker's environments fail. A worker that is merely silent may still be inside a long step, and one
// without work has not failed, so either keeps the run alive. A run that no worker is left in waits for one. Owned by
// the replay actor; plain logic, one thread; times come from the caller.

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "runtime/stats/experience_words.h"

namespace troupe {

class SamplingWatch {
 public:
  using Clock = std::chrono::steady_clock;

  // A new worker is not waited for during this time: one that keeps being restarted is always new.
  static constexpr std::chrono::seconds kNew{5};
  // A worker that ended with an error and is started again is back within this time, its longest pause and the making
  // of its environments included. Where all workers were away for longer, the time begins anew with those that come.
  static constexpr std::chrono::seconds kAbsence{30};
  // A worker whose environments fail says so every second: one that is silent for longer is inside a step or a start.
  static constexpr std::chrono::seconds kSilence{5};

  // `patience` 0 = never fails. `deterministic` (see RunContext): the clock of the caller stands still in a step, and a
  // worker says that its environments fail only when it has made one, so that its silence means nothing.
  explicit SamplingWatch(std::chrono::milliseconds patience, bool deterministic = false,
                         const ExperienceWords& words = kStepWords)
      : patience_(patience), deterministic_(deterministic), nothing_sampled_(words.nothing_sampled) {}

  void joined(uint64_t worker, Clock::time_point now);
  // `failed`: it ended with an error and will be started again, so the time since the last step keeps counting.
  // Otherwise it left the run: it was stopped, killed, or its connection was lost. After the last worker has left, the
  // time starts at 0 when the next one joins.
  void left(uint64_t worker, bool failed);
  // A worker has made this many environment steps since it began, and was inside its environments for `stepping`.
  void stepped(uint64_t worker, uint64_t env_steps, std::chrono::microseconds stepping, Clock::time_point now);
  // Samples have arrived.
  void sampled(Clock::time_point now);
  // All environments of a worker failed when they were last started or stepped. It may have ended, or never have
  // joined. The time without a step counts from where its environments were called in vain, so that calls that do not
  // return until their own limit of time are part of it.
  void failing(uint64_t worker, const std::string& error, Clock::time_point now);

  // Why sampling has failed; nothing while it may go on.
  std::optional<std::string> verdict(Clock::time_point now) const;

 private:
  struct Worker {
    Clock::time_point joined;
    uint64_t env_steps = 0;
    // Inside its environments: as last reported, and of it what was before the last step of any worker.
    std::chrono::microseconds stepping{0}, stepping_then{0};
    uint64_t followed = 0;  // SamplingWatch::steps_ that stepping_then is about
    // When it last said that all of its environments fail; counts only if no worker has made a step since.
    std::optional<Clock::time_point> failed;
    uint64_t steps_then = 0;
  };

  // Called before somebody comes or fails.
  void follow(Worker& worker) const;
  void forget_the_absent(Clock::time_point now);

  std::chrono::milliseconds patience_;
  bool deterministic_;
  const char* nothing_sampled_;
  std::map<uint64_t, Worker> workers_;
  uint64_t steps_ = 0;  // how often a worker has made steps
  std::optional<Clock::time_point> last_step_;
  std::optional<Clock::time_point> failing_since_;  // since the last step of any worker
  Clock::time_point last_failure_;
  std::string error_;  // the last one
};

}  // namespace troupe
