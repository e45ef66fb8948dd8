#include "actors/experience/common/array_checks.h"

#include <algorithm>
#include <cmath>

namespace troupe {

Misfit check_array(const std::string& name, const Array& array, DType dtype, const Shape& shape) {
  if (array.dtype() == dtype && array.shape() == shape) return std::nullopt;
  return name + " is " + std::string(name_of(array.dtype())) + array.shape().text() + ", expected " +
         std::string(name_of(dtype)) + shape.text();
}

Misfit check_finite(const std::string& name, const Array& array) {
  if (array.empty() || std::ranges::all_of(array.view<float>(), [](float x) { return std::isfinite(x); }))
    return std::nullopt;
  return name + " are not finite";
}

Misfit check_flags(const std::string& name, const Array& array) {
  if (std::ranges::any_of(array.view<uint8_t>(), [](uint8_t flag) { return flag > 1; }))
    return name + " are neither 0 nor 1";
  return std::nullopt;
}

Misfit check_episodes(const Episodes& episodes, uint64_t samples) {
  if (episodes.returns.empty() && episodes.lengths.empty() && episodes.success.empty()) return std::nullopt;
  const Shape shape{episodes.returns.size()};
  if (auto error = check_array("returns", episodes.returns, DType::f32, shape)) return error;
  if (auto error = check_array("lengths", episodes.lengths, DType::i32, shape)) return error;
  if (auto error = check_array("success", episodes.success, DType::u8, shape)) return error;
  if (episodes.parts.size() > kMostReturnParts)
    return std::to_string(episodes.parts.size()) + " parts of returns, expected at most " +
           std::to_string(kMostReturnParts);
  for (const ReturnPart& part : episodes.parts) {
    if (part.name.size() > kLongestReturnPart) return "the name of a part of returns is too long";
    if (auto error = check_array("a part of returns", part.values, DType::f32, shape)) return error;
  }
  if (static_cast<uint64_t>(episodes.count()) > samples)
    return std::to_string(episodes.count()) + " episodes in " + std::to_string(samples) + " samples";
  return std::nullopt;
}

}  // namespace troupe
