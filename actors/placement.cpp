#include "actors/placement.h"

#include <algorithm>
#include <utility>

#include "runtime/base/errors.h"

namespace troupe {

std::optional<InferenceIndex> Placement::add_worker(uint64_t worker) {
  const std::optional<InferenceIndex> inference_index = emptiest();
  if (inference_index) {
    place(worker, *inference_index);
  } else {
    waiting_.insert(worker);
  }
  return inference_index;
}

void Placement::remove_worker(uint64_t worker) {
  waiting_.erase(worker);
  const auto it = inference_of_.find(worker);
  if (it == inference_of_.end()) return;
  workers_of_.at(it->second).erase(worker);
  inference_of_.erase(it);
}

std::vector<Placement::Move> Placement::add_inference(InferenceIndex inference_index) {
  TROUPE_CHECK(workers_of_.try_emplace(inference_index).second, "inference actor", inference_index, "twice");
  std::set<uint64_t> moved;
  for (const uint64_t worker : std::exchange(waiting_, {})) {
    place(worker, *emptiest());
    moved.insert(worker);
  }
  const std::set<uint64_t>& own = workers_of_.at(inference_index);
  for (InferenceIndex from = *fullest(); workers_of_.at(from).size() > own.size() + 1; from = *fullest()) {
    const uint64_t worker = *workers_of_.at(from).rbegin();
    place(worker, inference_index);
    moved.insert(worker);
  }
  std::vector<Move> moves;
  for (const uint64_t worker : moved) moves.push_back({worker, inference_of_.at(worker)});
  return moves;
}

std::vector<Placement::Move> Placement::remove_inference(InferenceIndex inference_index) {
  const auto it = workers_of_.find(inference_index);
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

std::optional<InferenceIndex> Placement::inference_of(uint64_t worker) const {
  const auto it = inference_of_.find(worker);
  return it == inference_of_.end() ? std::nullopt : std::optional(it->second);
}

void Placement::place(uint64_t worker, InferenceIndex inference_index) {
  if (const auto old = inference_of(worker)) workers_of_.at(*old).erase(worker);
  workers_of_.at(inference_index).insert(worker);
  inference_of_[worker] = inference_index;
}

std::optional<InferenceIndex> Placement::emptiest() const {
  const auto it = std::ranges::min_element(workers_of_, {}, [](const auto& entry) { return entry.second.size(); });
  return it == workers_of_.end() ? std::nullopt : std::optional(it->first);
}

std::optional<InferenceIndex> Placement::fullest() const {
  const auto it = std::ranges::max_element(workers_of_, {}, [](const auto& entry) { return entry.second.size(); });
  return it == workers_of_.end() ? std::nullopt : std::optional(it->first);
}

}  // namespace troupe
