#pragma once
// RequestBatcher: decides when to run a batch of inference requests. A batch is run when it has batch_size
// rows, when its oldest request reaches the timeout, or when no more requests can arrive because every client is
// already waiting. It never exceeds max_batch rows. One thread; time comes from the caller.

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "actors/config/run_config.h"
#include "actors/experience/common/server.h"

namespace troupe {

enum class LeaveReason : uint8_t { full = 0, timeout = 1, all_waiting = 2 };

class RequestBatcher {
 public:
  using Clock = std::chrono::steady_clock;
  struct Request {
    ClientId client;
    uint64_t ticket = 0;  // the caller's key for this request
    int64_t rows = 0;     // rows of the forward: actions and values together
    Clock::time_point arrived;
  };

  explicit RequestBatcher(const InferenceConfig& config) : config_(config) {}

  // Adds a request of at most max_batch rows. Its client has no other one.
  void add(const Request& request);
  // Removes a request; its client may ask again.
  void remove(uint64_t ticket);
  // The client will not ask until its next request (it has no credit); batches do not wait for it.
  void pause(ClientId client);
  // Removes a worker and its clients; `worker` is the number in their ClientIds. Returns the tickets of its pending
  // requests.
  std::vector<uint64_t> forget(uint64_t worker);

  // Whether a batch must run now, and why.
  std::optional<LeaveReason> ready(Clock::time_point now) const;
  // The requests of the next batch, oldest first, at most max_batch rows.
  std::vector<Request> take();
  // When the oldest request times out; nullopt when none is pending.
  std::optional<Clock::time_point> deadline() const;

  int64_t pending_rows() const { return rows_; }
  size_t pending() const { return requests_.size(); }
  // Rows at which a batch is run at once: the configured size or, when that is 0, half of all active clients' rows.
  int64_t target() const;

 private:
  InferenceConfig config_;
  std::deque<Request> requests_;
  std::set<ClientId> asking_;  // of requests_
  int64_t rows_ = 0;
  std::map<ClientId, int64_t> active_;  // rows of the last request, for every client that may ask again
  int64_t active_rows_ = 0;
};

}  // namespace troupe
