#pragma once
// AdamMoments: what Adam keeps of some of the trained parameters. A plain value.

#include <span>

#include "models/shards/element_range.h"
#include "runtime/base/array.h"

namespace troupe {

struct AdamMoments {
  ElementRange elements;
  Array first, second;  // [elements] float32: running means of the gradients and of their squares
};

// Those of these elements, from slices that together have each of them once, or more often with the same values; as
// they are, without a copy, if one of the slices is just that. Throws InvariantError when one is missing, or a slice
// does not have what it says.
AdamMoments moments_of(std::span<const AdamMoments> slices, ElementRange elements);
// Whether they have each of them.
bool have_moments_of(std::span<const AdamMoments> slices, ElementRange elements);

}  // namespace troupe
