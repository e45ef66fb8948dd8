#include "actors/experience/grid/request_batcher.h"

#include <algorithm>

#include "runtime/base/errors.h"

namespace troupe {

void RequestBatcher::add(const Request& request) {
  TROUPE_CHECK(request.rows <= config_.max_batch && asking_.insert(request.client).second, request.rows);
  requests_.push_back(request);
  rows_ += request.rows;
  int64_t& known = active_[request.client];
  active_rows_ += request.rows - known;
  known = request.rows;
}

void RequestBatcher::remove(uint64_t ticket) {
  const auto it = std::ranges::find(requests_, ticket, &Request::ticket);
  if (it == requests_.end()) return;
  rows_ -= it->rows;
  asking_.erase(it->client);
  requests_.erase(it);
}

void RequestBatcher::pause(ClientId client) {
  const auto it = active_.find(client);
  if (it == active_.end()) return;
  active_rows_ -= it->second;
  active_.erase(it);
}

std::vector<uint64_t> RequestBatcher::forget(uint64_t worker) {
  std::vector<uint64_t> tickets;
  std::erase_if(requests_, [&](const Request& request) {
    if (request.client.worker != worker) return false;
    tickets.push_back(request.ticket);
    asking_.erase(request.client);
    rows_ -= request.rows;
    return true;
  });
  for (auto it = active_.lower_bound({worker, 0}); it != active_.end() && it->first.worker == worker;) {
    active_rows_ -= it->second;
    it = active_.erase(it);
  }
  return tickets;
}

int64_t RequestBatcher::target() const {
  const int64_t wanted = config_.batch_size > 0 ? config_.batch_size : std::max<int64_t>(1, active_rows_ / 2);
  return std::min(wanted, config_.max_batch);
}

std::optional<LeaveReason> RequestBatcher::ready(Clock::time_point now) const {
  if (requests_.empty()) return std::nullopt;
  if (rows_ >= target()) return LeaveReason::full;
  if (requests_.size() >= active_.size()) return LeaveReason::all_waiting;
  if (now >= *deadline()) return LeaveReason::timeout;
  return std::nullopt;
}

std::vector<RequestBatcher::Request> RequestBatcher::take() {
  std::vector<Request> batch;
  int64_t rows = 0;
  while (!requests_.empty() && rows + requests_.front().rows <= config_.max_batch) {
    rows += requests_.front().rows;
    batch.push_back(requests_.front());
    asking_.erase(batch.back().client);
    requests_.pop_front();
  }
  rows_ -= rows;
  return batch;
}

std::optional<RequestBatcher::Clock::time_point> RequestBatcher::deadline() const {
  if (requests_.empty()) return std::nullopt;
  return requests_.front().arrived + config_.timeout;
}

}  // namespace troupe
