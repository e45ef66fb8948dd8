#pragma once
// Samples tasks by how often they failed recently. A plain value; not synchronised.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/rng.h"

namespace troupe {

// The probability of each task given its (possibly fractional) number of recent failures: (failures + 1) / sum. These
// are counts, not rates: a task that fails is drawn the more often, the more often it was tried. Throws InvariantError
// on a negative or non-finite count.
std::vector<double> task_weights(std::span<const double> failures);

class TaskSampler {
 public:
  // `window`: number of outcomes kept per task. Both at least 1.
  explicit TaskSampler(int64_t tasks, int64_t window = 100);

  int64_t tasks() const { return static_cast<int64_t>(tasks_.size()); }
  // Records an episode of `task` that ended with `success` in [0, 1]. Does not allocate.
  void record(int64_t task, double success);
  // [tasks] probabilities.
  std::vector<double> weights() const;
  // A task drawn by weights(); one draw from rng. Does not allocate.
  int64_t sample(Rng& rng) const;
  // Removes every outcome.
  void clear();

  // The outcomes as bytes, and back. restore() returns false and changes nothing if the bytes are not from a sampler
  // with this number of tasks and window.
  std::string save() const;
  bool restore(std::string_view bytes);

 private:
  struct Task {
    std::vector<double> outcomes;  // [window] ring of 1 - success
    int64_t count = 0;             // outcomes in it
    int64_t next = 0;              // where the next one goes
    double failures = 0;           // their sum
  };
  void add(Task& task, double outcome) const;

  int64_t window_;
  std::vector<Task> tasks_;
};

}  // namespace troupe
