// Consistency of the network of model.kind "net": whole sequences and single steps, starts of episodes, partial
// batches.

#include "models/torch/net.h"

#include <cmath>
#include <string>
#include <vector>

#include "runtime/base/errors.h"
#include "tests/support/torch_test.h"

#include "tests/models/torch/nets.h"

using namespace troupe;
using namespace troupe::test;

namespace {

constexpr double kTolerance = 1e-6;
const char* const kLstm = R"({"core": {"kind": "lstm", "size": 6}, "trunk": [8]})";
const char* const kGru = R"({"core": {"kind": "gru", "size": 6}, "trunk": [8], "value_trunk": [5]})";

NetworkInput random_sequences(const NetModel& model, int64_t steps, int64_t sequences, uint64_t seed) {
  return {random_inputs(model, steps * sequences, seed), random_tensor({sequences, model.layout.state_size}, seed + 1),
          random_tensor({steps, sequences}, seed + 2) > 0.8};
}

NetworkInput steps_of(const NetworkInput& input, int64_t begin, int64_t count, const torch::Tensor& state) {
  const int64_t sequences = state.size(0);
  NetworkInput result = {{}, state, input.starts.narrow(0, begin, count)};
  for (const torch::Tensor& each : input.observations)
    result.observations.push_back(each.narrow(0, begin * sequences, count * sequences));
  return result;
}

}  // namespace

TEST_CASE("net: the outputs for a whole sequence equal those of single steps") {
  const EnvSpec spec = env_of({{"state", DType::f32, {4}}, {"image", DType::u8, {6, 6, 2}}});
  for (const char* json : {kLstm, kGru}) {
    for (const uint64_t seed : {1, 2, 3}) {
      NetModel model(net_config(json), spec, seed);
      const int64_t steps = 12, sequences = 5;
      const NetworkInput input = random_sequences(model, steps, sequences, seed);
      const NetworkOutput whole = model.network->forward(input, seed == 2);
      const torch::Tensor policy = whole.policy.clone(), values = whole.values.clone(), last = whole.state.clone();
      CHECK(relative_error(model.network->values(input), values) < kTolerance);
      torch::Tensor state = input.state;
      std::vector<torch::Tensor> policies, all_values;
      for (int64_t t = 0; t < steps; ++t) {
        const NetworkOutput one = model.network->forward(steps_of(input, t, 1, state), false);
        policies.push_back(one.policy.clone());
        all_values.push_back(one.values.clone());
        state = one.state.clone();
      }
      CHECK(relative_error(torch::cat(policies), policy) < kTolerance);
      CHECK(relative_error(torch::cat(all_values), values) < kTolerance);
      CHECK(relative_error(state, last) < kTolerance);
    }
  }
}

TEST_CASE("net: neither outputs nor gradients depend on steps before the start of an episode") {
  const EnvSpec spec = env_of({{"state", DType::f32, {4}}});
  const int64_t steps = 8, sequences = 3, start = 5;
  for (const char* json : {kLstm, kGru}) {
    NetModel model(net_config(json), spec, 4);
    NetworkInput input = random_sequences(model, steps, sequences, 4);
    input.starts = torch::zeros({steps, sequences}, torch::kBool);
    input.starts[start].fill_(true);
    const int64_t before = start * sequences, after = (steps - start) * sequences;
    // Only steps after the start have a loss, so the gradients equal those of a batch without the steps before it.
    const auto gradients = [&](const NetworkInput& from, int64_t samples) {
      model.network->forward(from, true);
      torch::Tensor a = torch::zeros({samples, 3}), b = torch::zeros({samples, 1});
      a.narrow(0, samples - after, after).copy_(random_tensor({after, 3}, 1));
      b.narrow(0, samples - after, after).copy_(random_tensor({after, 1}, 2));
      model.device.zero_gradients();
      model.network->backward(a, b);
      std::vector<torch::Tensor> result;
      for (const NetworkTensor& tensor : model.layout.tensors)
        result.push_back(model.device.gradient(tensor.name).clone());
      return result;
    };
    const NetworkOutput output = model.network->forward(input, false);
    const torch::Tensor policy = output.policy.narrow(0, before, after).clone(),
                        values = output.values.narrow(0, before, after).clone(), state = output.state.clone();
    const auto whole = gradients(input, steps * sequences);
    const auto alone = gradients(steps_of(input, start, steps - start, input.state), after);
    for (size_t i = 0; i < whole.size(); ++i) {
      INFO(model.layout.tensors[i].name);
      CHECK(relative_error(whole[i], alone[i]) < kTolerance);
    }
    for (const float other : {100.0f, std::nanf("")}) {
      NetworkInput changed = input;
      changed.observations[0] = input.observations[0].clone();
      changed.observations[0].narrow(0, 0, before).fill_(other);
      changed.state = torch::full_like(input.state, other);
      const NetworkOutput now = model.network->forward(changed, false);
      CHECK(now.policy.narrow(0, before, after).equal(policy));
      CHECK(now.values.narrow(0, before, after).equal(values));
      CHECK(now.state.equal(state));
    }
  }
}

TEST_CASE("net: the initial state has no gradient if the first step is a start, else it has one") {
  NetModel model(net_config(kLstm), env_of({{"state", DType::f32, {4}}}), 6);
  NetworkInput input = random_sequences(model, 3, 2, 6);
  input.starts.fill_(false);
  input.starts[0][0] = true;
  input.state.requires_grad_(true);
  const NetworkOutput output = model.network->forward(input, true);
  model.network->backward(torch::ones_like(output.policy), {});
  CHECK(input.state.grad()[0].abs().max().item<float>() == 0.0f);
  CHECK(input.state.grad()[1].abs().max().item<float>() > 0.0f);
}

TEST_CASE("net: gradients of several backward passes are added up") {
  const EnvSpec spec = env_of({{"image", DType::u8, {3, 8, 8}}});
  NetModel model(net_config("{}"), spec, 1);
  const std::vector<torch::Tensor> samples = random_inputs(model, 6, 1);
  const auto backward = [&](const std::vector<torch::Tensor>& inputs) {
    const NetworkOutput output = model.network->forward({inputs, {}, {}}, true);
    model.network->backward(torch::ones_like(output.policy), torch::ones_like(output.values));
  };
  model.device.zero_gradients();
  backward(samples);
  const torch::Tensor& flat = model.device.gradients();
  const std::span<const float> gradients(flat.const_data_ptr<float>(), static_cast<size_t>(flat.numel()));
  const std::vector<float> whole(gradients.begin(), gradients.end());
  model.device.zero_gradients();
  backward({samples[0].narrow(0, 0, 2)});
  backward({samples[0].narrow(0, 2, 4)});
  double squares = 0, error = 0;
  for (size_t i = 0; i < whole.size(); ++i) {
    squares += static_cast<double>(whole[i]) * whole[i];
    error += std::pow(static_cast<double>(whole[i]) - gradients[i], 2);
  }
  CHECK(squares > 0);
  CHECK(std::sqrt(error / squares) < kTolerance);
}

namespace {

// A network like `whole` with the same weights. Tensors whose names begin with one of `frozen` are frozen.
struct FrozenNet {
  NetPlan plan;
  WeightBlock weights;
  DeviceWeights device;
  Net network;

  FrozenNet(const NetModel& whole, const std::vector<std::string>& frozen)
      : plan(with_frozen(net_plan(whole.config, whole.spec), frozen)),
        weights(initial_weights(plan.layout, whole.config, whole.spec, 0)),
        device(weights, at::kCPU, /*with_gradients=*/true),
        network(plan, whole.config, device) {
    weights.load(whole.weights.save());
  }
  static NetPlan with_frozen(NetPlan plan, const std::vector<std::string>& frozen) {
    for (NetworkTensor& tensor : plan.layout.tensors)
      for (const std::string& prefix : frozen)
        if (tensor.name.starts_with(prefix)) tensor.group = TensorGroup::frozen;
    return plan;
  }
};

}  // namespace

TEST_CASE("net: frozen tensors affect the outputs but get no gradients, and the other gradients stay the same") {
  const EnvSpec spec = env_of({{"state", DType::f32, {4}}, {"image", DType::u8, {6, 6, 2}}});
  const std::vector<std::vector<std::string>> cases = {{"encoder.image.0.weight"},
                                                       {"encoder", "core.weight_hh"},
                                                       {"encoder", "trunk", "core", "policy"},
                                                       {"policy", "trunk.0.bias"}};
  for (const char* json : {kLstm, kGru}) {
    for (const std::vector<std::string>& frozen : cases) {
      NetModel whole(net_config(json), spec, 4);
      FrozenNet part(whole, frozen);
      const NetworkInput input = random_sequences(whole, 3, 4, 9);
      const NetworkOutput wanted = whole.network->forward(input, true), actual = part.network.forward(input, true);
      CHECK(relative_error(actual.policy, wanted.policy) < kTolerance);
      CHECK(relative_error(actual.values, wanted.values) < kTolerance);
      const torch::Tensor a = random_tensor({12, actual.policy.size(1)}, 5), b = random_tensor({12, 1}, 6);
      whole.network->backward(a, b);
      part.network.backward(a, b);
      for (const NetworkTensor& tensor : part.plan.layout.tensors) {
        INFO(tensor.name);
        const bool trained = tensor.group != TensorGroup::frozen;
        CHECK(part.device.has_gradient(tensor.name) == trained);
        if (trained)
          CHECK(relative_error(part.device.gradient(tensor.name), whole.device.gradient(tensor.name)) < kTolerance);
        else
          CHECK_THROWS_AS(part.device.gradient(tensor.name), InvariantError);
      }
      CHECK(part.device.gradients().numel() < whole.device.gradients().numel());
    }
  }
}

TEST_CASE("net: an undefined gradient counts as zeros, and inputs from inference mode are accepted") {
  NetModel model(net_config(R"({"value_trunk": [4]})"), env_of({{"state", DType::f32, {4}}}), 2);
  std::vector<torch::Tensor> inputs;
  {
    const c10::InferenceMode guard;
    inputs = random_inputs(model, 5, 2);
  }
  const NetworkOutput output = model.network->forward({inputs, {}, {}}, true);
  model.device.zero_gradients();
  model.network->backward({}, torch::ones_like(output.values));
  CHECK(model.device.gradient("policy.head.weight").abs().max().item<float>() == 0.0f);
  CHECK(model.device.gradient("trunk.0.weight").abs().max().item<float>() == 0.0f);
  CHECK(model.device.gradient("value.0.weight").abs().max().item<float>() > 0.0f);
  CHECK(model.device.gradient("encoder.state.0.weight").abs().max().item<float>() > 0.0f);
}

TEST_CASE("net: an image of 16-bit floating-point numbers gives the same outputs as one of float32") {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    const auto env = [](DType type) { return env_of({{"image", type, {6, 6, 2}}}); };
    const std::string conv = R"({"encoders": {"image": {"kind": "conv"}}})";
    const NetModel model(net_config(conv), env(dtype), 4), wide(net_config(conv), env(DType::f32), 4);
    const torch::Tensor image =
        random_tensor({3, 6, 6, 2}, 4).to(dtype == DType::f16 ? torch::kHalf : torch::kBFloat16);
    const NetworkOutput output = model.network->forward({{image}, {}, {}}, false);
    CHECK(torch::equal(output.policy, wide.network->forward({{image.to(torch::kFloat)}, {}, {}}, false).policy));
  }
}

TEST_CASE("net: a number outside the values of an embedding makes only its own sample NaN") {
  const std::string json = R"({"encoders": {"token": {"kind": "embedding", "values": 3}}})";
  NetModel model(net_config(json), env_of({{"token", DType::i32, {}}}), 1);
  const torch::Tensor tokens = torch::tensor({0, 3, 2, -1}, torch::kInt);
  const NetworkOutput output = model.network->forward({{tokens}, {}, {}}, false);
  for (int64_t sample = 0; sample < 4; ++sample) CHECK(output.values[sample].isnan().item<bool>() == (sample % 2 == 1));
}

TEST_CASE("net: a forward pass uses changed weights, and accepts a batch without samples") {
  NetModel model(net_config(kLstm), env_of({{"state", DType::f32, {4}}, {"image", DType::u8, {6, 6, 2}}}), 2);
  const NetworkInput input = random_sequences(model, 1, 4, 2);
  const torch::Tensor before = model.network->forward(input, false).policy.clone();
  for (float& x : model.weights.floats("policy.head.bias")) x += 1.0f;
  CHECK((model.network->forward(input, false).policy - before).sub(1).abs().max().item<float>() < 1e-5f);
  const NetworkOutput none = model.network->forward(random_sequences(model, 1, 0, 2), false);
  CHECK(none.policy.sizes() == torch::IntArrayRef({0, 3}));
  CHECK(none.state.sizes() == torch::IntArrayRef({0, 12}));
}
