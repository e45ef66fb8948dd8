#pragma once
// AdamMoments: what Adam keeps of some of the trained parameters. A plain value.

#include "models/shards/element_range.h"
#include "runtime/base/array.h"

namespace troupe {

struct AdamMoments {
  ElementRange elements;
  Array first, second;  // [elements] float32: running means of the gradients and of their squares
};

}  // namespace troupe
