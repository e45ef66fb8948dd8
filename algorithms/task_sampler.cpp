#include "algorithms/task_sampler.h"

#include <cmath>
#include <cstring>
#include <numeric>

#include "runtime/errors.h"

namespace troupe {

namespace {

void append(std::string& bytes, const void* data, std::size_t size) {
  bytes.append(static_cast<const char*>(data), size);
}

// Takes sizeof(T) bytes off the front; false when there are too few.
template <class T>
bool take(std::string_view& bytes, T& out) {
  if (bytes.size() < sizeof(T)) return false;
  std::memcpy(&out, bytes.data(), sizeof(T));
  bytes.remove_prefix(sizeof(T));
  return true;
}

}  // namespace

std::vector<double> task_weights(std::span<const double> failures) {
  std::vector<double> weights(failures.begin(), failures.end());
  double sum = 0;
  for (double& weight : weights) {
    TROUPE_CHECK(weight >= 0 && std::isfinite(weight), "failures", weight);
    weight += 1;
    sum += weight;
  }
  for (double& weight : weights) weight /= sum;
  return weights;
}

TaskSampler::TaskSampler(int64_t tasks, int64_t window) : window_(window) {
  TROUPE_CHECK(tasks >= 1 && window >= 1, "tasks", tasks, "window", window);
  outcomes_.resize(static_cast<std::size_t>(tasks));
}

void TaskSampler::record(int64_t task, double success) {
  TROUPE_CHECK(task >= 0 && task < tasks(), "task", task, "tasks", tasks());
  TROUPE_CHECK(success >= 0 && success <= 1, "success", success);
  auto& outcomes = outcomes_[static_cast<std::size_t>(task)];
  outcomes.push_back(1 - success);
  if (static_cast<int64_t>(outcomes.size()) > window_) outcomes.pop_front();
}

std::vector<double> TaskSampler::weights() const {
  std::vector<double> failures;
  for (const auto& outcomes : outcomes_) failures.push_back(std::accumulate(outcomes.begin(), outcomes.end(), 0.0));
  return task_weights(failures);
}

int64_t TaskSampler::sample(Rng& rng) const {
  const double u = rng.uniform_double();
  const std::vector<double> probabilities = weights();
  double reached = 0;
  for (int64_t task = 0; task < tasks() - 1; ++task) {
    reached += probabilities[static_cast<std::size_t>(task)];
    if (u < reached) return task;
  }
  return tasks() - 1;
}

std::string TaskSampler::save() const {
  std::string bytes;
  const int64_t header[] = {tasks(), window_};
  append(bytes, header, sizeof(header));
  for (const auto& outcomes : outcomes_) {
    const auto count = static_cast<int64_t>(outcomes.size());
    append(bytes, &count, sizeof(count));
    for (const double outcome : outcomes) append(bytes, &outcome, sizeof(outcome));
  }
  return bytes;
}

bool TaskSampler::restore(std::string_view bytes) {
  int64_t tasks_there = 0, window_there = 0;
  if (!take(bytes, tasks_there) || !take(bytes, window_there)) return false;
  if (tasks_there != tasks() || window_there != window_) return false;
  std::vector<std::deque<double>> restored(outcomes_.size());
  for (auto& outcomes : restored) {
    int64_t count = 0;
    if (!take(bytes, count) || count < 0 || count > window_) return false;
    for (int64_t i = 0; i < count; ++i) {
      double outcome = 0;
      if (!take(bytes, outcome) || !(outcome >= 0 && outcome <= 1)) return false;
      outcomes.push_back(outcome);
    }
  }
  if (!bytes.empty()) return false;
  outcomes_ = std::move(restored);
  return true;
}

}  // namespace troupe
