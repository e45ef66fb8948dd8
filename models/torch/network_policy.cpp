#include "models/torch/network_policy.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "models/torch/replica.h"
#include "runtime/base/errors.h"

namespace troupe {

namespace {

class NetworkPolicy final : public Policy {
 public:
  NetworkPolicy(const LearnerConfig& config, const EnvSpec& env, const std::string& device)
      : env_(env),
        replica_(config, env, find_device(device, "device"), /*with_gradients=*/false),
        state_size_(replica_.layout.state_size) {}

  std::shared_ptr<const Signature> signature() const override { return replica_.weights.signature(); }

  void load(const WeightSnapshot& weights) override {
    if (weights.signature != nullptr &&
        replica_.config.normalize_observations + replica_.config.normalize_returns > 0) {
      WeightBlock candidate(*signature());  // a refused normaliser must not leave half of the new weights
      candidate.load(weights);
      check_buffers(candidate);
    }
    take(weights);
  }

  ActOutput act(const ActInput& input) override {
    require_weights();
    const std::vector<Array> inputs = encode(input.observations);
    const int64_t rows = input.seeds.size();
    TROUPE_CHECK(inputs.front().dim(0) == rows && input.deterministic.size() == rows, inputs.front().shape().text(),
                 input.deterministic.shape().text(), rows);
    const NetworkInput network_input = {
        replica_.tensors_of(inputs), state_of(input.state, rows), starts_of(input, rows), {}};
    ActOutput result;
    result.actions = Array::uninitialized(env_.action.dtype(), env_.action.shape().prepended(rows));
    result.log_probs = Array::uninitialized(DType::f32, {rows, replica_.head.decisions()});
    MutableActionsView actions;
    if (replica_.head.continuous())
      actions.continuous = result.actions.mutable_view<float>();
    else
      actions.discrete = result.actions.mutable_view<int32_t>();
    at::Tensor outputs;
    const auto seeds = input.seeds.view<int64_t>();
    const auto greedy = input.deterministic.view<uint8_t>();
    const auto log_probs = result.log_probs.mutable_view<float>();
    const auto draw = [&](const at::Tensor& computed, std::optional<int64_t> decision) {
      outputs = on_host(computed);
      const HeadInput drawn = head_input(rows, outputs, input.action_mask);
      if (decision)
        replica_.head.sample_decision(drawn, *decision, seeds, greedy, actions.discrete, log_probs);
      else
        replica_.head.sample(drawn, seeds, greedy, actions, log_probs);
      return tensor_view(result.actions).view({rows, replica_.head.decisions()});
    };
    const NetworkOutput output = replica_.network->act(network_input, draw);
    if (input.with_parameters) {
      result.policy_parameters = Array::uninitialized(DType::f32, {rows, replica_.head.parameter_count()});
      replica_.head.parameters(head_input(rows, outputs, input.action_mask),
                               result.policy_parameters.mutable_view<float>());
    }
    result.values = in_reward_units(on_host(output.values));
    if (state_size_ > 0) {
      const at::Tensor state = on_host(output.state);
      result.state = Array::of<float>({rows, state_size_}, floats_of(state));
    }
    return result;
  }

  using Policy::values;
  Array values(const Arrays& observations, const Array& state) override {
    require_weights();
    const std::vector<Array> inputs = encode(observations);
    const NetworkInput input = {replica_.tensors_of(inputs), state_of(state, inputs.front().dim(0)), {}, {}};
    return in_reward_units(on_host(replica_.network->values(input)));
  }

 private:
  // If the weights have another signature, throws and changes nothing.
  void take(const WeightSnapshot& weights) {
    replica_.load(weights);
    follow_weights();
  }

  void require_weights() {
    if (replica_.has_weights) return;
    replica_.require_weights();
    follow_weights();
  }

  void follow_weights() {
    scaling_ = replica_.scaling();
    units_ = value_units(replica_.weights);
  }

  // Whether the input is the caller's own memory, which must not be scaled.
  static bool is_one_of(const Arrays& observations, const Array& input) {
    return std::ranges::any_of(observations, [&](const auto& each) { return each.second.data() == input.data(); });
  }

  std::vector<Array> encode(const Arrays& observations) const {
    std::vector<Array> inputs = replica_.encoder.encode(observations);
    if (scaling_.mean.empty()) return inputs;
    for (size_t i = 0; i < inputs.size(); ++i)
      if (replica_.encoder.first_features()[i] >= 0 && is_one_of(observations, inputs[i]))
        inputs[i] = inputs[i].clone();
    replica_.encoder.scale(scaling_, inputs);
    return inputs;
  }

  // On the device; undefined without recurrent state.
  at::Tensor state_of(const Array& state, int64_t rows) const {
    if (state_size_ == 0) return {};
    if (!(state.shape() == Shape{rows, state_size_}))
      throw InvariantError("recurrent state is " + state.shape().text() + ", expected " +
                           Shape{rows, state_size_}.text());
    return replica_.tensors_of({state}).front();
  }

  // [1, B]
  at::Tensor starts_of(const ActInput& input, int64_t rows) const {
    if (state_size_ == 0) return {};
    if (!(input.starts.shape() == Shape{rows}))
      throw InvariantError("starts of episodes are " + input.starts.shape().text() + ", expected " +
                           Shape{rows}.text());
    return replica_.tensors_of({input.starts}).front().to(at::kBool).unsqueeze(0);
  }

  HeadInput head_input(int64_t rows, const at::Tensor& outputs, const Array& mask) const {
    HeadInput result;
    result.samples = rows;
    result.outputs = floats_of(outputs);
    result.log_std = replica_.log_std();
    if (replica_.head.mask_size() > 0) result.mask = mask.view<uint8_t>();
    return result;
  }

  Array in_reward_units(const at::Tensor& values) const {
    const int64_t rows = values.size(0);
    const float* source = values.const_data_ptr<float>();
    Array result = Array::uninitialized(DType::f32, {rows});
    const auto out = result.mutable_view<float>();
    for (int64_t i = 0; i < rows; ++i) out[i] = source[i] * units_.scale + units_.shift;
    const int64_t row = first_non_finite_row(out, rows);
    if (row >= 0) throw NotFinite("value of row " + std::to_string(row) + " is not finite");
    return result;
  }

  const EnvSpec env_;
  Replica replica_;
  const int64_t state_size_;
  FeatureScaling scaling_;
  ValueUnits units_;
};

}  // namespace

std::unique_ptr<Policy> make_network_policy(const LearnerConfig& config, const EnvSpec& env,
                                            const std::string& device) {
  return std::make_unique<NetworkPolicy>(config, env, device);
}

}  // namespace troupe
