#include "models/torch/replica.h"

#include <ATen/ATen.h>

#include "runtime/base/blocked.h"

namespace troupe {

namespace {

at::ScalarType type_of(DType dtype) {
  switch (dtype) {
    case DType::u8: return at::kByte;
    case DType::i32: return at::kInt;
    case DType::i64: return at::kLong;
    case DType::f32: return at::kFloat;
    case DType::f64: return at::kDouble;
    case DType::f16: return at::kHalf;
    case DType::bf16: return at::kBFloat16;
  }
  return at::kFloat;
}

}  // namespace

Replica::Replica(const LearnerConfig& run, const EnvSpec& env, at::Device at, bool with_gradients, bool own_memory)
    : Replica(run, env, define_network(run.model, env), at, with_gradients, own_memory) {}

Replica::Replica(const LearnerConfig& run, const EnvSpec& env, const NetworkDefinition& definition, at::Device at,
                 bool with_gradients, bool own_memory)
    : seed(run.seed),
      config(run.model),
      layout(definition.layout),
      head(env.action),
      encoder(env.observations, layout.inputs),
      weights(model_signature(layout, run.model, env)),
      device(weights, at, with_gradients, own_memory, frees_gradients(run.trainer) && at.is_cpu()),
      network(definition.make(device)) {}

void Replica::require_weights() {
  if (has_weights) return;
  draw_weights(layout, config, seed, weights);
  follow_weights();
}

void Replica::load(const WeightSnapshot& snapshot) {
  weights.load(snapshot);
  follow_weights();
}

void Replica::load(const std::map<std::string, Array>& tensors) {
  weights.load(tensors);
  follow_weights();
}

void Replica::follow_weights() {
  device.upload();
  network->weights_changed();
  has_weights = true;
}

FeatureScaling Replica::scaling() const {
  if (!has_normalizer(weights, kObservationNormalizer)) return {};
  return FeatureScaling::of(read_normalizer(weights, kObservationNormalizer), config.observation_clip);
}

std::span<const float> Replica::log_std() const {
  return head.continuous() ? weights.floats(kLogStd) : std::span<const float>();
}

std::vector<at::Tensor> Replica::tensors_of(const std::vector<Array>& inputs) const {
  std::vector<at::Tensor> result;
  for (const Array& array : inputs) result.push_back(tensor_view(array).to(device.device()));
  return result;
}

std::span<const float> floats_of(const at::Tensor& tensor) {
  return {tensor.const_data_ptr<float>(), static_cast<size_t>(tensor.numel())};
}

at::Tensor on_host(const at::Tensor& tensor) {
  if (tensor.is_cpu()) return tensor;
  const Blocked blocked;
  return tensor.cpu();
}

at::Tensor tensor_view(const Array& array) {
  const at::IntArrayRef shape(array.shape().begin(), array.shape().end());
  auto* data = const_cast<std::byte*>(array.data());  // from_blob takes no const
  return at::from_blob(data, shape, at::TensorOptions().dtype(type_of(array.dtype())));
}

}  // namespace troupe
