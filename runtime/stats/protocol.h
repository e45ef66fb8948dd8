#pragma once
// What the stats socket says and understands, without the socket: messages are JSON objects, one per line
// (docs/protocol.md). Pure functions and a plain class; StatsHistory is for one thread at a time.

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

#include "runtime/stats/history_columns.h"
#include "runtime/stats/prometheus.h"

namespace troupe {

// Raised only when a message changes its meaning, never when fields or messages are added.
constexpr int kStatsProtocolVersion = 2;

// What a client sent is not a request; what() is told to it before its connection is closed.
class RequestError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct StatsRequest {
  enum class Kind : uint8_t { history, subscribe, metrics, ping };
  Kind kind = Kind::ping;
  std::string topic;                // path inside a snapshot, such as "lag.p95"; empty = the whole snapshot
  std::vector<std::string> topics;  // history: several, instead of `topic`; each value is then a list
  bool ranges = false;              // with `topics`: each value with the smallest and the largest since the one before
  uint64_t last = 100;              // history: at most this many of the newest
  uint64_t before = 0;              // history: only those with a smaller sequence number; 0 = all
};

// Throws RequestError for anything but a request of docs/protocol.md, with all its fields known and in range.
StatsRequest parse_stats_request(std::string_view line);

// Messages, without the line break. `config` and `defaults` are JSON text; so is `started`, which may be empty, like
// `name`, what the user calls the run.
std::string hello_message(const std::string& run, const std::string& config, const std::string& defaults,
                          const std::string& started = "", const std::string& name = "");
std::string metrics_message(std::span<const ExportedMetric> metrics);
std::string error_message(const std::string& reason);
std::string subscribed_message(const std::string& topic);
std::string pong_message();

// The newest snapshots, and of older ones every 16th, then every 256th. Each of the three parts is bounded in number
// and bytes, so that a run of days is known from its start. A snapshot has the last evaluation ("eval"), which is older
// than itself; in the history each evaluation is in one snapshot, the first one after the update ("eval.updates") that
// was evaluated which has no other.
class StatsHistory {
 public:
  StatsHistory(size_t max_snapshots, size_t max_bytes);
  ~StatsHistory();

  // Keeps a snapshot, a JSON object. False, and nothing is kept, when it is none.
  bool add(const std::string& snapshot);
  size_t size() const;
  // The `stats` message of the newest snapshot; before the first, one whose "stats" is null.
  std::string latest_message() const;
  // The `topic` message of the newest snapshot.
  std::string topic_message(const std::string& topic) const;
  // Whether the newest snapshot has that topic; true before the first.
  bool has_topic(const std::string& topic) const;
  // The newest snapshot in the text format of Prometheus or of OpenMetrics.
  std::string metrics(std::span<const ExportedMetric> metrics, bool open_metrics) const;
  // The reply to a history request: the newest that are asked for and fit into `max_bytes`, oldest first.
  struct Reply {
    std::string message;
    size_t snapshots = 0;  // in it
  };
  Reply history_message(const StatsRequest& request, size_t max_bytes) const;

 private:
  struct Parsed;
  struct Entry {
    uint64_t sequence = 0;
    std::string text;                 // compact JSON, without "eval"
    std::optional<uint64_t> updates;  // in it
    bool evaluates = false;           // it had an "eval"
    FigureRow row;                    // its numbers, without those of "eval"
    FigureRanges ranges = {};  // of them and of those of the snapshots before it that are not kept; empty: of `row`
  };
  struct EvaluationEntry {
    uint64_t updates = 0;   // that were made before the policy that was evaluated
    uint64_t sequence = 0;  // of the first snapshot that had it
    std::string text;       // compact JSON
    FigureRow row;          // its numbers, whose paths begin with "eval."
  };
  // What a request for history asks of a snapshot with this evaluation (none: null), JSON text.
  std::string value_of(const Entry& entry, const EvaluationEntry* evaluation, const StatsRequest& request) const;
  // The same for one topic with its range: "[1,2,3]".
  std::string range_of(const Entry& entry, const EvaluationEntry* evaluation, const std::string& topic) const;
  // The same for one topic, from the numbers or, if it is none, from the text.
  std::string topic_of(const Entry& entry, const EvaluationEntry* evaluation, const std::string& topic) const;
  // The evaluations, by the sequence number of the snapshot that has them in the history.
  std::map<uint64_t, const EvaluationEntry*> evaluations_by_snapshot() const;
  void keep_evaluation(uint64_t updates, std::string text, FigureRow row);

  struct Part {
    std::deque<Entry> entries;
    size_t bytes = 0;
    FigureRanges left_out;  // since the newest entry, of those that came from the part before
  };
  void keep(size_t part, Entry entry);
  size_t max_snapshots_;       // of a part
  size_t max_bytes_;           // of a part
  uint64_t sequence_ = 0;      // of the newest; the first has 1
  std::array<Part, 3> parts_;  // the newest snapshots first
  std::unique_ptr<Parsed> newest_;
  std::string newest_text_;                   // compact JSON, whole
  std::vector<EvaluationEntry> evaluations_;  // the oldest first
  HistoryColumns columns_;
};

}  // namespace troupe
