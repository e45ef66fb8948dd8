#pragma once
// View: one array argument as a bound function sees it. The Python layer (troupe/algorithms/_arrays.py) has already
// checked and normalized it, keeps its owner alive during the call, and names it. The dtype is checked again here
// before memory is accessed, so that a mistake in the Python layer causes an error instead of a crash.
//
// A bound function takes `const View&`, or `const View*` if None is allowed. It runs without the interpreter's lock,
// which is safe because a View is plain memory. It cannot be copied.

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::python {

enum class DType : uint8_t { u8, i32, i64, bf16, f32, f64 };

// The dtype that T reads: uint8_t (also bool), int32_t, int64_t, uint16_t (the bits of a bfloat16), float, double.
template <class T>
constexpr DType dtype_of();
template <> constexpr DType dtype_of<uint8_t>() { return DType::u8; }
template <> constexpr DType dtype_of<int32_t>() { return DType::i32; }
template <> constexpr DType dtype_of<int64_t>() { return DType::i64; }
template <> constexpr DType dtype_of<uint16_t>() { return DType::bf16; }
template <> constexpr DType dtype_of<float>() { return DType::f32; }
template <> constexpr DType dtype_of<double>() { return DType::f64; }

class View {
 public:
  // `dtype` is numpy's name; `strides` are in elements. Throws ConfigError on an unknown dtype or a negative extent.
  View(std::string name, std::uintptr_t address, std::string_view dtype, std::vector<int64_t> shape,
       std::vector<int64_t> strides, bool writable);
  View(const View&) = delete;
  View& operator=(const View&) = delete;

  const std::string& name() const { return name_; }
  DType dtype() const { return dtype_; }
  std::size_t rank() const { return shape_.size(); }
  // The shape and the strides (in elements) of one dimension, which must exist.
  int64_t dim(std::size_t i) const { return shape_.at(i); }
  int64_t stride(std::size_t i) const { return strides_.at(i); }
  // The product of the extents.
  int64_t size() const { return size_; }
  // Whether the view is row-major without gaps.
  bool contiguous() const;

  // Throws ConfigError "<name>: shape (3, 5), expected (3, 4)" when the shape differs.
  void require_shape(std::initializer_list<int64_t> shape) const;

  // All elements of a contiguous view. Throws ConfigError when it has gaps, another dtype or, for out(), is read-only.
  template <class T>
  std::span<const T> in() const {
    return {static_cast<const T*>(checked(dtype_of<T>(), true, false)), static_cast<std::size_t>(size_)};
  }
  template <class T>
  std::span<T> out() const {
    return {static_cast<T*>(checked(dtype_of<T>(), true, true)), static_cast<std::size_t>(size_)};
  }
  // The first element of a view with any strides, for kernels that use strides.
  template <class T>
  const T* data() const {
    return static_cast<const T*>(checked(dtype_of<T>(), false, false));
  }
  template <class T>
  T* mutable_data() const {
    return static_cast<T*>(checked(dtype_of<T>(), false, true));
  }

 private:
  void* checked(DType wanted, bool contiguous, bool writable) const;

  std::string name_;
  void* data_;
  DType dtype_;
  std::vector<int64_t> shape_;
  std::vector<int64_t> strides_;
  int64_t size_ = 1;
  bool writable_;
};

// The elements of an optional argument; empty for None.
template <class T>
std::span<const T> in_or_empty(const View* view) {
  return view == nullptr ? std::span<const T>() : view->in<T>();
}

}  // namespace troupe::python
