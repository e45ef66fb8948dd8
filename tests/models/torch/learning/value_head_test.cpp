// Value heads whose tensors have other names in the layout of the network.

#include <map>
#include <string>

#include "tests/support/torch_test.h"

#include "models/learning/normalizers.h"
#include "models/weights/model_weights.h"
#include "tests/models/torch/learning/forms.h"
#include "tests/models/torch/linear_network.h"

using namespace troupe;
using namespace troupe::test;

namespace {

RunConfig linear_config() {
  RunConfig config = small_config();
  config.model.hidden = {};
  config.model.normalize_returns = true;
  config.trainer.epochs = 2;
  config.trainer.minibatches = 2;
  return config;
}

std::map<std::string, Array> renamed(const std::map<std::string, Array>& tensors) {
  std::map<std::string, Array> result;
  for (const auto& [name, array] : tensors) result.emplace(linear_name(name), array);
  return result;
}

}  // namespace

TEST_CASE("value head: the names of its tensors do not affect training") {
  const RunConfig config = linear_config();
  for (const EnvSpec& spec : {discrete_spec(), continuous_spec()}) {
    for (const bool device_form : {false, true}) {
      CAPTURE(device_form);
      const auto usual = learner_of(config, spec, device_form);
      const LearnerOptions options = {.network = linear_network(config.model, spec), .device_form = device_form};
      const auto other = make_network_learner(config, spec, options);
      other->begin_from(renamed(usual->save().model));
      const auto policy = make_policy(config, spec);
      for (uint64_t update = 1; update <= 3; ++update) {
        const SuperBatch batch = whole_batch(random_rollout(spec, *policy, 6, 4, update));
        update_with(*usual, batch);
        update_with(*other, batch);
      }
      CHECK(distance(other->save().model, renamed(usual->save().model)) < 1e-6);
    }
  }
}

TEST_CASE("value head: new statistics of returns do not change its values in reward units") {
  const RunConfig config = linear_config();
  const EnvSpec spec = discrete_spec();
  const auto definition = linear_network(config.model, spec);
  WeightBlock weights = initial_weights(definition->layout, config.model, spec, 3);
  const auto policy = make_policy(config, spec);
  const auto value_of = [&](std::span<const float> features) {
    double value = weights.floats("critic.offset")[0];
    const auto matrix = weights.floats("critic.matrix");
    for (size_t i = 0; i < matrix.size(); ++i) value += static_cast<double>(matrix[i]) * features[i];
    const ValueUnits units = value_units(weights);
    return value * units.scale + units.shift;
  };
  const Array features = random_array({5}, 9);
  const double before = value_of(features.view<float>());
  const InputEncoder encoder(spec.observations, definition->layout.inputs);
  const StagedSamples staged =
      stage_samples(whole_batch(random_rollout(spec, *policy, 6, 4, 1)), spec, encoder, /*whole_columns=*/false);
  absorb_returns(return_statistics(staged), definition->layout.value_head, weights);
  CHECK(value_units(weights).scale != 1.0f);
  CHECK(value_of(features.view<float>()) == doctest::Approx(before).epsilon(1e-5));
}
