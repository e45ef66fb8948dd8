#include "models/networks/network_policy.h"

#include <ATen/ATen.h>

#include <string>
#include <utility>

#include "models/networks/replica.h"
#include "runtime/base/errors.h"

namespace troupe {

namespace {

class NetworkPolicy final : public Policy {
 public:
  NetworkPolicy(const RunConfig& config, const EnvSpec& env)
      : action_(env.action), replica_(config, env, config.trainer.device, /*with_gradients=*/false) {
    refresh();
  }

  std::shared_ptr<const Signature> signature() const override { return replica_.weights.signature(); }

  void load(const WeightSnapshot& weights) override {
    if (weights.signature != nullptr &&
        replica_.config.normalize_observations + replica_.config.normalize_returns > 0) {
      WeightBlock candidate(*signature());  // a refused normaliser must not leave half of the new weights
      candidate.load(weights);
      check_buffers(candidate);
    }
    replica_.weights.load(weights);
    replica_.device.upload();
    refresh();
  }

  ActOutput act(const ActInput& input) override {
    const std::vector<Array> inputs = encode(input.observations);
    const int64_t rows = input.seeds.size();
    TROUPE_CHECK(inputs.front().dim(0) == rows && input.deterministic.size() == rows, inputs.front().shape().text(),
                 input.deterministic.shape().text(), rows);
    const NetworkOutput output = replica_.network->forward({replica_.tensors_of(inputs), {}, {}}, false);
    const at::Tensor outputs = output.policy.cpu();

    ActOutput result;
    result.actions = Array::uninitialized(action_.dtype(), action_.shape().prepended(rows));
    result.log_probs = Array::uninitialized(DType::f32, {rows, replica_.head.decisions()});
    MutableActionsView actions;
    if (replica_.head.continuous())
      actions.continuous = result.actions.mutable_view<float>();
    else
      actions.discrete = result.actions.mutable_view<int32_t>();
    replica_.head.sample(head_input(rows, outputs, input.action_mask), input.seeds.view<int64_t>(),
                         input.deterministic.view<uint8_t>(), actions, result.log_probs.mutable_view<float>());
    result.values = in_reward_units(output.values.cpu());
    return result;
  }

  Array values(const Arrays& observations) override {
    const std::vector<Array> inputs = encode(observations);
    return in_reward_units(replica_.network->values({replica_.tensors_of(inputs), {}, {}}).cpu());
  }

 private:
  // What is computed once from new weights.
  void refresh() {
    scaling_ = replica_.scaling();
    units_ = value_units(replica_.weights);
  }

  std::vector<Array> encode(const Arrays& observations) const {
    std::vector<Array> inputs = replica_.encoder.encode(observations);
    if (scaling_.mean.empty()) return inputs;
    for (Array& input : inputs) input = input.clone();  // it may be the caller's own memory
    replica_.encoder.scale(scaling_, inputs);
    return inputs;
  }

  HeadInput head_input(int64_t rows, const at::Tensor& outputs, const Array& mask) const {
    HeadInput result;
    result.rows = rows;
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
    if (row >= 0) throw InvariantError("value of row " + std::to_string(row) + " is not finite");
    return result;
  }

  const ActionSpec action_;
  Replica replica_;
  FeatureScaling scaling_;
  ValueUnits units_;
};

}  // namespace

std::unique_ptr<Policy> make_network_policy(const RunConfig& config, const EnvSpec& env) {
  return std::make_unique<NetworkPolicy>(config, env);
}

}  // namespace troupe
