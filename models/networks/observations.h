#pragma once
// ObservationEncoder: named observation arrays, as an environment gives them, to the rows of numbers a network reads: flattened
// in the order of the spec, float32, bytes scaled to [0, 1], optionally normalised. Const after construction, so any thread.

#include <cstdint>
#include <span>
#include <vector>

#include "algorithms/common/running_normalizer.h"
#include "envs/env.h"

namespace troupe {

// x -> clamp((x - mean) * inverse_std, -clip, clip), per feature; clip 0 = none. Empty vectors leave x as it is.
struct FeatureScaling {
  std::vector<float> mean;         // [O]
  std::vector<float> inverse_std;  // [O]
  float clip = 0.0f;

  static FeatureScaling of(const RunningNormalizer& normalizer, double clip);
};

class ObservationEncoder {
 public:
  explicit ObservationEncoder(std::vector<ArraySpec> specs);

  // O: numbers per row.
  int64_t features() const { return features_; }
  const std::vector<ArraySpec>& specs() const { return specs_; }
  // B of arrays that are each [B, ...]. Throws InvariantError naming the array when they do not fit the spec or each other.
  int64_t rows_of(const Arrays& observations) const;
  // Rows `rows` of the arrays (all of them when empty) into out [rows, O].
  void encode(const Arrays& observations, std::span<const int64_t> rows, const FeatureScaling& scaling,
              std::span<float> out) const;

 private:
  std::vector<ArraySpec> specs_;
  int64_t features_ = 0;
};

}  // namespace troupe
