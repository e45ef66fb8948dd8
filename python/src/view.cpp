#include "python/src/view.h"

#include <algorithm>
#include <array>
#include <utility>

#include "runtime/base/errors.h"

namespace troupe::python {

namespace {

struct DTypeRow {
  std::string_view name;
  DType dtype;
};
constexpr std::array<DTypeRow, 7> kDTypes = {{{"bool", DType::u8},
                                              {"uint8", DType::u8},
                                              {"int32", DType::i32},
                                              {"int64", DType::i64},
                                              {"bfloat16", DType::bf16},
                                              {"float32", DType::f32},
                                              {"float64", DType::f64}}};

DType dtype_named(const std::string& argument, std::string_view name) {
  for (const DTypeRow& row : kDTypes) {
    if (row.name == name) return row.dtype;
  }
  throw ConfigError(argument + ": dtype " + std::string(name) + " is not supported");
}

// "uint8" also covers bool.
std::string name_of(DType dtype) {
  const auto row =
      std::find_if(kDTypes.rbegin(), kDTypes.rend(), [&](const DTypeRow& each) { return each.dtype == dtype; });
  return std::string(row->name);
}

// "(3, 4)", "(3,)".
std::string text_of(std::span<const int64_t> shape) {
  std::string text;
  for (const int64_t extent : shape) text += (text.empty() ? "" : ", ") + std::to_string(extent);
  return "(" + text + (shape.size() == 1 ? ",)" : ")");
}

}  // namespace

View::View(std::string name, std::uintptr_t address, std::string_view dtype, std::vector<int64_t> shape,
           std::vector<int64_t> strides, bool writable)
    : name_(std::move(name)),
      data_(reinterpret_cast<void*>(address)),  // NOLINT(performance-no-int-to-ptr): Python passes addresses as numbers
      dtype_(dtype_named(name_, dtype)),
      shape_(std::move(shape)),
      strides_(std::move(strides)),
      writable_(writable) {
  if (strides_.size() != shape_.size()) throw ConfigError(name_ + ": expected one stride per dimension");
  for (const int64_t extent : shape_) {
    if (extent < 0) throw ConfigError(name_ + ": shape " + text_of(shape_) + " has a negative extent");
    if (__builtin_mul_overflow(size_, extent, &size_)) throw ConfigError(name_ + ": too many elements");
  }
  if (size_ > 0 && data_ == nullptr) throw ConfigError(name_ + ": has no memory");
}

bool View::contiguous() const {
  int64_t expected = 1;
  for (std::size_t i = shape_.size(); i-- > 0;) {
    if (shape_[i] != 1 && strides_[i] != expected && size_ > 0) return false;
    expected *= shape_[i];
  }
  return true;
}

void View::require_shape(std::initializer_list<int64_t> shape) const {
  if (std::equal(shape.begin(), shape.end(), shape_.begin(), shape_.end())) return;
  throw ConfigError(name_ + ": shape " + text_of(shape_) + ", expected " + text_of({shape.begin(), shape.size()}));
}

void* View::checked(DType wanted, bool contiguous_wanted, bool writable) const {
  if (dtype_ != wanted) throw ConfigError(name_ + ": dtype " + name_of(dtype_) + ", expected " + name_of(wanted));
  if (contiguous_wanted && !contiguous()) throw ConfigError(name_ + ": is not contiguous, expected a contiguous array");
  if (writable && !writable_) throw ConfigError(name_ + ": is read-only");
  return data_;
}

}  // namespace troupe::python
