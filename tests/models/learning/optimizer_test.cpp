// The optimizer with frozen parameters and a critic that is not published. oracle_test.cpp compares its steps with
// Adam.
#include "models/learning/optimizer.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/errors.h"
#include "runtime/base/rng.h"
#include "tests/support/test.h"

using namespace troupe;

namespace {

using Tensors = std::map<std::string, Array>;
using Scalars = std::map<std::string, double>;

Signature signature_of(bool with_frozen, TensorGroup critic, bool with_buffer) {
  Signature result{{{TensorGroup::policy, "actor.bias", {3}, DType::f32},
                    {TensorGroup::policy, "actor.weight", {3, 7}, DType::f32},
                    {critic, "critic", {5, 3}, DType::f32}}};
  if (with_frozen) result.tensors.push_back({TensorGroup::frozen, "base", {4, 9}, DType::f32});
  if (with_buffer) result.tensors.push_back({TensorGroup::buffer, "count", {}, DType::f64});
  return result;
}

// Weights with their optimizer. The initial weights of a tensor depend only on its name.
struct Training {
  WeightBlock weights;
  Optimizer optimizer;

  Training(const TrainerConfig& config, bool with_frozen, TensorGroup critic = TensorGroup::value,
           bool with_buffer = true)
      : weights(signature_of(with_frozen, critic, with_buffer)), optimizer(config, weights) {
    for (const TensorSpec& tensor : weights.signature()->tensors) {
      if (tensor.group == TensorGroup::buffer) continue;
      Rng rng(derive_key(3, tensor.name));
      for (float& x : weights.floats(tensor.name)) x = rng.normal();
    }
  }
  std::vector<float> gradients(uint64_t seed) const {
    std::vector<float> gradients(weights.trained().size(), 0.0f);
    const size_t count = weights.trained().last;
    for (size_t i = 0; i < count; ++i) {
      Rng rng(derive_key(seed, weights.signature()->tensors[i].name));
      const auto elements = static_cast<size_t>(weights.signature()->tensors[i].shape.elements());
      for (size_t j = 0; j < elements; ++j) gradients[weights.parameter_offset(i) + j] = rng.normal();
    }
    return gradients;
  }
  double step(uint64_t seed, bool train_policy) { return optimizer.step(gradients(seed), {1e-2, 3e-2}, train_policy); }
  std::pair<Tensors, Scalars> state() const {
    std::pair<Tensors, Scalars> result;
    save_moments(weights, optimizer.moments(), result.first);
    optimizer.save_counts(result.second);
    return result;
  }
};

std::vector<float> floats_of(const Array& array) {
  const auto values = array.view<float>();
  return {values.begin(), values.end()};
}

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

TEST_CASE("optimizer: slices that are trained by themselves have the bits of the whole") {
  for (const bool exchanging : {false, true}) {
    CAPTURE(exchanging);
    Training whole(trainer_config(), false);
    const size_t count = whole.weights.trained().size();
    std::vector<std::unique_ptr<Training>> parts;
    const std::vector<ElementRange> slices = {{0, 5}, {5, 5}, {5, 23}, {23, count}};  // in the middle of tensors
    for (const ElementRange& slice : slices) {
      parts.push_back(std::make_unique<Training>(trainer_config(), false, TensorGroup::value, !exchanging));
      parts.back()->optimizer.hold(slice);
      CHECK(parts.back()->optimizer.moments().first.size() == static_cast<int64_t>(slice.size()));
    }
    for (uint64_t step = 0; step < 5; ++step) {
      const bool train_policy = step != 2;
      const double norm = whole.step(step, train_policy);
      const std::vector<float> gradients = whole.gradients(step);
      std::vector<float> joined(count);
      for (size_t i = 0; i < slices.size(); ++i) {
        Training& part = *parts[i];
        const GradientSquares squares = part.optimizer.squares(gradients, 0);
        if (exchanging) {
          Array memory(DType::u8, {static_cast<int64_t>(part.weights.signature()->total_bytes())});
          std::memcpy(memory.mutable_data(), gradients.data(), count * sizeof(float));
          CHECK(part.optimizer.step_exchanging(memory, {1e-2, 3e-2}, train_policy, squares) == norm);
        } else {
          CHECK(part.optimizer.step(gradients, {1e-2, 3e-2}, train_policy, squares) == norm);
        }
        std::ranges::copy(part.weights.parameters().subspan(slices[i].begin, slices[i].size()),
                          joined.begin() + static_cast<std::ptrdiff_t>(slices[i].begin));
      }
      CHECK(std::ranges::equal(joined, whole.weights.parameters().first(count)));
      for (const auto& part : parts) std::ranges::copy(joined, part->weights.parameters().begin());
    }
    std::vector<AdamMoments> moments;
    for (const auto& part : parts) moments.push_back(part->optimizer.moments());
    std::pair<Tensors, Scalars> state;
    save_moments(whole.weights, moments_of(moments, {0, count}), state.first);
    parts[1]->optimizer.save_counts(state.second);
    CHECK((state == whole.state()));
    parts[2]->optimizer.hold({0, count});
    parts[2]->optimizer.load(state.first, state.second);
    CHECK((parts[2]->state() == whole.state()));
    Training& other = *parts[0];
    other.optimizer.hold({3, 30});
    other.optimizer.load(moments_of(moments, {3, 30}), state.second);
    CHECK(floats_of(other.optimizer.moments().second) == floats_of(moments_of(moments, {3, 30}).second));
    CHECK_THROWS_AS(other.optimizer.load(moments_of(moments, {3, 31}), state.second), InvariantError);
  }
}

TEST_CASE("optimizer: moments that a new slice has in common with the one before stay") {
  Training training(trainer_config(), false);
  training.step(1, true);
  const std::vector<float> before = floats_of(training.optimizer.moments().first);
  training.optimizer.hold({4, 20});
  training.optimizer.hold({10, 30});
  const std::vector<float> after = floats_of(training.optimizer.moments().first);
  for (size_t i = 0; i < 20; ++i) CHECK(after[i] == (i < 10 ? before[i + 10] : 0.0f));
  CHECK_THROWS_AS(training.optimizer.hold({0, 1000000}), InvariantError);
}
