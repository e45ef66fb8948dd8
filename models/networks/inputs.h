#pragma once
// InputEncoder: the observations of an environment as the inputs of a network (NetworkInputSpec). Const after
// construction, so any thread.

#include <cstdint>
#include <span>
#include <vector>

#include "algorithms/common/running_normalizer.h"
#include "envs/env.h"
#include "models/networks/network_layout.h"

namespace troupe {

// Added to a variance before its root is taken.
inline constexpr double kVarianceFloor = 1e-8;

// x -> clamp((x - mean) * inverse_std, -clip, clip), per feature; clip 0 = none. Empty vectors leave x as it is.
struct FeatureScaling {
  std::vector<float> mean;         // [O]
  std::vector<float> inverse_std;  // [O]
  float clip = 0.0f;

  static FeatureScaling of(const RunningNormalizer& normalizer, double clip);
};

class InputEncoder {
 public:
  InputEncoder(std::vector<ArraySpec> observations, std::vector<NetworkInputSpec> inputs);

  const std::vector<ArraySpec>& observations() const { return observations_; }
  // O: numbers per sample of all inputs made of numbers, in their order. The normaliser covers exactly these.
  int64_t features() const { return features_; }
  // Elements per sample of all inputs.
  int64_t elements() const;
  // B of arrays that are each [B, ...]. Throws InvariantError naming the array when they do not fit the spec or each
  // other.
  int64_t samples_of(const Arrays& observations) const;

  // One array per input: [B, n] float32, or [B, ...] as the environment gave it. Not normalised. An input may share the
  // memory of the observation it is made from.
  std::vector<Array> encode(const Arrays& observations) const;
  // Normalises in place the encoded inputs that are numbers; an empty scaling changes nothing.
  void scale(const FeatureScaling& scaling, std::vector<Array>& inputs) const;
  // Those of the samples [begin, end) alone.
  void scale(const FeatureScaling& scaling, std::vector<Array>& inputs, int64_t begin, int64_t end) const;
  // The features of some samples of encoded inputs side by side: out [samples, O].
  void gather_features(const std::vector<Array>& inputs, std::span<const int64_t> samples, std::span<float> out) const;

  // For each input where its features begin in a FeatureScaling, or -1 when it is not made of numbers.
  const std::vector<int64_t>& first_features() const { return first_features_; }

 private:
  Array encode_numbers(const Arrays& observations, const NetworkInputSpec& input, int64_t samples) const;

  std::vector<ArraySpec> observations_;
  std::vector<NetworkInputSpec> inputs_;
  std::vector<int64_t> first_features_;
  int64_t features_ = 0;
};

}  // namespace troupe
