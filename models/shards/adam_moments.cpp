#include "models/shards/adam_moments.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/base/errors.h"

namespace troupe {

namespace {

AdamMoments zeros(ElementRange elements) {
  const Shape shape{static_cast<int64_t>(elements.size())};
  return {elements, Array(DType::f32, shape), Array(DType::f32, shape)};
}

void check_size(const AdamMoments& slice) {
  for (const Array* moments : {&slice.first, &slice.second})
    TROUPE_CHECK(slice.elements.begin <= slice.elements.end && moments->dtype() == DType::f32 &&
                     moments->size() == static_cast<int64_t>(slice.elements.size()),
                 slice.elements.begin, slice.elements.end, moments->size());
}

void copy(const Array& from, size_t first_of_from, ElementRange elements, Array& to, size_t first_of_to) {
  std::ranges::copy(from.view<float>().subspan(elements.begin - first_of_from, elements.size()),
                    to.mutable_view<float>().subspan(elements.begin - first_of_to).begin());
}

}  // namespace

AdamMoments moments_of(std::span<const AdamMoments> slices, ElementRange elements) {
  TROUPE_CHECK(have_moments_of(slices, elements), elements.begin, elements.end, slices.size());
  for (const AdamMoments& slice : slices) check_size(slice);
  const auto same = std::ranges::find(slices, elements, &AdamMoments::elements);
  if (same != slices.end()) return *same;
  AdamMoments result = zeros(elements);
  for (const AdamMoments& slice : slices) {
    const ElementRange common = slice.elements.common(elements);
    if (common.size() == 0) continue;
    copy(slice.first, slice.elements.begin, common, result.first, elements.begin);
    copy(slice.second, slice.elements.begin, common, result.second, elements.begin);
  }
  return result;
}

bool have_moments_of(std::span<const AdamMoments> slices, ElementRange elements) {
  std::vector<ElementRange> ranges;
  for (const AdamMoments& slice : slices) ranges.push_back(slice.elements);
  std::ranges::sort(ranges, {}, &ElementRange::begin);
  size_t until = elements.begin;
  for (const ElementRange& range : ranges)
    if (range.begin <= until) until = std::max(until, range.end);
  return until >= elements.end;
}

}  // namespace troupe
