#pragma once
// Deadline: one limit shared by the blocking steps of an operation. Only for waits on the operating system; actors
// use their timers.

#include <algorithm>
#include <chrono>

namespace troupe {

class Deadline {
 public:
  explicit Deadline(std::chrono::milliseconds after) : end_(std::chrono::steady_clock::now() + after) {}

  // At least 0. Rounded up, so that 0 means that it has passed.
  std::chrono::milliseconds left() const {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end_ - std::chrono::steady_clock::now());
    return std::max(left, std::chrono::milliseconds(0));
  }
  bool passed() const { return left().count() == 0; }

 private:
  std::chrono::steady_clock::time_point end_;
};

}  // namespace troupe
