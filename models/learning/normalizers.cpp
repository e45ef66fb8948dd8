#include "models/learning/normalizers.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "models/heads/heads.h"
#include "models/learning/sample_passes.h"
#include "models/weights/model_weights.h"

namespace troupe {

RunningNormalizer observation_statistics(const StagedSamples& batch, const InputEncoder& encoder) {
  RunningNormalizer result(encoder.features());
  const auto features = static_cast<size_t>(encoder.features());
  std::vector<float> block;
  std::vector<uint8_t> finite;
  for_each_pass(batch.trained, samples_per_pass(encoder), [&](std::span<const int64_t> samples) {
    block.resize(samples.size() * features);
    encoder.gather_features(batch.inputs, samples, block);
    finite.assign(samples.size(), 1);
    for (size_t i = 0; i < samples.size(); ++i)
      finite[i] = first_non_finite_row(std::span<const float>(block).subspan(i * features, features), 1) < 0;
    result.update(block, finite);
  });
  return result;
}

void absorb_observations(const RunningNormalizer& statistics, WeightBlock& weights) {
  if (!has_normalizer(weights, kObservationNormalizer)) return;
  RunningNormalizer normalizer = read_normalizer(weights, kObservationNormalizer);
  normalizer.merge(statistics);
  write_normalizer(normalizer, kObservationNormalizer, weights);
}

RunningNormalizer return_statistics(const StagedSamples& batch) {
  const auto returns = batch.returns.view<float>();
  std::vector<float> finite;
  for (int64_t sample : batch.trained)
    if (std::isfinite(returns[sample])) finite.push_back(returns[sample]);
  RunningNormalizer result(1);
  result.update(finite);
  return result;
}

void absorb_returns(const RunningNormalizer& statistics, const LinearTensors& value_head, WeightBlock& weights) {
  if (!has_normalizer(weights, kReturnNormalizer)) return;
  const ValueUnits before = value_units(weights);
  RunningNormalizer normalizer = read_normalizer(weights, kReturnNormalizer);
  normalizer.merge(statistics);
  write_normalizer(normalizer, kReturnNormalizer, weights);
  const ValueUnits after = value_units(weights);
  for (float& weight : weights.floats(value_head.weight)) weight *= before.scale / after.scale;
  float& bias = weights.floats(value_head.bias)[0];
  bias = (before.scale * bias + before.shift - after.shift) / after.scale;
}

}  // namespace troupe
