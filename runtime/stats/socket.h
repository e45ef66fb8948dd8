#pragma once
// The statistics port: any program can watch a run on it (docs/protocol.md). It has threads of its own; the
// functions may be called from any thread and do not wait for clients. It says nothing before a client has sent
// a line, which tells whether the client speaks HTTP or JSON. Clients are not trusted: what one sends is limited in
// size, rate and count, and one that reads too slowly is dropped.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/stats/http.h"
#include "runtime/stats/prometheus.h"

namespace troupe {

struct StatsSocketOptions {
  std::string host = "127.0.0.1";       // address or name of the interface to listen on
  uint16_t port = 0;                    // 0 = any free port
  std::string run;                      // name of the run's config, for `hello`
  std::string name;                     // what the user calls the run, for `hello`; may be empty
  std::string started;                  // when this start began, for `hello`: milliseconds since 1970; may be empty
  std::string config = "{}";            // effective config, JSON text, for `hello`
  std::string defaults = "{}";          // the config of a run that changes no setting, JSON text, for `hello`
  std::string_view page_gz;             // of GET / for browsers: HTML, compressed by gzip
  std::vector<ExportedMetric> metrics;  // of GET /metrics
  std::string figures = "[]";           // of GET /figures.json: the table of the figures, JSON text
  std::function<std::string()> log;     // of GET /log: the end of the run's log; called on the thread of the port
  // Pages about the folders of runs, for `troupe dash`. They may take long, so they are called on a second thread, one
  // at a time. The port then speaks HTTP alone: it has no snapshots, and refuses lines and WebSockets.
  HttpDataPages data;
  size_t max_snapshots = 2000;  // kept for clients that ask for history
  size_t max_history_bytes = 16 << 20;
  size_t max_clients = 64;
  size_t max_queued_bytes = 1 << 20;  // waiting to be sent to one client; more, and it is dropped as too slow
  size_t max_line_bytes = 64 << 10;
  // After this time a new client that has sent nothing is closed. Browsers connect before they have a request.
  std::chrono::milliseconds silence_timeout{60000};
  std::chrono::milliseconds line_timeout{10000};   // for the rest of a line or of an HTTP request that has begun
  std::chrono::milliseconds linger_timeout{1000};  // for a client to read the reason why it is closed
};

class StatsSocket {
 public:
  // Listens from now on. Throws IoError: "127.0.0.1:80: cannot listen: Permission denied".
  explicit StatsSocket(StatsSocketOptions options);
  // As stop().
  ~StatsSocket();

  // The port that is listened on.
  uint16_t port() const;
  // "127.0.0.1:4711", "[::1]:4711".
  std::string address() const;

  // Sends a snapshot (one JSON object) to all clients and keeps it for history. Never waits; when snapshots come faster
  // than they can be handled the oldest waiting ones are left out. Something that is no JSON object is logged and left
  // out.
  void publish(std::string snapshot);

  // Sends what is queued, for half a second at most, then closes everything. Again: nothing.
  void stop();

  struct Counters {
    uint64_t accepted = 0;   // connections
    uint64_t refused = 0;    // of them, beyond max_clients
    uint64_t displaced = 0;  // of them, closed because they had sent nothing when another one came beyond max_clients
    uint64_t errors = 0;     // closed because of what they sent
    uint64_t slow = 0;       // dropped because they did not read
    uint64_t open = 0;       // now
    uint64_t published = 0;  // snapshots
    uint64_t skipped = 0;    // snapshots left out
  };
  Counters counters() const;

 private:
  class Server;
  std::unique_ptr<Server> server_;
};

}  // namespace troupe
