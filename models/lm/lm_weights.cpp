#include "models/lm/lm_weights.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>

#include "models/lm/hf_folder.h"
#include "runtime/base/errors.h"
#include "runtime/base/rng.h"

namespace troupe {
namespace {

constexpr float kStandardDeviation = 0.02f;  // initializer_range of transformers

}  // namespace

Signature lm_signature(const LmModel& model) {
  Signature result;
  for (const LmTensor& tensor : model.lora.used() ? lora_tensors(model.shape, model.lora) : lm_tensors(model.shape))
    result.tensors.push_back({TensorGroup::policy, tensor.name, tensor.shape, DType::f32});
  std::ranges::sort(result.tensors, {}, &TensorSpec::name);
  if (model.lora.used())
    result.tensors.push_back({TensorGroup::buffer, "frozen." + model.frozen->hash, Shape{0}, DType::u8});
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

void begin_lm_weights(const LmModel& model, uint64_t seed, WeightBlock& weights) {
  if (!model.lora.used()) {
    if (model.path.empty()) return draw_lm_weights(model.shape, seed, weights);
    return HfFolder(posix_disk(), model.path).read([&](const std::string& name) { return weights.floats(name); });
  }
  for (const LmTensor& tensor : lora_tensors(model.shape, model.lora)) {
    const std::span<float> values = weights.floats(tensor.name);
    if (tensor.name.ends_with("lora_B.weight")) {
      std::ranges::fill(values, 0.0f);
      continue;
    }
    const float most = 1.0f / std::sqrt(static_cast<float>(tensor.shape[1]));
    Rng rng(derive_key(seed, tensor.name));
    for (float& value : values) value = most * static_cast<float>(2.0 * rng.uniform_double() - 1.0);
  }
}

DecoderWeights decoder_weights(const LmModel& model, const WeightBlock& weights) {
  const auto find = [](const WeightBlock& block) {
    return [&block](const std::string& name) { return block.floats(name); };
  };
  if (!model.lora.used()) return bind_decoder<const float>(model.shape, find(weights));
  DecoderWeights result = bind_decoder<const float>(model.shape, find(model.frozen->weights));
  bind_lora<const float>(model.shape, model.lora, find(weights), result);
  return result;
}

DecoderGradients decoder_gradients(const LmModel& model, const WeightBlock& weights, std::span<float> gradients) {
  std::map<std::string, size_t> places;
  const std::vector<TensorSpec>& tensors = weights.signature()->tensors;
  for (size_t i = 0; i < tensors.size(); ++i) places[tensors[i].name] = i;
  const auto find = [&](const std::string& name) {
    const auto found = places.find(name);
    TROUPE_CHECK(found != places.end(), name);
    const auto count = static_cast<size_t>(tensors[found->second].shape.elements());
    return gradients.subspan(weights.parameter_offset(found->second), count);
  };
  if (!model.lora.used()) return bind_decoder<float>(model.shape, find);
  DecoderGradients result = no_gradients(model.shape);
  bind_lora<float>(model.shape, model.lora, find, result);
  return result;
}

}  // namespace troupe
