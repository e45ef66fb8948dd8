#pragma once
// A client of the statistics port of a run, for a loop with poll(): it never blocks, except while the name of the host
// is resolved, and connects again when the connection is lost. One thread.

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/descriptor.h"
#include "tools/cli/address.h"

namespace troupe {

class StatsClient {
 public:
  using Clock = std::chrono::steady_clock;

  // A larger message is none of a run.
  static constexpr size_t kMostBytes = 8 << 20;
  // Within this time a connection is accepted, and is greeted.
  static constexpr std::chrono::seconds kPatience{10};

  // `address` says where to connect, each time; nothing: nowhere now, ask again later.
  explicit StatsClient(std::function<std::optional<Address>()> address) : address_(std::move(address)) {}

  // What to wait for with poll(): a negative descriptor while there is no connection.
  int descriptor() const { return socket_.number(); }
  short events() const;
  // When step() has something to do without an event.
  Clock::time_point due() const { return due_; }
  // Connects, sends and receives what is possible now. Returns the complete lines that have come.
  std::vector<std::string> step(Clock::time_point now);
  // Queues a message for the run, without its line break.
  void send(const std::string& message);
  // Ends the connection because of what came. It is tried again later.
  void drop(const std::string& why, Clock::time_point now);
  // The connection is that of a run, which may be silent from now on.
  void greeted();

  bool connected() const { return state_ == State::open; }
  // How often a connection was opened.
  uint64_t opened() const { return opened_; }
  // Why there is no connection: "127.0.0.1:4711: Connection refused"; empty while there is one.
  const std::string& problem() const { return problem_; }

 private:
  enum class State : uint8_t { waiting, connecting, open };

  void connect(Clock::time_point now);
  void finish_connecting(Clock::time_point now);
  void write_queued(Clock::time_point now);
  std::vector<std::string> read_lines(Clock::time_point now);

  std::function<std::optional<Address>()> address_;
  State state_ = State::waiting;
  Descriptor socket_;
  std::string where_;  // the address of the connection
  std::string queued_, received_, problem_;
  Clock::time_point due_;  // the next attempt, or the end of patience
  uint64_t failures_ = 0, opened_ = 0;
};

}  // namespace troupe
