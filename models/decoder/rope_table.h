#pragma once
// RopeTable: cosines and sines of rotary embeddings (arXiv:2104.09864), with the frequencies of Hugging Face's
// transformers, float32. Owned by a decoder; grows when asked, then read by any thread.

#include <cstdint>
#include <vector>

#include "models/decoder/lm_shape.h"

namespace troupe {

// The frequency of each pair of a head, [head_dim / 2].
std::vector<float> rope_frequencies(const LmShape& shape);

class RopeTable {
 public:
  explicit RopeTable(const LmShape& shape) : frequencies_(rope_frequencies(shape)) {}

  // Makes positions [0, count) readable.
  void grow(int64_t count);
  // [head_dim / 2]. The position must be below the count of grow().
  const float* cos(int64_t position) const { return cos_.data() + position * half(); }
  const float* sin(int64_t position) const { return sin_.data() + position * half(); }
  int64_t half() const { return static_cast<int64_t>(frequencies_.size()); }

 private:
  std::vector<float> frequencies_, cos_, sin_;
};

}  // namespace troupe
