#pragma once
// ScalingHistory: how the observations of each policy version were normalised. A sample is trained with the statistics
// of the version that acted on it, so that only the weights move the ratio of probabilities (docs/decisions/011). Used
// by the learner's thread.

#include <cstdint>
#include <deque>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "models/networks/inputs.h"
#include "runtime/base/array.h"

namespace troupe {

// How the samples of a batch are normalised.
struct SampleScalings {
  std::vector<FeatureScaling> all;     // those of the samples; empty = observations are not normalised
  std::vector<int64_t> of_samples;     // [B] indices into `all`; empty = the first one for everything
  std::vector<int64_t> of_bootstraps;  // [C] of bootstrap inputs: that of the sample before
};

class ScalingHistory {
 public:
  // Keeps the versions that are at most `max_policy_lag` older than the newest, and at most kMost.
  explicit ScalingHistory(int64_t max_policy_lag) : max_policy_lag_(static_cast<uint64_t>(max_policy_lag)) {}
  static constexpr size_t kMost = 4096;

  // The scaling of the newest version.
  void set(uint64_t version, FeatureScaling scaling);
  // For samples of these versions, [B] int64, and the bootstrap inputs after the samples `before`. An empty array means
  // the newest version. A version that is not kept takes the nearest that is.
  SampleScalings of(const Array& versions, std::span<const int64_t> before) const;

  // What the next update needs, as tensors whose names begin with kPrefix. load() takes them out of `tensors`; it
  // throws ConfigError naming the tensor that does not fit, and then changes nothing.
  void save(std::map<std::string, Array>& tensors) const;
  void load(std::map<std::string, Array>& tensors, int64_t features, float clip);
  static constexpr const char* kPrefix = "observation_scaling.";

 private:
  struct Entry {
    uint64_t version;
    FeatureScaling scaling;
  };

  size_t nearest(int64_t version) const;

  uint64_t max_policy_lag_;
  std::deque<Entry> entries_;  // ascending versions
};

// Normalises the inputs of samples in place. `of` are indices into scalings.all, as SampleScalings has them.
void scale_samples(const InputEncoder& encoder, const SampleScalings& scalings, std::span<const int64_t> of,
                   std::vector<Array>& inputs);

}  // namespace troupe
