#pragma once
// A statistics socket and its clients.

#include <thread>
#include <utility>

#include <nlohmann/json.hpp>

#include "runtime/stats/protocol.h"
#include "runtime/stats/socket.h"
#include "tests/runtime/stats/stats_client.h"

namespace troupe::test {

using nlohmann::json;

inline constexpr const char* kSnapshot = R"({"env_steps":7,"lag":{"p95":1}})";

inline StatsSocketOptions quick_options() {
  StatsSocketOptions options;
  options.run = "demo";
  options.config = R"({"seed":5})";
  return options;
}

// A server whose log goes to memory.
struct OpenSocket {
  explicit OpenSocket(StatsSocketOptions options = quick_options()) : server(std::move(options)) {}

  // Sends a ping over a new connection. "pong" if it is answered.
  std::string still_serves() {
    StatsClient client(server);
    client.send("{\"type\":\"ping\"}\n");
    while (true) {
      const json message = client.message();
      if (message.is_null()) return "closed";
      if (message["type"] == "pong") return "pong";
    }
  }
  // Waits until the server has accepted `clients` connections since its start and none is open.
  bool all_gone(uint64_t clients) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    const auto gone = [&] { return server.counters().accepted == clients && server.counters().open == 0; };
    while (!gone() && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
    return gone();
  }

  QuietLog quiet;
  StatsSocket server;
};

}  // namespace troupe::test
