#include "actors/experience/answers/score_order.h"

#include <algorithm>
#include <utility>

#include "actors/experience/common/request_retry.h"
#include "actors/experience/common/retry_delay.h"
#include "runtime/base/errors.h"

namespace troupe {

uint64_t ScoreOrder::add(uint32_t group) {
  requests_.push_back({.id = next_id_, .scored = {.group = group, .scores = {}}});
  return next_id_++;
}

ScoreOrder::Request* ScoreOrder::find(uint64_t id, State state) {
  const auto it = std::ranges::find(requests_, id, &Request::id);
  return it == requests_.end() || it->state != state ? nullptr : &*it;
}

bool ScoreOrder::awaits(const ScoreReply& reply) const {
  const auto it = std::ranges::find(requests_, reply.id, &Request::id);
  return it != requests_.end() && it->state == State::asked && it->scored.group == reply.group;
}

void ScoreOrder::put(uint64_t id, std::vector<Score> scores) {
  Request* request = find(id, State::asked);
  TROUPE_CHECK(request != nullptr, id);
  request->state = State::scored;
  request->scored.scores = std::move(scores);
}

std::chrono::milliseconds ScoreOrder::failed(uint64_t id, const std::string& error) {
  Request* request = find(id, State::asked);
  TROUPE_CHECK(request != nullptr, id);
  request->state = State::failed;
  if (++request->failures >= kMostFailures)
    throw ScoringFailed("scoring failed " + std::to_string(request->failures) +
                        " times in a row on the answers to one prompt, the last time with: " + error);
  return retry_delay(request->failures);
}

bool ScoreOrder::ask_again(uint64_t id) {
  Request* request = find(id, State::failed);
  if (request == nullptr) return false;
  request->state = State::asked;
  return true;
}

void ScoreOrder::drop(uint64_t id) {
  TROUPE_CHECK(find(id, State::asked) != nullptr, id);
  std::erase_if(requests_, [&](const Request& request) { return request.id == id; });
}

std::optional<ScoreOrder::Scored> ScoreOrder::next() {
  if (requests_.empty() || requests_.front().state != State::scored) return std::nullopt;
  Scored scored = std::move(requests_.front().scored);
  requests_.pop_front();
  return scored;
}

size_t ScoreOrder::outstanding() const {
  return static_cast<size_t>(std::ranges::count(requests_, State::asked, &Request::state));
}

}  // namespace troupe
