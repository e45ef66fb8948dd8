#pragma once
// What `troupe top` knows of a run, and how the messages of the statistics port (docs/protocol.md) and the files of a
// run folder change it. One thread.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "runtime/stats/snapshot.h"
#include "tools/top/events.h"
#include "tools/top/history.h"

namespace troupe {

enum class Link : uint8_t {
  connecting,
  live,
  lost,      // and it is tried again
  unserved,  // the run is under way, and only its folder is read
  killed,    // the run was killed, and may be started again
  ended,     // the run is over, or only its folder is read
};

struct TopModel {
  static constexpr size_t kMostEvents = 500;
  static constexpr size_t kMostAlarms = 100;  // a run has far fewer

  std::string run;       // its name
  std::string settings;  // those that tell it from others
  std::string source;    // the address or the folder that was given
  std::string note;      // why it is not live; may be empty
  const ExperienceWords* words = &kStepWords;
  Link link = Link::connecting;
  double silent_seconds = 0;  // since the last message, while it is live
  double most_silent = 10;    // after which it is told
  std::optional<StatsSnapshot> newest;
  std::optional<Bottleneck> verdict;    // the last one while the run trained
  std::string longest;                  // that of a run folder that held for longest, with advice; may be empty
  std::map<std::string, Alarm> raised;  // all alarms so far, as they were last
  TopHistory history;
  std::deque<TopEvent> events;   // the newest first
  std::vector<std::string> log;  // the last lines of log.txt, the newest last; empty if the folder is not known

  void tell(TopEvent event, const std::string& time);
  // Puts the snapshot in place of the newest one, with the events that follow from it.
  void show(StatsSnapshot snapshot, const std::string& time);
  // The name and the settings of the run, from its config as JSON.
  void describe(const std::string& name, const std::string& config);
  // Another run takes the place of this one.
  void forget();
  // Whether the run trains no more: what it says of its state is of the past.
  bool is_over() const;
};

// Reads the messages of one connection after the other into a model.
class TopReader {
 public:
  explicit TopReader(TopModel& model) : model_(&model) {}

  // A connection was opened: its first message is a `hello`.
  void begin();
  // One message. Returns the request to send next, if there is one. `time` is the time of day. Throws ConfigError if
  // what is there is not the statistics port of a run.
  std::string received(const std::string& line, const std::string& time);
  // Whether this connection has said that it is a run.
  bool greeted() const { return greeted_; }
  // Whether this connection has sent the points that the run keeps.
  bool has_history() const { return has_history_; }
  // Snapshots of all connections.
  uint64_t snapshots() const { return snapshots_; }

 private:
  std::string on_hello(const nlohmann::ordered_json& message, const std::string& time);
  std::string on_history(const nlohmann::ordered_json& message);

  TopModel* model_;
  bool greeted_ = false, has_history_ = false;
  uint64_t snapshots_ = 0;
  std::string started_;  // when the run was started, as it said
};

}  // namespace troupe
