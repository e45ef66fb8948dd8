#pragma once
// A number that tells whether ranks have the same weights. Plain function; the learner's thread.

#include <cstdint>
#include <string_view>

#include "models/policy.h"
#include "runtime/base/crc32c.h"

namespace troupe {

// Of the weights that the learner would publish.
inline uint32_t weights_check(const WeightSnapshot& weights) {
  return crc32c({reinterpret_cast<const char*>(weights.flat.data()), weights.flat.bytes()});
}
inline uint32_t weights_check(const Learner& learner) { return weights_check(*learner.snapshot({})); }

}  // namespace troupe
