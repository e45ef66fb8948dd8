// What networks say of their gradients while a backward pass computes them.

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/torch_test.h"

#include "runtime/base/errors.h"
#include "tests/models/torch/nets.h"
#include "tests/models/torch/token_reference.h"

using namespace troupe;
using namespace troupe::test;

namespace {

struct Said {
  ElementRange elements;
  torch::Tensor gradients;  // all of them, at that moment
  std::thread::id thread;
};

NetworkInput input_of(const NetModel& model, int64_t steps, int64_t sequences, uint64_t seed) {
  const int64_t samples = steps * sequences;
  NetworkInput input;
  if (model.config.kind == "token_transformer") {
    input.observations = {random_tensor({samples, 8}, seed)};
    input.actions = random_actions(Head(model.spec.action), samples, seed);
    return input;
  }
  input.observations = random_inputs(model, samples, seed);
  if (model.layout.state_size == 0) return input;
  input.state = random_tensor({sequences, model.layout.state_size}, seed + 1);
  input.starts = random_tensor({steps, sequences}, seed + 2) > 1.0;
  return input;
}

// A forward and a backward pass from gradients of 0. With `policy` false the policy has no gradient.
std::vector<Said> backward(NetModel& model, const NetworkInput& input, bool policy = true) {
  std::vector<Said> said;
  model.network->weights_changed();
  model.device.zero_gradients();
  model.network->gradients_complete_to([&](ElementRange elements) {
    said.push_back({elements, model.device.gradients().clone(), std::this_thread::get_id()});
  });
  const NetworkOutput output = model.network->forward(input, true);
  const torch::Tensor a = random_tensor({output.policy.size(0), output.policy.size(1)}, 3),
                      b = random_tensor({output.values.size(0), 1}, 4);
  model.network->backward(policy ? a : torch::Tensor(), b);
  model.network->gradients_complete_to([](ElementRange) { throw InvariantError("no backward pass is under way"); });
  return said;
}

const Said* find(const std::vector<Said>& said, const NetModel& model, const std::string& tensor) {
  const auto at = std::ranges::find(said, model.device.elements(tensor), &Said::elements);
  return at == said.end() ? nullptr : &*at;
}

// All gradients are said once, by this thread, each when it has its last value; `first` before those of `last` begin.
void check_complete(NetModel& model, const NetworkInput& input, const std::string& first, const std::string& last) {
  CAPTURE(model.config.net);
  for (int pass = 0; pass < 2; ++pass) {
    const std::vector<Said> said = backward(model, input);
    const torch::Tensor& gradients = model.device.gradients();
    std::vector<int> times(static_cast<size_t>(gradients.numel()));
    for (const Said& each : said) {
      CHECK(each.thread == std::this_thread::get_id());
      CHECK(slice_of(each.gradients, each.elements).equal(slice_of(gradients, each.elements)));
      for (size_t i = each.elements.begin; i < each.elements.end; ++i) ++times[i];
    }
    CHECK(std::ranges::all_of(times, [](int count) { return count == 1; }));
    const Said* early = find(said, model, first);
    REQUIRE(early != nullptr);
    const torch::Tensor not_yet = slice_of(early->gradients, model.device.elements(last));
    CHECK(not_yet.abs().max().item<float>() == 0.0f);
    CHECK(model.device.gradient(last).abs().max().item<float>() > 0.0f);
  }
}

constexpr const char* kConv = R"({"encoders": {"image": {"kind": "conv", "layers": [{"channels": 4, "kernel": 3},
                                  {"channels": 5, "kernel": 2}], "hidden": [9]}}, "trunk": [8]})";
constexpr const char* kLstm = R"({"trunk": [8], "core": {"kind": "lstm", "size": 6}})";
constexpr const char* kTowers = R"({"encoders": {"*": {"kind": "mlp", "hidden": [6]}}, "trunk": [8],
                                    "value_trunk": [7]})";

}  // namespace

TEST_CASE("complete_gradients: convolutions say those of the heads before those of the images are computed") {
  NetModel model(net_config(kConv), env_of({{"image", DType::u8, {3, 9, 7}}}), 1);
  check_complete(model, input_of(model, 1, 13, 1), "policy.head.weight", "encoder.image.0.weight");
}

TEST_CASE("complete_gradients: a recurrent core says its weights once, with the sum of all steps") {
  for (const char* kind : {"lstm", "gru"}) {
    const std::string core = std::string(R"({"trunk": [8], "core": {"size": 6, "kind": ")") + kind + R"("}})";
    NetModel model(net_config(core), env_of({{"state", DType::f32, {4}}}), 2);
    check_complete(model, input_of(model, 9, 4, 2), "policy.head.weight", "core.weight_hh");
    check_complete(model, input_of(model, 9, 4, 3), "core.weight_hh", "encoder.state.0.weight");
  }
}

TEST_CASE("complete_gradients: an encoder that two trunks share is said when both have added to it") {
  NetModel model(net_config(kTowers), env_of({{"state", DType::f32, {4}}}), 3);
  check_complete(model, input_of(model, 1, 11, 1), "value.head.weight", "encoder.state.0.weight");
  check_complete(model, input_of(model, 1, 11, 1), "trunk.0.weight", "encoder.state.0.weight");
}

TEST_CASE("complete_gradients: parameters that a pass does not reach are not said") {
  NetModel model(net_config(kTowers), env_of({{"state", DType::f32, {4}}}), 4);
  const std::vector<Said> said = backward(model, input_of(model, 1, 11, 1), /*policy=*/false);
  for (const char* name : {"value.head.weight", "value.0.bias", "encoder.state.0.weight"})
    CHECK(find(said, model, name) != nullptr);
  for (const char* name : {"policy.head.weight", "policy.head.bias", "trunk.0.weight"})
    CHECK(find(said, model, name) == nullptr);
}

TEST_CASE("complete_gradients: what is called with them may throw") {
  NetModel model(net_config(kLstm), env_of({{"state", DType::f32, {4}}}), 5);
  const NetworkInput input = input_of(model, 3, 4, 1);
  const auto throws = [](ElementRange) { throw InvariantError("no"); };
  model.network->gradients_complete_to(throws);
  const NetworkOutput output = model.network->forward(input, true);
  CHECK_THROWS_AS(model.network->backward(torch::ones_like(output.policy), {}), InvariantError);
  check_complete(model, input, "policy.head.weight", "trunk.0.weight");
}

TEST_CASE("complete_gradients: an mlp, and a token transformer with its layers") {
  ModelConfig mlp;
  mlp.hidden = {8, 6};
  for (const bool shared : {false, true}) {
    mlp.shared_trunk = shared;
    NetModel model(mlp, env_of({{"state", DType::f32, {4}}}), 6);
    check_complete(model, input_of(model, 1, 11, 1), "policy.head.weight",
                   shared ? "trunk.0.weight" : "policy.0.weight");
  }
  NetModel model(transformer_config(), decisions_spec(3), 7);
  check_complete(model, input_of(model, 1, 9, 1), "policy.lm_head.weight", "policy.model.layers.1.mlp.up_proj.weight");
  check_complete(model, input_of(model, 1, 9, 1), "policy.model.layers.1.mlp.up_proj.weight",
                 "policy.model.layers.0.mlp.up_proj.weight");
}
