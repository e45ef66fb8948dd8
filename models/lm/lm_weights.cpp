#include "models/lm/lm_weights.h"

#include <algorithm>
#include <map>
#include <string>

#include "runtime/base/errors.h"
#include "runtime/base/rng.h"

namespace troupe {
namespace {

constexpr float kStandardDeviation = 0.02f;  // initializer_range of transformers

}  // namespace

Signature lm_signature(const LmShape& shape) {
  Signature result;
  for (const LmTensor& tensor : lm_tensors(shape))
    result.tensors.push_back({TensorGroup::policy, tensor.name, tensor.shape, DType::f32});
  std::ranges::sort(result.tensors, {}, &TensorSpec::name);
  return result;
}

void draw_lm_weights(const LmShape& shape, uint64_t seed, WeightBlock& weights) {
  for (const LmTensor& tensor : lm_tensors(shape)) {
    const std::span<float> values = weights.floats(tensor.name);
    if (tensor.shape.rank() == 1) {
      std::ranges::fill(values, tensor.name.ends_with("norm.weight") ? 1.0f : 0.0f);
      continue;
    }
    Rng rng(derive_key(seed, tensor.name));
    for (float& value : values) value = kStandardDeviation * rng.normal();
  }
}

DecoderWeights decoder_weights(const LmShape& shape, const WeightBlock& weights) {
  return bind_decoder<const float>(shape, [&](const std::string& name) { return weights.floats(name); });
}

DecoderGradients decoder_gradients(const LmShape& shape, const WeightBlock& weights, std::span<float> gradients) {
  std::map<std::string, size_t> places;
  const std::vector<TensorSpec>& tensors = weights.signature()->tensors;
  for (size_t i = 0; i < tensors.size(); ++i) places[tensors[i].name] = i;
  return bind_decoder<float>(shape, [&](const std::string& name) {
    const auto found = places.find(name);
    TROUPE_CHECK(found != places.end(), name);
    const auto count = static_cast<size_t>(tensors[found->second].shape.elements());
    return gradients.subspan(weights.parameter_offset(found->second), count);
  });
}

}  // namespace troupe
