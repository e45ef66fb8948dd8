// The network of model.kind "net" compared with the same network written with functions of torch.

#include "models/torch/net.h"

#include <cmath>
#include <functional>

#include "tests/support/torch_test.h"

#include "tests/models/torch/nets.h"

using namespace troupe;
using namespace troupe::test;

namespace {

constexpr double kTolerance = 1e-6;

struct Outputs {
  torch::Tensor policy, values, state;
};
// A reference network: a function of parameters, inputs (bytes as numbers from 0 to 255), state and starts.
using Reference = std::function<Outputs(const TensorMap&, const std::vector<torch::Tensor>&, const torch::Tensor&,
                                        const torch::Tensor&)>;

torch::Tensor linear(const TensorMap& p, const std::string& name, const torch::Tensor& x) {
  return torch::linear(x, p.at(name + ".weight"), p.at(name + ".bias"));
}

torch::Tensor conv(const TensorMap& p, const std::string& name, const torch::Tensor& x, int64_t stride, int64_t pad) {
  return torch::conv2d(x, p.at(name + ".weight"), p.at(name + ".bias"), stride, pad);
}

Outputs heads(const TensorMap& p, const torch::Tensor& policy, const torch::Tensor& value) {
  return {linear(p, "policy.head", policy), linear(p, "value.head", value), {}};
}

// Outputs and every gradient of L = sum(policy * a) + sum(values * b), with random a and b.
void check_against(const Reference& reference, const ModelConfig& config, const EnvSpec& spec, int64_t steps,
                   int64_t sequences, uint64_t seed) {
  NetModel model(config, spec, seed);
  const int64_t samples = steps * sequences, size = model.layout.state_size;
  NetworkInput input;
  input.observations = random_inputs(model, samples, seed);
  if (size > 0) {
    input.state = random_tensor({sequences, size}, seed + 1);
    input.starts = random_tensor({steps, sequences}, seed + 2) > 1.0;
  }
  const NetworkOutput actual = model.network->forward(input, true);
  const torch::Tensor a = random_tensor({samples, actual.policy.size(1)}, seed + 3),
                      b = random_tensor({samples, 1}, seed + 4);
  model.device.zero_gradients();
  model.network->backward(a, b);

  const TensorMap parameters = model.parameters(torch::kFloat);
  std::vector<torch::Tensor> inputs;
  for (const torch::Tensor& each : input.observations)
    inputs.push_back(each.is_floating_point() || each.scalar_type() == torch::kByte ? each.to(torch::kFloat) : each);
  const torch::Tensor state = size > 0 ? input.state.to(torch::kFloat) : torch::Tensor();
  const Outputs wanted = reference(parameters, inputs, state, input.starts);
  ((wanted.policy * a.to(torch::kFloat)).sum() + (wanted.values * b.to(torch::kFloat)).sum()).backward();

  CAPTURE(config.net);
  CAPTURE(seed);
  CHECK(relative_error(actual.policy, wanted.policy) < kTolerance);
  CHECK(relative_error(actual.values, wanted.values) < kTolerance);
  if (size > 0) CHECK(relative_error(actual.state, wanted.state) < kTolerance);
  for (const auto& [name, parameter] : parameters) {
    INFO(name);
    REQUIRE(parameter.grad().defined());
    CHECK(parameter.grad().abs().max().item<double>() > 0.0);
    CHECK(relative_error(model.device.gradient(name), parameter.grad()) < kTolerance);
  }
}

torch::Tensor trunk(const TensorMap& p, const torch::Tensor& x) { return linear(p, "trunk.0", x).tanh(); }

// A core of cells of torch; `features` [L * C, I].
Outputs run_cells(const TensorMap& p, bool lstm, const torch::Tensor& features, torch::Tensor state,
                  const torch::Tensor& starts) {
  const int64_t steps = starts.size(0), sequences = starts.size(1);
  std::vector<torch::Tensor> outputs;
  for (int64_t t = 0; t < steps; ++t) {
    state = state * (1 - starts[t].to(torch::kFloat)).unsqueeze(1);
    const torch::Tensor x = features.narrow(0, t * sequences, sequences);
    const torch::Tensor &wi = p.at("core.weight_ih"), &wh = p.at("core.weight_hh"), &bi = p.at("core.bias_ih"),
                        &bh = p.at("core.bias_hh");
    if (lstm) {
      const auto parts = state.chunk(2, 1);
      const auto [h, c] = torch::lstm_cell(x, {parts[0], parts[1]}, wi, wh, bi, bh);
      state = torch::cat({h, c}, 1);
      outputs.push_back(h);
    } else {
      state = torch::gru_cell(x, state, wi, wh, bi, bh);
      outputs.push_back(state);
    }
  }
  Outputs result = heads(p, torch::cat(outputs), torch::cat(outputs));
  result.state = state;
  return result;
}

}  // namespace

TEST_CASE("net: outputs and gradients of convolutions equal those of torch, for both orders of an image") {
  struct Image {
    Shape shape;
    int64_t kernel, stride, padding;
  };
  const std::vector<Image> images = {
      {{3, 9, 7}, 3, 1, 0}, {{9, 7, 3}, 3, 2, 1}, {{1, 6, 6}, 2, 2, 0}, {{5, 5, 4}, 5, 1, 2}};
  for (const auto& [shape, kernel, stride, padding] : images) {
    const std::string json = R"({"encoders": {"image": {"kind": "conv", "layers": [{"channels": 4, "kernel": )" +
                             std::to_string(kernel) + R"(, "stride": )" + std::to_string(stride) + R"(, "padding": )" +
                             std::to_string(padding) +
                             R"(}, {"channels": 5, "kernel": 2}], "hidden": [9]}}, "trunk": [8]})";
    const bool last = shape[2] < shape[0];
    const Reference reference = [=, stride = stride, padding = padding](const TensorMap& p, const auto& inputs,
                                                                        const auto&, const auto&) {
      torch::Tensor x = inputs[0] * (1.0 / 255.0);
      if (last) x = x.permute({0, 3, 1, 2});
      x = conv(p, "encoder.image.0", x, stride, padding).relu();
      x = conv(p, "encoder.image.1", x, 1, 0).relu();
      x = linear(p, "encoder.image.2", x.flatten(1)).relu();
      x = linear(p, "trunk.0", x).relu();
      return heads(p, x, x);
    };
    for (const uint64_t seed : {1, 2})
      check_against(reference, net_config(json, "relu"), env_of({{"image", DType::u8, shape}}), 1, 13, seed);
  }
}

TEST_CASE("net: outputs and gradients of the encoder `nature` equal those of torch") {
  const Reference reference = [](const TensorMap& p, const auto& inputs, const auto&, const auto&) {
    torch::Tensor x = conv(p, "encoder.frames.0", inputs[0] * (1.0 / 255.0), 4, 0).tanh();
    x = conv(p, "encoder.frames.1", x, 2, 0).tanh();
    x = conv(p, "encoder.frames.2", x, 1, 0).tanh();
    x = trunk(p, linear(p, "encoder.frames.3", x.flatten(1)).tanh());
    return heads(p, x, x);
  };
  const std::string json = R"({"encoders": {"*": {"kind": "nature"}}, "trunk": [8]})";
  for (const Shape& shape : {Shape{4, 36, 44}, Shape{2, 52, 36}})
    check_against(reference, net_config(json), env_of({{"frames", DType::u8, shape}}), 1, 3, 5);
}

TEST_CASE("net: outputs and gradients of embeddings combined with an mlp equal those of torch") {
  const std::string json = R"({"encoders": {"tokens": {"kind": "embedding", "values": 5, "size": 3},
                                            "*": {"kind": "mlp", "hidden": [6, 4]}}, "trunk": [7]})";
  const Reference reference = [](const TensorMap& p, const auto& inputs, const auto&, const auto&) {
    torch::Tensor numbers = linear(p, "encoder.numbers.0", inputs[0]).tanh();
    numbers = linear(p, "encoder.numbers.1", numbers).tanh();
    const torch::Tensor vectors =
        torch::embedding(p.at("encoder.tokens.0.weight"), inputs[1].to(torch::kLong)).flatten(1);
    const torch::Tensor x = trunk(p, torch::cat({numbers, vectors}, 1));
    return heads(p, x, x);
  };
  for (const DType type : {DType::i32, DType::i64})
    for (const uint64_t seed : {3, 4})
      check_against(reference, net_config(json), env_of({{"numbers", DType::f32, {2, 2}}, {"tokens", type, {2, 3}}}), 1,
                    17, seed);
}

TEST_CASE("net: outputs and gradients of an unrolled LSTM and GRU equal those of cells of torch") {
  for (const bool lstm : {true, false}) {
    const std::string json =
        std::string(R"({"encoders": {"*": {"kind": "mlp", "hidden": [6]}}, "trunk": [], "core": )") +
        (lstm ? R"({"kind": "lstm", "size": 5}})" : R"({"kind": "gru", "size": 7}})");
    const Reference reference = [=](const TensorMap& p, const auto& inputs, const auto& state, const auto& starts) {
      return run_cells(p, lstm, linear(p, "encoder.state.0", inputs[0]).tanh(), state, starts);
    };
    for (const auto& [steps, sequences] : std::vector<std::pair<int64_t, int64_t>>{{1, 6}, {2, 3}, {9, 4}, {16, 1}})
      for (const uint64_t seed : {7, 8, 9})
        check_against(reference, net_config(json), env_of({{"state", DType::f32, {4}}}), steps, sequences, seed);
  }
}

TEST_CASE("net: a value trunk reads the encoders, or the recurrent core if there is one") {
  const EnvSpec spec = env_of({{"state", DType::f32, {4}}});
  const std::string trunks = R"("encoders": {"*": {"kind": "mlp", "hidden": []}}, "trunk": [8], "value_trunk": [6])";
  const Reference separate = [](const TensorMap& p, const auto& inputs, const auto&, const auto&) {
    return heads(p, trunk(p, inputs[0]), linear(p, "value.0", inputs[0]).tanh());
  };
  check_against(separate, net_config('{' + trunks + '}'), spec, 1, 11, 1);
  const Reference behind = [](const TensorMap& p, const auto& inputs, const auto& state, const auto& starts) {
    TensorMap open = p;  // with heads that pass their inputs through
    const int64_t size = p.at("core.weight_hh").size(1);
    for (const char* head : {"policy.head", "value.head"}) {
      open[std::string(head) + ".weight"] = torch::eye(size, torch::kFloat);
      open[std::string(head) + ".bias"] = torch::zeros({size}, torch::kFloat);
    }
    const Outputs core = run_cells(open, true, trunk(p, inputs[0]), state, starts);
    Outputs result = heads(p, core.policy, linear(p, "value.0", core.policy).tanh());
    result.state = core.state;
    return result;
  };
  check_against(behind, net_config('{' + trunks + R"(, "core": {"kind": "lstm", "size": 5}})"), spec, 4, 3, 1);
}
