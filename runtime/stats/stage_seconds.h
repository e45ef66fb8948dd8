#pragma once
// Seconds that the stages of an update took, and the clock that measures them. Plain data; one thread at a time.

#include <algorithm>
#include <chrono>
#include <limits>
#include <optional>
#include <utility>

namespace troupe {

struct UpdateStages {
  // While the update before runs:
  double draw = 0;     // by the replay buffer
  double collate = 0;  // into contiguous arrays
  double copy = 0;     // to the device
  // By the trainer:
  double prepare = 0;    // statistics of inputs, advantages and targets, minibatches
  double forward = 0;    // with the loss
  double backward = 0;   // with both passes of a separate critic
  double optimizer = 0;  // steps, with the sums of gradients
  double exchange = 0;   // waiting for other ranks, and sending to them
  double publish = 0;    // the rest: metrics, and the snapshot of the new weights

  double computed() const { return prepare + forward + backward + optimizer; }
  double of_trainer() const { return computed() + exchange + publish; }
  // Whether the largest part of the trainer's time is the exchange with other ranks.
  bool exchanges_most() const { return exchange > std::max({prepare, forward, backward, optimizer, publish}); }
};

// Means of the last 10 s.
struct StageFigures {
  std::optional<UpdateStages> update;  // of the updates that ended in it, or of the last one
  // From the end of an update to the moment when an inference actor has its weights in use.
  double transfer = std::numeric_limits<double>::quiet_NaN();
  double env_step = std::numeric_limits<double>::quiet_NaN();
  double answer = std::numeric_limits<double>::quiet_NaN();
};

class StageClock {
 public:
  explicit StageClock(const UpdateStages& stages = {}) : stages_(stages) {}

  void begin() { last_ = Clock::now(); }
  // Adds the time since begin(), or since the mark before, to a stage.
  void mark(double UpdateStages::* stage) {
    const auto now = Clock::now();
    stages_.*stage += std::chrono::duration<double>(now - std::exchange(last_, now)).count();
  }
  const UpdateStages& stages() const { return stages_; }

 private:
  using Clock = std::chrono::steady_clock;
  UpdateStages stages_;
  Clock::time_point last_;
};

}  // namespace troupe
