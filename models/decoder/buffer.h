#pragma once
// FloatBuffer: 64-byte aligned float32 memory with unspecified contents, reused between calls. Plain value that moves;
// one thread at a time.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <utility>

namespace troupe {

class FloatBuffer {
 public:
  FloatBuffer() = default;
  explicit FloatBuffer(int64_t count) { resize(count); }
  // A buffer that was moved from is empty.
  FloatBuffer(FloatBuffer&& other) noexcept
      : data_(std::move(other.data_)),
        size_(std::exchange(other.size_, 0)),
        capacity_(std::exchange(other.capacity_, 0)) {}
  FloatBuffer& operator=(FloatBuffer&& other) noexcept {
    data_ = std::move(other.data_);
    size_ = std::exchange(other.size_, 0);
    capacity_ = std::exchange(other.capacity_, 0);
    return *this;
  }
  FloatBuffer(const FloatBuffer&) = delete;
  FloatBuffer& operator=(const FloatBuffer&) = delete;
  ~FloatBuffer() = default;

  // Makes room for `count` floats. Keeps the memory, but not its contents, where it is large enough.
  void resize(int64_t count) {
    if (count > capacity_) {
      data_.reset();
      capacity_ = 0;  // also when the allocation throws
      data_.reset(static_cast<float*>(
          ::operator new[](static_cast<size_t>(count) * sizeof(float), std::align_val_t{kAlignment})));
      capacity_ = count;
    }
    size_ = count;
  }
  float* data() { return data_.get(); }
  const float* data() const { return data_.get(); }
  int64_t size() const { return size_; }
  std::span<float> span() { return {data_.get(), static_cast<size_t>(size_)}; }
  std::span<const float> span() const { return {data_.get(), static_cast<size_t>(size_)}; }
  size_t bytes() const { return static_cast<size_t>(capacity_) * sizeof(float); }

 private:
  static constexpr size_t kAlignment = 64;
  struct Free {
    void operator()(float* p) const { ::operator delete[](p, std::align_val_t{kAlignment}); }
  };
  std::unique_ptr<float[], Free> data_;
  int64_t size_ = 0, capacity_ = 0;
};

}  // namespace troupe
