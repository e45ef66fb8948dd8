#pragma once
// A run that `troupe top` watches: it waits for what the run and its folder say, and keeps the model current. One
// thread.

#include <poll.h>

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tools/cli/address.h"
#include "tools/top/client.h"
#include "tools/top/model.h"

namespace troupe {

// What to watch.
struct WatchedRun {
  std::optional<Address> address;  // of its statistics
  std::string folder;              // if there is no address

  std::string text() const { return address ? address->text() : folder; }
};

class RunWatch {
 public:
  explicit RunWatch(WatchedRun run);

  const TopModel& model() const { return model_; }
  // Called with each snapshot that the run sends.
  void on_snapshot(std::function<void(const StatsSnapshot&)> call) { on_snapshot_ = std::move(call); }

  // Waits until the run has greeted, or until its folder has been read because it is not running. With `history` also
  // until there is a snapshot and the points of the curves have come, for as long as a client is patient. Returns early
  // if one of `others` is readable. Throws ConfigError if there is no run at the address.
  void begin(std::vector<int> others, bool history);
  // Waits for at most `longest` until something comes from the run, or one of `others` is readable.
  void wait(std::chrono::milliseconds longest, const std::vector<int>& others);

 private:
  using Clock = StatsClient::Clock;

  std::optional<Address> where() const;
  void receive();
  void read_folder();
  void note_link();
  void note_folder();
  bool is_complete(bool history) const;

  WatchedRun run_;
  TopModel model_;
  TopReader reader_;
  StatsClient client_;
  std::function<void(const StatsSnapshot&)> on_snapshot_;
  uint64_t opened_ = 0;  // connections whose greeting is awaited or has come
  Clock::time_point heard_ = Clock::now(), log_read_;
};

}  // namespace troupe
