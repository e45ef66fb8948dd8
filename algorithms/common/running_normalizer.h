#pragma once
// Running mean and variance of each feature, to normalize observations (O features) and returns (1 feature). A plain
// value without synchronization; the owner serializes access.

#include <cstdint>
#include <span>
#include <vector>

namespace troupe {

class RunningNormalizer {
 public:
  explicit RunningNormalizer(int64_t features = 0);
  // Restores a saved state. Throws InvariantError when it is invalid: sizes differ, a number is not finite or m2 < 0.
  RunningNormalizer(double count, std::vector<double> mean, std::vector<double> m2);

  int64_t features() const { return static_cast<int64_t>(mean_.size()); }
  double count() const { return count_; }
  const std::vector<double>& mean() const { return mean_; }  // [O]
  const std::vector<double>& m2() const { return m2_; }      // [O] sums of squared deviations

  // Adds the samples of block [B, O]; valid: [B], or empty = all. Throws InvariantError and changes nothing when a
  // valid sample holds a number that is not finite, because that would corrupt the state for the rest of the run.
  void update(std::span<const float> block, std::span<const uint8_t> valid = {});
  // Adds another stream (Chan, Golub, LeVeque 1979, Stanford report STAN-CS-79-773).
  void merge(const RunningNormalizer& other);

  // Population variance of feature i; 1 with fewer than two samples.
  double variance(int64_t i) const;
  // out = clamp((in - mean) / sqrt(variance + epsilon), -clip, clip), [B, O]; clip 0 = no clipping. `in` and `out` may
  // be the same array.
  void normalize(std::span<const float> in, std::span<float> out, double clip = 10.0, double epsilon = 1e-8) const;
  // out = in * sqrt(variance + epsilon) + mean: the inverse of normalize(), except where it clipped.
  void denormalize(std::span<const float> in, std::span<float> out, double epsilon = 1e-8) const;

 private:
  double count_ = 0;
  std::vector<double> mean_;
  std::vector<double> m2_;
};

}  // namespace troupe
