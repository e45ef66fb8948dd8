// The tensors of a model, their order and their groups, and which of them are published.
#include "models/weights/model_weights.h"

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "runtime/base/errors.h"
#include "tests/support/test.h"

using namespace troupe;

namespace {

EnvSpec env_spec() {
  EnvSpec spec;
  spec.id = "Test";
  spec.observations = {{"state", DType::f32, {3}}};
  spec.action.kind = ActionKind::continuous;
  spec.action.low = {-1};
  spec.action.high = {1};
  return spec;
}

ModelConfig net_of(const std::string& json) {
  ModelConfig config;
  config.kind = "net";
  config.net = json;
  return config;
}

std::map<std::string, TensorGroup> groups_of(const ModelConfig& config) {
  std::map<std::string, TensorGroup> result;
  for (const TensorSpec& tensor : model_signature(config, env_spec()).tensors) result[tensor.name] = tensor.group;
  return result;
}

std::vector<std::string> texts_of(const Signature& signature) {
  std::vector<std::string> result;
  for (const TensorSpec& tensor : signature.tensors) result.push_back(tensor.text());
  return result;
}

}  // namespace

TEST_CASE("model_weights: layers of the value function only are in group value, shared layers in group policy") {
  ModelConfig mlp;
  auto groups = groups_of(mlp);
  CHECK(groups.at("policy.1.weight") == TensorGroup::policy);
  CHECK(groups.at("value.1.weight") == TensorGroup::value);
  mlp.shared_trunk = true;
  groups = groups_of(mlp);
  CHECK(groups.at("trunk.0.bias") == TensorGroup::policy);
  CHECK(groups.at("policy.head.weight") == TensorGroup::policy);
  CHECK(groups.at("value.head.bias") == TensorGroup::value);
  groups = groups_of(net_of(R"({"core": {"kind": "gru"}, "value_trunk": [4]})"));
  for (const char* name : {"encoder.state.0.weight", "trunk.0.weight", "core.weight_hh", "core.bias_ih"})
    CHECK(groups.at(name) == TensorGroup::policy);
  CHECK(groups.at("value.0.weight") == TensorGroup::value);
}

TEST_CASE("model_weights: log_std is trained unless it follows a schedule, statistics are never trained") {
  ModelConfig config;
  CHECK(groups_of(config).at(kLogStd) == TensorGroup::policy);
  config.log_std = "scheduled";
  CHECK(groups_of(config).at(kLogStd) == TensorGroup::buffer);
  config.normalize_observations = config.normalize_returns = true;
  CHECK(groups_of(config).at("observation_normalizer.mean") == TensorGroup::buffer);
  CHECK(groups_of(config).at("return_normalizer.count") == TensorGroup::buffer);
}

TEST_CASE("model_weights: tensors are sorted by group, then by name") {
  ModelConfig config;
  config.hidden = {2};
  config.normalize_returns = true;
  NetworkLayout layout = network_layout(config, env_spec());
  const auto first = std::ranges::find(layout.tensors, "policy.0.weight", &NetworkTensor::name);
  REQUIRE(first != layout.tensors.end());
  first->group = TensorGroup::frozen;
  const std::vector<std::string> wanted = {
      "policy parameter policy.0.bias float32 [2]",
      "policy parameter policy.head.bias float32 [1]",
      "policy parameter policy.head.weight float32 [1, 2]",
      "policy parameter policy.log_std float32 [1]",
      "value parameter value.0.bias float32 [2]",
      "value parameter value.0.weight float32 [2, 3]",
      "value parameter value.head.bias float32 [1]",
      "value parameter value.head.weight float32 [1, 2]",
      "frozen parameter policy.0.weight float32 [2, 3]",
      "buffer return_normalizer.count float64 []",
      "buffer return_normalizer.m2 float64 [1]",
      "buffer return_normalizer.mean float64 [1]",
  };
  CHECK(texts_of(model_signature(layout, config, env_spec())) == wanted);
}

TEST_CASE("model_weights: initial weights do not depend on which tensors are trained") {
  ModelConfig config;
  config.hidden = {4};
  NetworkLayout layout = network_layout(config, env_spec());
  const auto trained = initial_weights(config, env_spec(), 5).save();
  for (NetworkTensor& tensor : layout.tensors) tensor.group = TensorGroup::frozen;
  CHECK((initial_weights(layout, config, env_spec(), 5).save() == trained));
}

TEST_CASE("weight_block: groups are contiguous, and trained tensors come first") {
  const WeightBlock block(Signature{{{TensorGroup::policy, "a", {3, 7}, DType::f32},
                                     {TensorGroup::policy, "b", {}, DType::f32},
                                     {TensorGroup::frozen, "c", {17}, DType::f32},
                                     {TensorGroup::buffer, "d", {2}, DType::f64}}});
  const TensorRange policy = block.range_of(TensorGroup::policy), value = block.range_of(TensorGroup::value),
                    frozen = block.range_of(TensorGroup::frozen);
  CHECK(policy.last == 2);
  CHECK(policy.end == 48);
  CHECK(value.size() == 0);
  CHECK(value.begin == 48);
  CHECK(frozen.first == 2);
  CHECK(frozen.end == 80);
  CHECK(block.trained().last == 2);
  CHECK(block.trained().size() == 48);
  CHECK(block.parameter_count() == 3);
  const Signature unsorted = {
      {{TensorGroup::frozen, "a", {1}, DType::f32}, {TensorGroup::value, "b", {1}, DType::f32}}};
  CHECK_THROWS_AS(WeightBlock{unsorted}, InvariantError);
}

namespace {

// Weights with a critic between what is published; each tensor holds a number of its own.
WeightBlock with_critic() {
  WeightBlock block(Signature{{{TensorGroup::policy, "a", {3, 7}, DType::f32},
                               {TensorGroup::value, "b", {2}, DType::f32},
                               {TensorGroup::critic, "c", {17}, DType::f32},
                               {TensorGroup::critic, "d", {}, DType::f32},
                               {TensorGroup::frozen, "e", {5}, DType::f32},
                               {TensorGroup::buffer, "f", {2}, DType::f64}}});
  for (const auto& [name, number] : std::map<std::string, float>{{"a", 1}, {"b", 2}, {"c", 3}, {"d", 4}, {"e", 5}})
    std::ranges::fill(block.floats(name), number);
  std::ranges::fill(block.doubles("f"), 6);
  return block;
}

std::string refusal_of(const std::function<void()>& load) {
  try {
    load();
  } catch (const ConfigError& refused) {
    return refused.what();
  }
  return "";
}

}  // namespace

TEST_CASE("weight_block: a snapshot has no critic, and the other tensors as they are") {
  const WeightBlock block = with_critic();
  const WeightsPtr snapshot = block.snapshot({0, 3});
  CHECK(texts_of(*snapshot->signature) ==
        std::vector<std::string>{"policy parameter a float32 [3, 7]", "value parameter b float32 [2]",
                                 "frozen parameter e float32 [5]", "buffer f float64 [2]"});
  CHECK(snapshot->signature == block.published());
  REQUIRE(snapshot->flat.bytes() == snapshot->signature->total_bytes());
  std::map<std::string, Array> saved = block.save();
  for (size_t i = 0; i < snapshot->signature->tensors.size(); ++i)
    CHECK(snapshot->tensor(i) == saved.at(snapshot->signature->tensors[i].name));
}

TEST_CASE("weight_block: without a critic, a snapshot is the whole block under the same signature") {
  const WeightBlock block(Signature{{{TensorGroup::policy, "a", {3}, DType::f32}}});
  CHECK(block.published() == block.signature());
  CHECK(block.snapshot({0, 1})->signature == block.signature());
  CHECK(block.snapshot({0, 1})->flat.bytes() == block.signature()->total_bytes());
}

TEST_CASE("weight_block: the critic is trained and saved") {
  const WeightBlock block = with_critic();
  CHECK(block.trained().last == 4);
  CHECK(block.range_of(TensorGroup::critic).first == 2);
  CHECK(block.range_of(TensorGroup::critic).size() == 48);
  CHECK(block.range_of(TensorGroup::value, TensorGroup::critic).begin == block.range_of(TensorGroup::value).begin);
  WeightBlock other(*block.signature());
  other.load(block.save());
  CHECK((other.save() == block.save()));
  std::map<std::string, Array> without = block.save();
  without.erase("c");
  CHECK(refusal_of([&] { other.load(without); }) == "model tensor c: missing, expected float32 [17]");
}

TEST_CASE("weight_block: loading a snapshot keeps the critic") {
  const WeightBlock block = with_critic();
  WeightBlock other(*block.signature());
  std::ranges::fill(other.floats("c"), 9.0f);
  other.load(*block.snapshot({0, 1}));
  for (const float x : other.floats("c")) CHECK(x == 9.0f);
  CHECK(other.floats("d")[0] == 0.0f);
  std::map<std::string, Array> now = other.save(), wanted = block.save();
  for (const char* name : {"c", "d"}) {
    now.erase(name);
    wanted.erase(name);
  }
  CHECK((now == wanted));
}

TEST_CASE("weight_block: a snapshot that contains a critic is refused") {
  const WeightBlock block = with_critic();
  const WeightSnapshot whole{
      {0, 2}, block.signature(), Array(DType::u8, {static_cast<int64_t>(block.signature()->total_bytes())})};
  WeightBlock replica(*block.published()), learner(*block.signature());
  for (WeightBlock* receiver : {&replica, &learner})
    CHECK(refusal_of([&] { receiver->load(whole); }) ==
          "weights 0.2: tensor 2 is frozen parameter e float32 [5] here and critic parameter c float32 [17] there");
}
