// The optimizer with frozen parameters and a critic that is not published. oracle_test.cpp compares its steps with
// Adam.
#include "models/learning/optimizer.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "runtime/base/errors.h"
#include "runtime/base/rng.h"
#include "tests/support/test.h"

using namespace troupe;

namespace {

using Tensors = std::map<std::string, Array>;
using Scalars = std::map<std::string, double>;

Signature signature_of(bool with_frozen, TensorGroup critic) {
  Signature result{{{TensorGroup::policy, "actor.bias", {3}, DType::f32},
                    {TensorGroup::policy, "actor.weight", {3, 7}, DType::f32},
                    {critic, "critic", {5, 3}, DType::f32}}};
  if (with_frozen) result.tensors.push_back({TensorGroup::frozen, "base", {4, 9}, DType::f32});
  result.tensors.push_back({TensorGroup::buffer, "count", {}, DType::f64});
  return result;
}

// Weights with their optimizer. The initial weights of a tensor depend only on its name.
struct Training {
  WeightBlock weights;
  Optimizer optimizer;

  Training(const TrainerConfig& config, bool with_frozen, TensorGroup critic = TensorGroup::value)
      : weights(signature_of(with_frozen, critic)), optimizer(config, weights) {
    for (const TensorSpec& tensor : weights.signature()->tensors) {
      if (tensor.group == TensorGroup::buffer) continue;
      Rng rng(derive_key(3, tensor.name));
      for (float& x : weights.floats(tensor.name)) x = rng.normal();
    }
  }
  double step(uint64_t seed, bool train_policy) {
    std::vector<float> gradients(weights.trained().size(), 0.0f);
    const size_t count = weights.trained().last;
    for (size_t i = 0; i < count; ++i) {
      Rng rng(derive_key(seed, weights.signature()->tensors[i].name));
      const auto elements = static_cast<size_t>(weights.signature()->tensors[i].shape.elements());
      for (size_t j = 0; j < elements; ++j) gradients[weights.parameter_offset(i) + j] = rng.normal();
    }
    return optimizer.step(gradients, {1e-2, 3e-2}, train_policy);
  }
  std::pair<Tensors, Scalars> state() const {
    std::pair<Tensors, Scalars> result;
    optimizer.save(result.first, result.second);
    return result;
  }
};

TrainerConfig trainer_config() {
  TrainerConfig config;
  config.weight_decay = 0.1;
  return config;
}

}  // namespace

TEST_CASE("optimizer: frozen parameters do not change and do not affect the others") {
  Training with(trainer_config(), true), without(trainer_config(), false);
  const Array base = with.weights.save().at("base");
  for (uint64_t step = 0; step < 20; ++step) CHECK(with.step(step, step % 3 != 0) == without.step(step, step % 3 != 0));
  Tensors trained = with.weights.save();
  CHECK(trained.at("base") == base);
  CHECK_FALSE(trained.at("actor.weight") == Training(trainer_config(), true).weights.save().at("actor.weight"));
  trained.erase("base");
  CHECK((trained == without.weights.save()));
}

TEST_CASE("optimizer: frozen parameters have no moments in a saved state") {
  Training first(trainer_config(), true);
  for (uint64_t step = 0; step < 3; ++step) first.step(step, true);
  const auto state = first.state();
  std::vector<std::string> names;
  for (const auto& [name, array] : state.first) names.push_back(name);
  CHECK(names == std::vector<std::string>{"first.actor.bias", "first.actor.weight", "first.critic", "second.actor.bias",
                                          "second.actor.weight", "second.critic"});
  Training second(trainer_config(), true);
  second.optimizer.load(state.first, state.second);
  CHECK((second.state() == state));
  Tensors more = state.first;
  more["first.base"] = Array(DType::f32, {4, 9});
  CHECK_THROWS_WITH_AS(second.optimizer.load(more, state.second), "optimizer: 7 tensors, expected 6", ConfigError);
}

TEST_CASE("optimizer: if everything is frozen, a step changes nothing") {
  WeightBlock weights(Signature{{{TensorGroup::frozen, "base", {4}, DType::f32}}});
  std::ranges::fill(weights.floats("base"), 2.0f);
  Optimizer optimizer(trainer_config(), weights);
  CHECK(optimizer.step({}, {1e-2, 1e-2}, true) == 0.0);
  for (const float x : weights.floats("base")) CHECK(x == 2.0f);
}

TEST_CASE("weights: frozen parameters are published with the others") {
  Training training(trainer_config(), true);
  const WeightsPtr published = training.weights.snapshot({0, 1});
  WeightBlock replica(*training.weights.signature());
  replica.load(*published);
  CHECK((replica.save() == training.weights.save()));
}

TEST_CASE("optimizer: a critic that is not published is trained and saved as a value function is") {
  Training critic(trainer_config(), true, TensorGroup::critic), value(trainer_config(), true);
  const Array before = critic.weights.save().at("critic");
  for (uint64_t step = 0; step < 20; ++step) CHECK(critic.step(step, step % 3 != 0) == value.step(step, step % 3 != 0));
  CHECK_FALSE(critic.weights.save().at("critic") == before);
  CHECK((critic.weights.save() == value.weights.save()));
  CHECK((critic.state() == value.state()));
}
