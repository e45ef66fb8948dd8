#include "runtime/caf/inspect.h"

#include <optional>

namespace troupe::detail {

std::vector<int64_t> extents_of(const Shape& shape) { return {shape.begin(), shape.end()}; }

bool allocate_checked(uint8_t dtype, const std::vector<int64_t>& extents, Array& out) {
  const std::optional<DType> known = dtype_of_number(dtype);
  if (!known || extents.size() > Shape::kMaxRank) return false;
  uint64_t bytes = size_of(*known);
  for (int64_t extent : extents) {
    if (extent < 0 || __builtin_mul_overflow(bytes, static_cast<uint64_t>(extent), &bytes)) return false;
    if (extent > 0 && bytes > kMaxArrayBytes) return false;
  }
  out = Array::uninitialized(*known, Shape(extents));
  return true;
}

bool describe_checked(uint8_t group, uint8_t dtype, const std::vector<int64_t>& extents, TensorSpec& out) {
  const std::optional<DType> known = dtype_of_number(dtype);
  if (group > static_cast<uint8_t>(TensorGroup::buffer)) return false;
  if (!known || extents.size() > Shape::kMaxRank) return false;
  for (int64_t extent : extents)
    if (extent < 0) return false;
  out.group = static_cast<TensorGroup>(group);
  out.dtype = *known;
  out.shape = Shape(extents);
  return true;
}

}  // namespace troupe::detail
