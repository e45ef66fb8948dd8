#include "actors/placement.h"

#include <algorithm>
#include <utility>

#include "runtime/base/errors.h"

namespace troupe {

std::optional<uint64_t> Placement::add_worker(uint64_t worker) {
  const std::optional<uint64_t> inference = emptiest();
  if (inference) {
    place(worker, *inference);
  } else {
    waiting_.insert(worker);
  }
  return inference;
}

void Placement::remove_worker(uint64_t worker) {
  waiting_.erase(worker);
  const auto it = inference_of_.find(worker);
  if (it == inference_of_.end()) return;
  workers_of_.at(it->second).erase(worker);
  inference_of_.erase(it);
}

std::vector<Placement::Move> Placement::add_inference(uint64_t id) {
  TROUPE_CHECK(workers_of_.try_emplace(id).second, "inference actor", id, "twice");
  std::set<uint64_t> moved;
  for (const uint64_t worker : std::exchange(waiting_, {})) {
    place(worker, *emptiest());
    moved.insert(worker);
  }
  const std::set<uint64_t>& own = workers_of_.at(id);
  for (uint64_t from = *fullest(); workers_of_.at(from).size() > own.size() + 1; from = *fullest()) {
    const uint64_t worker = *workers_of_.at(from).rbegin();
    place(worker, id);
    moved.insert(worker);
  }
  std::vector<Move> moves;
  for (const uint64_t worker : moved) moves.push_back({worker, inference_of_.at(worker)});
  return moves;
}

std::vector<Placement::Move> Placement::remove_inference(uint64_t id) {
  const auto it = workers_of_.find(id);
  if (it == workers_of_.end()) return {};
  const std::set<uint64_t> workers = std::move(it->second);
  workers_of_.erase(it);
  std::vector<Move> moves;
  for (const uint64_t worker : workers) {
    inference_of_.erase(worker);
    moves.push_back({worker, add_worker(worker)});
  }
  return moves;
}

std::optional<uint64_t> Placement::inference_of(uint64_t worker) const {
  const auto it = inference_of_.find(worker);
  return it == inference_of_.end() ? std::nullopt : std::optional(it->second);
}

void Placement::place(uint64_t worker, uint64_t inference) {
  if (const auto old = inference_of(worker)) workers_of_.at(*old).erase(worker);
  workers_of_.at(inference).insert(worker);
  inference_of_[worker] = inference;
}

std::optional<uint64_t> Placement::emptiest() const {
  const auto it = std::ranges::min_element(workers_of_, {}, [](const auto& entry) { return entry.second.size(); });
  return it == workers_of_.end() ? std::nullopt : std::optional(it->first);
}

std::optional<uint64_t> Placement::fullest() const {
  const auto it = std::ranges::max_element(workers_of_, {}, [](const auto& entry) { return entry.second.size(); });
  return it == workers_of_.end() ? std::nullopt : std::optional(it->first);
}

}  // namespace troupe
