#pragma once
// GuardedBytes: memory for a function of a library to write to, between bytes that show whether it wrote beyond. One
// thread at a time.

#include <algorithm>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <vector>

namespace troupe {

class GuardedBytes {
 public:
  GuardedBytes() : GuardedBytes(0) {}
  // Zeros.
  explicit GuardedBytes(size_t size) : size_(size), bytes_(size + 2 * kGuard) { set_guards(); }

  std::byte* data() { return bytes_.data() + kGuard; }
  size_t size() const { return size_; }

  // Throws std::runtime_error when the memory around was written since the last call: "FUNCTION wrote past the end of
  // WHAT".
  void require_intact(const char* function, const std::string& what) {
    const auto whole = [](const std::byte* begin) {
      return std::all_of(begin, begin + kGuard, [](std::byte each) { return each == kPattern; });
    };
    const bool before = whole(bytes_.data()), behind = whole(bytes_.data() + kGuard + size_);
    if (before && behind) [[likely]]
      return;
    set_guards();
    throw std::runtime_error(std::string(function) + " wrote " +
                             (behind ? "before the beginning of " : "past the end of ") + what + " (" +
                             std::to_string(size_) + " bytes)");
  }

 private:
  static constexpr size_t kGuard = 64;
  static constexpr std::byte kPattern{0xa5};

  void set_guards() {
    std::fill_n(bytes_.begin(), kGuard, kPattern);
    std::fill_n(bytes_.end() - kGuard, kGuard, kPattern);
  }

  size_t size_;
  std::vector<std::byte> bytes_;
};

}  // namespace troupe
