#pragma once
// Stats: every actor reports to it; at every interval it makes one snapshot for the recorder. Event-based; has an answer at any
// time, also with no data. StatsCore is the logic without the actor; times come from the caller.

#include <chrono>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "actors/messages.h"
#include "actors/wiring.h"
#include "runtime/stats_snapshot.h"

namespace troupe {

class StatsCore {
 public:
  using Clock = std::chrono::steady_clock;

  // `started` is when the run began: elapsed times and the time to the first update count from there. `first` and `env_steps`
  // are what it starts from, after a resume what the checkpoint had.
  StatsCore(const RunConfig& config, bool reports_success, Clock::time_point started, PolicyVersion first = {},
            uint64_t env_steps = 0);

  void add(const WorkerReport& report, Clock::time_point now);
  void add(const Episodes& episodes);
  void add(const InferenceReport& report);
  void add(const Applied& applied);
  void add(const ReceiverGone& gone);
  void add(const ReplayReport& report);
  void add(const UpdateMessage& update, Clock::time_point now);
  void add(const Evaluation& evaluation);

  StatsSnapshot snapshot(Clock::time_point now);
  // Call at every interval: one line for each receiver that falls behind: that for kAlarmLooks looks in a row was further behind
  // than before, or behind without having applied anything. A line is repeated only after the receiver had caught up.
  std::vector<std::string> alarms();
  static constexpr int kAlarmLooks = 2;

  // Deterministic runs have no clock: a report is due every stats.every_updates updates, once.
  bool take_due();
  // All but times as bytes, and back.
  std::string save(Clock::time_point now) const;
  void load(const std::string& bytes, Clock::time_point now);

 private:
  struct Rate {  // (time, count) pairs of the last minute
    std::deque<std::pair<Clock::time_point, uint64_t>> points;
    void add(Clock::time_point now, uint64_t count);
    double over(Clock::time_point now, std::chrono::seconds window) const;
  };
  struct Receiver {
    InferenceReport report;
    std::optional<PolicyVersion> applied;
    bool gone = false;
    uint64_t behind_before = 0;  // at the last look, as is `applied_before`
    std::optional<PolicyVersion> applied_before;
    int strikes = 0;
  };
  struct WorkerSeen {
    WorkerReport report;
    Clock::time_point at;
  };

  uint64_t behind(const Receiver& receiver) const;

  RunConfig config_;
  bool reports_success_;
  Clock::time_point started_;
  StatsSnapshot now_;
  Rate env_rate_, update_rate_;
  std::map<uint64_t, uint64_t> lag_counts_;  // samples by lag
  std::deque<std::pair<float, int32_t>> returns_;
  std::deque<uint8_t> successes_;
  std::deque<int32_t> batch_rows_;
  std::deque<float> latency_us_;
  std::map<uint64_t, WorkerSeen> workers_;
  std::map<uint64_t, Receiver> receivers_;
  PolicyVersion published_;
  double wait_seconds_ = 0, update_seconds_ = 0;
  uint64_t reported_ = 0;  // updates of the last report that was due
};

struct StatsState {
  static inline const char* name = "stats";
  std::unique_ptr<StatsCore> core;
};

StatsActor::behavior_type stats_actor(StatsActor::stateful_pointer<StatsState> self, WiringPtr wiring,
                                      RecorderActor recorder, PolicyVersion first, uint64_t env_steps);

}  // namespace troupe
