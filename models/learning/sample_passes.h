#pragma once
// Passes over many samples in parts of bounded memory.

#include <algorithm>
#include <cstdint>
#include <span>

#include "models/networks/inputs.h"

namespace troupe {

// Samples of one pass outside training: at most 4,096, and 16 MB of inputs.
inline int64_t samples_per_pass(const InputEncoder& encoder) {
  constexpr int64_t kNumbersPerPass = 4 << 20, kSamplesPerPass = 4096;
  return std::clamp<int64_t>(kNumbersPerPass / encoder.elements(), 1, kSamplesPerPass);
}

// Calls pass(samples) for consecutive parts of at most `size` samples.
template <class Pass>
void for_each_pass(std::span<const int64_t> samples, int64_t size, Pass pass) {
  for (size_t begin = 0; begin < samples.size(); begin += static_cast<size_t>(size))
    pass(samples.subspan(begin, std::min(static_cast<size_t>(size), samples.size() - begin)));
}

}  // namespace troupe
