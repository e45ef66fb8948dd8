// The MLP policy replica of an inference actor or an evaluator.

#include <ATen/ATen.h>

#include <string>

#include "models/networks/mlp.h"
#include "models/networks/mlp_parameters.h"
#include "models/networks/observations.h"
#include "models/networks/tensor_models.h"
#include "runtime/base/errors.h"

namespace troupe {

namespace {

class MlpPolicy final : public Policy {
 public:
  MlpPolicy(const RunConfig& config, const EnvSpec& env)
      : config_(config.model),
        head_(env.action),
        encoder_(env.observations),
        action_(env.action),
        weights_(initial_mlp(config.model, config.seed, encoder_.features(), head_)),
        device_weights_(weights_, find_device(config.trainer.device), /*with_gradients=*/false),
        network_(config.model, device_weights_) {
    refresh();
  }

  std::shared_ptr<const Signature> signature() const override { return weights_.signature(); }

  void load(const WeightSnapshot& weights) override {
    if (weights.signature != nullptr && config_.normalize_observations + config_.normalize_returns > 0) {
      WeightBlock candidate(*weights_.signature());  // a refused normaliser must not leave half of the new weights
      candidate.load(weights);
      check_buffers(candidate);
    }
    weights_.load(weights);
    device_weights_.upload();
    refresh();
  }

  ActOutput act(const ActInput& input) override {
    const at::Tensor inputs = encode(input.observations);
    const int64_t rows = inputs.size(0);
    TROUPE_CHECK(input.seeds.size() == rows && input.deterministic.size() == rows, input.seeds.shape().text(),
                 input.deterministic.shape().text(), rows);
    const Mlp::Output output = network_.forward(inputs);
    const at::Tensor logits = output.policy.cpu();

    ActOutput result;
    result.actions = Array::uninitialized(action_.dtype(), action_.shape().prepended(rows));
    result.log_probs = Array::uninitialized(DType::f32, {rows, head_.decisions()});
    MutableActionsView actions;
    if (head_.continuous())
      actions.continuous = result.actions.mutable_view<float>();
    else
      actions.discrete = result.actions.mutable_view<int32_t>();
    head_.sample(head_input(rows, logits, input.action_mask), input.seeds.view<int64_t>(),
                 input.deterministic.view<uint8_t>(), actions, result.log_probs.mutable_view<float>());
    result.values = in_reward_units(output.values.cpu());
    return result;
  }

  Array values(const Arrays& observations) override {
    return in_reward_units(network_.forward_values(encode(observations)).cpu());
  }

 private:
  // What is computed once from new weights.
  void refresh() {
    if (config_.normalize_observations)
      scaling_ = FeatureScaling::of(read_normalizer(weights_, kObservationNormalizer), config_.observation_clip);
    units_ = value_units(weights_);
  }

  at::Tensor encode(const Arrays& observations) {
    const int64_t rows = encoder_.rows_of(observations), features = encoder_.features();
    if (static_cast<int64_t>(inputs_.size()) < rows * features) inputs_.resize(rows * features);
    const std::span<float> block = std::span(inputs_).first(rows * features);
    encoder_.encode(observations, {}, scaling_, block);
    return at::from_blob(block.data(), {rows, features}, at::TensorOptions().dtype(at::kFloat))
        .to(device_weights_.device());
  }

  HeadInput head_input(int64_t rows, const at::Tensor& logits, const Array& mask) const {
    HeadInput result;
    result.rows = rows;
    result.outputs = {logits.const_data_ptr<float>(), static_cast<size_t>(logits.numel())};
    if (head_.continuous()) result.log_std = weights_.floats(kLogStd);
    if (head_.mask_size() > 0) result.mask = mask.view<uint8_t>();
    return result;
  }

  Array in_reward_units(const at::Tensor& values) const {
    const int64_t rows = values.size(0);
    const float* source = values.const_data_ptr<float>();
    Array result = Array::uninitialized(DType::f32, {rows});
    const auto out = result.mutable_view<float>();
    for (int64_t i = 0; i < rows; ++i) out[i] = source[i] * units_.scale + units_.shift;
    const int64_t row = first_non_finite_row(out, rows);
    if (row >= 0) throw InvariantError("value of row " + std::to_string(row) + " is not finite");
    return result;
  }

  ModelConfig config_;
  Head head_;
  ObservationEncoder encoder_;
  ActionSpec action_;
  WeightBlock weights_;
  DeviceWeights device_weights_;
  Mlp network_;
  FeatureScaling scaling_;
  ValueUnits units_;
  std::vector<float> inputs_;
};

}  // namespace

std::unique_ptr<Policy> make_mlp_policy(const RunConfig& config, const EnvSpec& env) {
  return std::make_unique<MlpPolicy>(config, env);
}

}  // namespace troupe
