#include "runtime/base/task_sampler.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <utility>

#include "runtime/base/errors.h"

namespace troupe {

namespace {

void append(std::string& bytes, const void* data, std::size_t size) {
  bytes.append(static_cast<const char*>(data), size);
}

// Removes sizeof(T) bytes from the front; false if there are too few.
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
  tasks_.resize(static_cast<std::size_t>(tasks));
  for (Task& task : tasks_) task.outcomes.resize(static_cast<std::size_t>(window));
}

// The sum is computed again: adding and subtracting fractional outcomes would accumulate rounding errors.
void TaskSampler::add(Task& task, double outcome) const {
  task.outcomes[static_cast<std::size_t>(task.next)] = outcome;
  task.next = (task.next + 1) % window_;
  task.count = std::min(task.count + 1, window_);
  task.failures = std::accumulate(task.outcomes.begin(), task.outcomes.begin() + task.count, 0.0);
}

void TaskSampler::record(int64_t task, double success) {
  TROUPE_CHECK(task >= 0 && task < tasks(), "task", task, "tasks", tasks());
  TROUPE_CHECK(success >= 0 && success <= 1, "success", success);
  add(tasks_[static_cast<std::size_t>(task)], 1 - success);
}

std::vector<double> TaskSampler::weights() const {
  std::vector<double> failures;
  for (const Task& task : tasks_) failures.push_back(task.failures);
  return task_weights(failures);
}

int64_t TaskSampler::sample(Rng& rng) const {
  double total = 0;
  for (const Task& task : tasks_) total += task.failures + 1;
  double rest = rng.uniform_double() * total;
  for (int64_t task = 0; task < tasks() - 1; ++task) {
    rest -= tasks_[static_cast<std::size_t>(task)].failures + 1;
    if (rest < 0) return task;
  }
  return tasks() - 1;
}

void TaskSampler::clear() {
  for (Task& task : tasks_) task.count = task.next = 0, task.failures = 0;
}

std::string TaskSampler::save() const {
  std::string bytes;
  const int64_t header[] = {tasks(), window_};
  append(bytes, header, sizeof(header));
  for (const Task& task : tasks_) {
    append(bytes, &task.count, sizeof(task.count));
    for (int64_t i = 0; i < task.count; ++i) {  // oldest first
      const int64_t at = (task.next - task.count + i + window_) % window_;
      append(bytes, &task.outcomes[static_cast<std::size_t>(at)], sizeof(double));
    }
  }
  return bytes;
}

bool TaskSampler::restore(std::string_view bytes) {
  int64_t tasks_there = 0, window_there = 0;
  if (!take(bytes, tasks_there) || !take(bytes, window_there)) return false;
  if (tasks_there != tasks() || window_there != window_) return false;
  TaskSampler restored(tasks(), window_);
  for (Task& task : restored.tasks_) {
    int64_t count = 0;
    if (!take(bytes, count) || count < 0 || count > window_) return false;
    for (int64_t i = 0; i < count; ++i) {
      double outcome = 0;
      if (!take(bytes, outcome) || !(outcome >= 0 && outcome <= 1)) return false;
      add(task, outcome);
    }
  }
  if (!bytes.empty()) return false;
  *this = std::move(restored);
  return true;
}

}  // namespace troupe
