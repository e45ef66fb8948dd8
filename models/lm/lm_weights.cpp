#include "models/lm/lm_weights.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "models/lm/hf_folder.h"
#include "models/lm/lm_config.h"
#include "runtime/base/errors.h"
#include "runtime/base/rng.h"

namespace troupe {
namespace {

constexpr float kStandardDeviation = 0.02f;  // initializer_range of transformers
constexpr const char* kHeadWeight = "critic.value_head.weight";
constexpr const char* kHeadBias = "critic.value_head.bias";
constexpr std::string_view kFrozen = "frozen.";

// Of a separate critic's decoder: tied embeddings stand for no output layer of its own.
LmShape critic_shape(const LmModel& model) {
  LmShape shape = model.shape;
  shape.tied_embeddings = true;
  return shape;
}

std::string of_critic(const std::string& name) { return "critic." + name; }

std::vector<LmTensor> critic_tensors(const LmModel& model) {
  std::vector<LmTensor> result;
  if (model.critic == CriticKind::none) return result;
  result.push_back({kHeadWeight, {1, model.shape.hidden}});
  result.push_back({kHeadBias, {1}});
  if (model.critic == CriticKind::shared) return result;
  for (const LmTensor& tensor : lm_tensors(critic_shape(model)))
    result.push_back({of_critic(tensor.name), tensor.shape});
  return result;
}

// Finds views of gradients by name.
std::function<std::span<float>(const std::string&)> parts_of(const WeightBlock& weights, std::span<float> gradients) {
  std::map<std::string, size_t> places;
  const std::vector<TensorSpec>& tensors = weights.signature()->tensors;
  for (size_t i = 0; i < tensors.size(); ++i) places[tensors[i].name] = i;
  return [&weights, gradients, places = std::move(places)](const std::string& name) {
    const auto found = places.find(name);
    TROUPE_CHECK(found != places.end(), name);
    const auto count = static_cast<size_t>(weights.signature()->tensors[found->second].shape.elements());
    return gradients.subspan(weights.parameter_offset(found->second), count);
  };
}

}  // namespace

Signature lm_signature(const LmModel& model) {
  Signature result;
  for (const LmTensor& tensor : model.lora.used() ? lora_tensors(model.shape, model.lora) : lm_tensors(model.shape))
    result.tensors.push_back({TensorGroup::policy, tensor.name, tensor.shape, DType::f32});
  for (const LmTensor& tensor : critic_tensors(model))
    result.tensors.push_back({TensorGroup::critic, tensor.name, tensor.shape, DType::f32});
  std::ranges::sort(result.tensors, {},
                    [](const TensorSpec& t) { return std::pair(t.group, std::string_view(t.name)); });
  if (model.lora.used())
    result.tensors.push_back({TensorGroup::buffer, frozen_name(model.frozen->hash), Shape{0}, DType::u8});
  return result;
}

std::string frozen_name(const std::string& hash) { return std::string(kFrozen) + hash; }

std::optional<std::string> frozen_hash_in(const std::string& name) {
  return name.starts_with(kFrozen) ? std::optional(name.substr(kFrozen.size())) : std::nullopt;
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

namespace {

void begin_adapters(const LmModel& model, uint64_t seed, WeightBlock& weights) {
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

void read_critic(const LmModel& model, WeightBlock& weights) {
  const HfFolder folder = critic_folder(model.critic_path);
  LmShape shape = folder.shape();
  shape.tied_embeddings = true;
  if (!(shape == critic_shape(model)))
    throw ConfigError("model.critic_path: is not the model of the policy: " +
                      lm_differences(shape, critic_shape(model)));
  std::vector<float> output;  // which a critic does not have
  folder.read([&](const std::string& name) {
    if (name == kScoreWeight) return weights.floats(kHeadWeight);
    if (name != "lm_head.weight") return weights.floats(of_critic(name));
    output.resize(static_cast<size_t>(shape.vocabulary * shape.hidden));
    return std::span<float>(output);
  });
}

}  // namespace

void begin_critic(const LmModel& model, WeightBlock& weights) {
  if (model.critic != CriticKind::separate) return;
  if (!model.critic_path.empty()) return read_critic(model, weights);
  const WeightBlock& policy = model.lora.used() ? model.frozen->weights : weights;
  for (const LmTensor& tensor : lm_tensors(critic_shape(model)))
    std::ranges::copy(policy.floats(tensor.name), weights.floats(of_critic(tensor.name)).begin());
}

void begin_lm_weights(const LmModel& model, uint64_t seed, WeightBlock& weights) {
  if (model.lora.used())
    begin_adapters(model, seed, weights);
  else if (model.path.empty())
    draw_lm_weights(model.shape, seed, weights);
  else
    HfFolder(posix_disk(), model.path).read([&](const std::string& name) { return weights.floats(name); });
  begin_critic(model, weights);
}

namespace {

std::function<std::span<const float>(const std::string&)> finder(const WeightBlock& block) {
  return [&block](const std::string& name) { return block.floats(name); };
}

}  // namespace

DecoderWeights decoder_weights(const LmModel& model, const WeightBlock& weights) {
  if (!model.lora.used()) return bind_decoder<const float>(model.shape, finder(weights));
  DecoderWeights result = bind_decoder<const float>(model.shape, finder(model.frozen->weights));
  bind_lora<const float>(model.shape, model.lora, finder(weights), result);
  return result;
}

DecoderWeights adapter_weights(const LmModel& model, const WeightBlock& weights) {
  DecoderWeights result;
  result.layers.resize(static_cast<size_t>(model.shape.layers));
  bind_lora<const float>(model.shape, model.lora, finder(weights), result);
  return result;
}

DecoderWeights critic_weights(const LmModel& model, const WeightBlock& weights) {
  DecoderWeights result = bind_decoder<const float>(
      critic_shape(model), [&](const std::string& name) { return weights.floats(of_critic(name)); });
  result.output = {};
  return result;
}

ValueHeadTensors<const float> head_weights(const WeightBlock& weights) {
  return {weights.floats(kHeadWeight), weights.floats(kHeadBias)};
}

DecoderGradients decoder_gradients(const LmModel& model, const WeightBlock& weights, std::span<float> gradients) {
  const auto find = parts_of(weights, gradients);
  if (!model.lora.used()) return bind_decoder<float>(model.shape, find);
  DecoderGradients result = no_gradients(model.shape);
  bind_lora<float>(model.shape, model.lora, find, result);
  return result;
}

DecoderGradients critic_gradients(const LmModel& model, const WeightBlock& weights, std::span<float> gradients) {
  const auto find = parts_of(weights, gradients);
  DecoderGradients result =
      bind_decoder<float>(critic_shape(model), [&](const std::string& name) { return find(of_critic(name)); });
  result.output = {};
  return result;
}

ValueHeadTensors<float> head_gradients(const WeightBlock& weights, std::span<float> gradients) {
  const auto find = parts_of(weights, gradients);
  return {find(kHeadWeight), find(kHeadBias)};
}

}  // namespace troupe
