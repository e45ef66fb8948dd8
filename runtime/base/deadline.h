#pragma once
// Deadline: one limit shared by the blocking steps of an operation. For waits on the operating system only; what an
// actor does by the clock goes through its timers.

#include <algorithm>
#include <chrono>

namespace troupe {

class Deadline {
 public:
  explicit Deadline(std::chrono::milliseconds after) : end_(std::chrono::steady_clock::now() + after) {}

  // At least 0; rounded up, so that 0 means passed.
  std::chrono::milliseconds left() const {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end_ - std::chrono::steady_clock::now());
    return std::max(left, std::chrono::milliseconds(0));
  }
  bool passed() const { return left().count() == 0; }

 private:
  std::chrono::steady_clock::time_point end_;
};

}  // namespace troupe
