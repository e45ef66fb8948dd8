#pragma once
// RunTimes: makes the histograms and the seconds of stages in snapshots. Owned by stats; one thread.

#include <chrono>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "actors/joined_actors.h"
#include "actors/messages.h"
#include "actors/rate.h"
#include "runtime/stats/actor_board.h"
#include "runtime/stats/snapshot.h"

namespace troupe {

class RunTimes {
 public:
  using Clock = Rate::Clock;

  void add(const InferenceReport& report);
  // Why the times of the report are dropped: no worker can have measured them. Nothing when they count.
  std::optional<std::string> add(const WorkerReport& report);
  // As JoinedActors has it.
  std::optional<std::string> add(const std::string& process, const ProcessReport& report, Clock::time_point now) {
    return joined_.add(process, report, now);
  }
  void add(const ReplayReport& report);
  void add(const UpdateMessage& update, Clock::time_point now);
  void add(const Applied& applied, Clock::time_point now);
  void fill(StatsSnapshot& snapshot, Clock::time_point now);
  // `figures` are those of now.
  void fill_actors(StatsSnapshot& snapshot, const std::map<std::string, ActorBoard::Figures>& figures,
                   Clock::time_point now);

  // Of deterministic runs, whose times are unknown: the rest, and back.
  std::string save() const;
  void load(const std::string& bytes);

 private:
  // How the mean of a histogram's newest values is found.
  struct Growth {
    Rate nanoseconds, count;
    double mean(const Histogram& histogram, Clock::time_point now);
  };

  void forget_old(Clock::time_point now);

  RunHistograms histograms_;
  std::deque<std::pair<Clock::time_point, UpdateStages>>
      updates_;                                      // of the last 10 s, and at least one; no more than 4096
  std::map<uint64_t, Clock::time_point> published_;  // when the newest updates ended, by their weights' version
  std::deque<std::pair<Clock::time_point, double>> transfers_;  // seconds, as `updates_`
  Growth env_steps_, answers_;
  // Of a kind of actors, in microseconds.
  struct ActorRates {
    Rate busy, blocked;
  };
  std::map<std::string, ActorRates> actors_;
  JoinedActors joined_;
};

}  // namespace troupe
