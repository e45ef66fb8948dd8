#include "models/torch/token_transformer.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <string>

#include "models/decoder/matrix_product.h"
#include "models/networks/token_transformer_layout.h"
#include "runtime/base/errors.h"

namespace troupe {

namespace {

std::span<float> memory_of(const at::Tensor& tensor) {
  return {tensor.mutable_data_ptr<float>(), static_cast<size_t>(tensor.numel())};
}

// Reused; memory is kept.
at::Tensor& shaped(at::Tensor& buffer, int64_t rows, int64_t columns) {
  if (!buffer.defined()) buffer = at::empty({0}, at::TensorOptions().dtype(at::kFloat));
  return buffer.resize_({rows, columns}), buffer;
}

}  // namespace

TokenTransformer::TokenTransformer(const ModelConfig& config, const EnvSpec& env, const DeviceWeights& weights)
    : shape_(token_transformer_shape(config, env)),
      lora_(lora_from_config(config.lora, "model.lora")),
      base_(lora_.used() ? token_transformer_base(config.path) : nullptr),
      decisions_(Head(env.action).layout()),
      learns_(weights.has_gradients()),
      parallel_(weights.has_gradients() ? at::get_num_threads() : 1),
      decoder_(shape_, parallel_),
      heads_(decisions_.size()) {
  if (!weights.device().is_cpu())
    throw ConfigError("model.kind: \"token_transformer\" computes on the CPU only; use the device \"cpu\"");
  bind(weights);
  if (weights.has_gradients()) bind_gradients(weights);
  const Activation activation = find_activation(config.activation);
  input_ = MlpStack(weights, "policy", config.hidden.size(), activation);
  input_.add(weights, "policy.input", false);
  value_ = MlpStack(weights, "value", config.hidden.size(), activation);
  value_.add(weights, "value.head", false);
}

void TokenTransformer::bind(const DeviceWeights& weights) {
  const auto of_model = [&](const std::string& name) -> std::span<const float> {
    return memory_of(weights.parameter(kTokenDecoderPrefix + name));
  };
  tensors_ = bind_decoder<const float>(shape_, [&](const std::string& name) -> std::span<const float> {
    if (base_ == nullptr || !is_of_base(name)) return of_model(name);
    return base_->tensors.at(kTokenDecoderPrefix + name).view<float>();
  });
  bind_lora<const float>(shape_, lora_, of_model, tensors_);
}

void TokenTransformer::bind_gradients(const DeviceWeights& weights) {
  const auto find = [&](const std::string& name) {
    const std::string full = kTokenDecoderPrefix + name;
    const std::span<float> gradient = memory_of(weights.gradient(full));
    elements_[gradient.data()] = weights.elements(full);
    return gradient;
  };
  gradients_ = base_ == nullptr ? bind_decoder<float>(shape_, find) : no_gradients(shape_);
  if (base_ != nullptr) gradients_.output = find("lm_head.weight");
  bind_lora<float>(shape_, lora_, find, gradients_);
}

void TokenTransformer::say_complete(std::span<const float> gradients) const {
  if (complete_ && !gradients.empty()) complete_(elements_.at(gradients.data()));
}

// A policy makes a pass for each decision, so it packs the decoder once for all of them, and that of a base only once.
void TokenTransformer::pack_decoder() {
  if (base_ == nullptr || packed_decoder_ == nullptr) {
    if (packed_decoder_ == nullptr) packed_decoder_ = std::make_shared<PackedDecoder>();
    DecoderWeights layers = tensors_;
    layers.embedding = layers.output = {};  // used here alone
    packed_decoder_->pack(shape_, layers, parallel_);
    packed_decoder_->keep_rest(layers);
    decoder_.load(packed_decoder_);
  }
  if (base_ != nullptr) decoder_.load_adapters(tensors_);
}

void TokenTransformer::pack() {
  if (packed_) return;
  if (learns_)
    decoder_.load(tensors_);  // packs a matrix where it multiplies with it: once per pass over all decisions
  else
    pack_decoder();
  for (size_t d = 0; d < decisions_.size(); ++d) {
    const auto [first, bins] = decisions_[d];
    const std::span<const float> rows =
        tensors_.output.subspan(static_cast<size_t>(first * shape_.hidden), static_cast<size_t>(bins * shape_.hidden));
    heads_[d].pack({&rows, 1}, shape_.hidden, parallel_);
  }
  packed_ = true;
}

// The token of a decision. Numbers behind the executed decisions of a sample may be anything: nothing that counts
// depends on them.
int32_t TokenTransformer::token(const int32_t* actions, int64_t decision) const {
  const auto [first, bins] = decisions_[static_cast<size_t>(decision)];
  return static_cast<int32_t>(first + std::clamp<int64_t>(actions[decision], 0, bins - 1));
}

// The input that belongs to a decision: what was observed, and the decision before.
void TokenTransformer::write_input(const float* observed, const int32_t* actions, int64_t decision, float* out) const {
  std::copy_n(observed, shape_.hidden, out);
  if (decision == 0) return;
  const float* row = tensors_.embedding.data() + token(actions, decision - 1) * shape_.hidden;
  lm_kernels().add(row, shape_.hidden, out);
}

void TokenTransformer::decide(int64_t decision, const float* hidden, int64_t samples, int64_t rows_between,
                              float* outputs) {
  multiply_packed({hidden, samples, shape_.hidden, rows_between * shape_.hidden}, heads_[static_cast<size_t>(decision)],
                  outputs + decisions_[static_cast<size_t>(decision)].first, shape_.vocabulary, parallel_);
}

NetworkOutput TokenTransformer::forward(const NetworkInput& input, bool /*backward_follows*/) {
  const c10::InferenceMode guard;
  pack();
  const at::Tensor& observations = input.observations.front();
  const auto count = static_cast<int64_t>(decisions_.size());
  samples_ = observations.size(0);
  TROUPE_CHECK(input.actions.defined() && input.actions.numel() == samples_ * count, "actions of", samples_, "samples");
  actions_ = input.actions;
  const auto* actions = actions_.const_data_ptr<int32_t>();
  const at::Tensor observed = input_.run(observations);
  inputs_.resize(samples_ * count * shape_.hidden);
  ids_.assign(static_cast<size_t>(samples_ * count), kGivenInput);
  sequences_.clear();
  for (int64_t i = 0; i < samples_; ++i) {
    sequences_.push_back({.tokens = count, .own_begin = i * count});
    for (int64_t d = 0; d < count; ++d)
      write_input(observed.const_data_ptr<float>() + i * shape_.hidden, actions + i * count, d,
                  inputs_.data() + (i * count + d) * shape_.hidden);
  }
  hidden_.resize(samples_ * count * shape_.hidden);
  decoder_.forward_training(batch(), activations_, hidden_.span());
  float* outputs = shaped(outputs_, samples_, shape_.vocabulary).mutable_data_ptr<float>();
  for (int64_t d = 0; d < count; ++d) decide(d, hidden_.data() + d * shape_.hidden, samples_, count, outputs);
  return {outputs_, value_.run(observations), {}};
}

// One token of each sample per pass; keys and values of those before are in `cells_`.
NetworkOutput TokenTransformer::act(const NetworkInput& input, const Draw& draw) {
  const c10::InferenceMode guard;
  pack();
  const at::Tensor& observations = input.observations.front();
  const int64_t samples = observations.size(0);
  const auto count = static_cast<int64_t>(decisions_.size());
  const at::Tensor observed = input_.run(observations);
  if (cells_ == nullptr || cells_->layers.front().cells() < samples * count)
    cells_ = std::make_unique<KvStore>(shape_, samples * count);
  hidden_.resize(samples * shape_.hidden);
  float* outputs = shaped(outputs_, samples, shape_.vocabulary).mutable_data_ptr<float>();
  ids_.assign(static_cast<size_t>(samples), kGivenInput);
  inputs_.resize(samples * shape_.hidden);
  at::Tensor actions;
  for (int64_t d = 0; d < count; ++d) {
    const int32_t* drawn = d > 0 ? actions.const_data_ptr<int32_t>() : nullptr;
    sequences_.clear();
    for (int64_t i = 0; i < samples; ++i) {
      sequences_.push_back({.tokens = 1, .own_begin = i * count, .own_before = d});
      write_input(observed.const_data_ptr<float>() + i * shape_.hidden, drawn + i * count, d,
                  inputs_.data() + i * shape_.hidden);
    }
    decoder_.forward(batch(), *cells_, hidden_.span());
    decide(d, hidden_.data(), samples, 1, outputs);
    actions = draw(outputs_, d);
  }
  return {outputs_, value_.run(observations), {}};
}

at::Tensor TokenTransformer::values(const NetworkInput& input) {
  const c10::InferenceMode guard;
  return value_.run(input.observations.front());
}

void TokenTransformer::backward(const at::Tensor& policy_gradients, const at::Tensor& value_gradients) {
  const c10::InferenceMode guard;
  if (value_gradients.defined()) value_.run_back(value_gradients, false, complete_);
  if (!policy_gradients.defined()) return;
  const auto count = static_cast<int64_t>(decisions_.size());
  const at::Tensor dense = policy_gradients.contiguous();
  d_hidden_.resize(hidden_.size());
  for (int64_t d = 0; d < count; ++d) {
    const auto [first, bins] = decisions_[static_cast<size_t>(d)];
    const MatrixView gradient{dense.const_data_ptr<float>() + first, samples_, bins, shape_.vocabulary};
    const MatrixView weights{tensors_.output.data() + first * shape_.hidden, bins, shape_.hidden, shape_.hidden};
    const MatrixView hidden{hidden_.data() + d * shape_.hidden, samples_, shape_.hidden, count * shape_.hidden};
    multiply_rows(gradient, weights, d_hidden_.data() + d * shape_.hidden, count * shape_.hidden, false, parallel_);
    add_outer_products(gradient, hidden, gradients_.output.data() + first * shape_.hidden, parallel_);
  }
  say_complete(gradients_.output);
  d_inputs_.resize(inputs_.size());
  decoder_.backward(batch(), activations_, d_hidden_.span(), gradients_, d_inputs_.span(),
                    [this](const LayerTensors<float>& layer) {
                      layer.for_each([this](std::span<float> gradients) { say_complete(gradients); });
                    });
  const at::Tensor& d_observed = shaped(d_observed_, samples_, shape_.hidden).zero_();
  const LmKernels& kernels = lm_kernels();
  const auto* actions = actions_.const_data_ptr<int32_t>();
  for (int64_t i = 0; i < samples_; ++i)
    for (int64_t d = 0; d < count; ++d) {
      const float* gradient = d_inputs_.data() + (i * count + d) * shape_.hidden;
      kernels.add(gradient, shape_.hidden, d_observed.mutable_data_ptr<float>() + i * shape_.hidden);
      if (d > 0 && !gradients_.embedding.empty())
        kernels.add(gradient, shape_.hidden,
                    gradients_.embedding.data() + token(actions + i * count, d - 1) * shape_.hidden);
    }
  say_complete(gradients_.norm);
  say_complete(gradients_.embedding);
  input_.run_back(d_observed, false, complete_);
}

}  // namespace troupe
