// The device form of the optimizer compared with the host form: trajectories, skipped steps, and states that one form
// saves and the other loads.

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "models/learning/optimizer.h"
#include "models/torch/learning/device_optimizer.h"
#include "models/torch/replica.h"
#include "tests/models/learning/batches.h"
#include "tests/support/torch_test.h"

using namespace troupe;
using namespace troupe::test;

namespace {

using Tensors = std::map<std::string, Array>;
using Scalars = std::map<std::string, double>;

RunConfig optimizer_config() {
  RunConfig config = small_config();
  config.trainer.weight_decay = 0.1;
  config.trainer.max_grad_norm = 5.0;
  return config;
}

// Two replicas of the same weights, one for each form.
struct Optimizers {
  RunConfig config;
  Replica host_replica, device_replica;
  Optimizer host;
  DeviceOptimizer device;

  explicit Optimizers(const RunConfig& run)
      : config(run),
        host_replica(config, continuous_spec(), at::kCPU, true),
        device_replica(config, continuous_spec(), at::kCPU, true, /*own_memory=*/true),
        host(config.trainer, host_replica.weights),
        device(config.trainer, device_replica.weights, device_replica.device) {
    host_replica.require_weights();
    device_replica.require_weights();
  }

  // Gradients of changing size, so that some steps are clipped; 0 where there is no parameter.
  void draw_gradients(uint64_t seed) {
    Rng rng(seed);
    at::Tensor& flat = device_replica.device.gradients();
    flat.zero_();
    const double scale = std::pow(10.0, 2.0 * rng.uniform() - 1.5);
    for (const TensorSpec& tensor : host_replica.weights.signature()->tensors) {
      if (tensor.group >= TensorGroup::frozen) continue;
      at::Tensor gradient = device_replica.device.gradient(tensor.name).view({-1});
      for (int64_t i = 0; i < gradient.numel(); ++i) gradient[i] = scale * rng.normal();
    }
    host_replica.device.gradients().copy_(flat);
  }
  double step_host(LearningRates rates, bool train_policy) {
    return host.step(floats_of(host_replica.device.gradients()), rates, train_policy);
  }
  double step_device(LearningRates rates, bool train_policy) {
    const double norm = device.norm(train_policy).item<double>();
    device.apply(norm, rates, train_policy);
    return norm;
  }
};

template <class Form>
std::pair<Tensors, Scalars> saved(const WeightBlock& weights, const Form& form) {
  std::pair<Tensors, Scalars> result;
  save_moments(weights, form.moments(), result.first);
  form.save_counts(result.second);
  return result;
}

void check_close(const Tensors& a, const Tensors& b) {
  REQUIRE(a.size() == b.size());
  for (const auto& [name, array] : a) {
    CAPTURE(name);
    const torch::Tensor x = tensor_view(array), y = tensor_view(b.at(name));
    CHECK((x - y).abs().max().item<double>() <= 1e-6 * y.abs().max().item<double>());
  }
}

}  // namespace

TEST_CASE("device optimizer: 50 steps equal those of the host form, with clipping, decay and value-only steps") {
  for (const double decay : {0.0, 0.1}) {
    RunConfig config = optimizer_config();
    config.trainer.weight_decay = decay;
    Optimizers both(config);
    for (uint64_t step = 0; step < 50; ++step) {
      both.draw_gradients(step);
      const LearningRates rates = {1e-2 / static_cast<double>(step + 1), 3e-3};
      const bool train_policy = step % 7 != 0;
      CHECK(both.step_device(rates, train_policy) ==
            doctest::Approx(both.step_host(rates, train_policy)).epsilon(1e-12));
    }
    CHECK((both.device_replica.weights.save() != both.host_replica.weights.save()));
    both.device_replica.device.download();
    check_close(both.device_replica.weights.save(), both.host_replica.weights.save());
    const auto host = saved(both.host_replica.weights, both.host),
               device = saved(both.host_replica.weights, both.device);
    check_close(device.first, host.first);
    CHECK((device.second == host.second));
  }
}

TEST_CASE("device optimizer: with a non-finite norm, weights, moments and step counts do not change") {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    Optimizers both(optimizer_config());
    both.draw_gradients(1);
    both.step_device({1e-2, 1e-2}, true);
    const auto before = saved(both.host_replica.weights, both.device);
    const torch::Tensor weights = both.device_replica.device.parameters().clone();
    both.device_replica.device.gradient("value.head.bias").fill_(bad);
    CHECK_FALSE(std::isfinite(both.step_device({1e-2, 1e-2}, true)));
    CHECK((saved(both.host_replica.weights, both.device) == before));
    CHECK(torch::equal(both.device_replica.device.parameters(), weights));
  }
}

TEST_CASE("device optimizer: each form can continue from a state saved by the other") {
  Optimizers both(optimizer_config());
  for (uint64_t step = 0; step < 5; ++step) {
    both.draw_gradients(step);
    both.step_host({1e-2, 1e-2}, true);
  }
  const auto state = saved(both.host_replica.weights, both.host);
  both.device.load(state.first, state.second);
  CHECK((saved(both.host_replica.weights, both.device) == state));
  both.draw_gradients(9);
  both.step_device({1e-2, 1e-2}, true);
  const auto next = saved(both.host_replica.weights, both.device);
  both.host.load(next.first, next.second);
  CHECK((saved(both.host_replica.weights, both.host) == next));

  Tensors wrong = state.first;
  wrong.erase("first.policy.log_std");
  CHECK_THROWS_WITH_AS(both.device.load(wrong, state.second),
                       "optimizer tensor first.policy.log_std: missing, expected float32 [2]", ConfigError);
  CHECK((saved(both.host_replica.weights, both.device) == next));
}

TEST_CASE("device optimizer: frozen parameters do not change, on the device and in the host's weights") {
  const TrainerConfig config = optimizer_config().trainer;
  WeightBlock weights(Signature{{{TensorGroup::policy, "actor", {3, 7}, DType::f32},
                                 {TensorGroup::value, "critic", {5}, DType::f32},
                                 {TensorGroup::frozen, "base", {4, 9}, DType::f32},
                                 {TensorGroup::buffer, "count", {}, DType::f64}}});
  for (const char* name : {"actor", "critic", "base"}) std::ranges::fill(weights.floats(name), 0.5f);
  WeightBlock host_weights(*weights.signature());
  host_weights.load(weights.save());
  DeviceWeights device(weights, at::kCPU, /*with_gradients=*/true, /*own_memory=*/true);
  DeviceOptimizer optimizer(config, weights, device);
  Optimizer host(config, host_weights);
  for (int step = 0; step < 5; ++step) {
    device.gradient("actor").fill_(0.1 * step - 0.2);
    device.gradient("critic").fill_(0.3);
    const double norm = optimizer.norm(step != 2).item<double>();
    optimizer.apply(norm, {1e-2, 1e-2}, step != 2);
    CHECK(norm == doctest::Approx(host.step(floats_of(device.gradients()), {1e-2, 1e-2}, step != 2)));
  }
  CHECK(torch::equal(device.parameter("base"), torch::full({4, 9}, 0.5f)));
  device.download();
  check_close(weights.save(), host_weights.save());
  CHECK((saved(weights, optimizer).first.size() == 4));
  CHECK((saved(weights, optimizer).second == saved(weights, host).second));
}

TEST_CASE("device optimizer: a critic that is not published is trained as in the host form, and copied to the host") {
  const TrainerConfig config = optimizer_config().trainer;
  WeightBlock weights(Signature{{{TensorGroup::policy, "actor", {3, 7}, DType::f32},
                                 {TensorGroup::critic, "critic", {5, 2}, DType::f32},
                                 {TensorGroup::buffer, "count", {}, DType::f64}}});
  for (const char* name : {"actor", "critic"}) std::ranges::fill(weights.floats(name), 0.5f);
  WeightBlock host_weights(*weights.signature());
  host_weights.load(weights.save());
  const Tensors before = weights.save();
  DeviceWeights device(weights, at::kCPU, /*with_gradients=*/true, /*own_memory=*/true);
  DeviceOptimizer optimizer(config, weights, device);
  Optimizer host(config, host_weights);
  for (int step = 0; step < 5; ++step) {
    device.gradient("actor").fill_(0.1 * step - 0.2);
    device.gradient("critic").fill_(0.3);
    const double norm = optimizer.norm(true).item<double>();
    optimizer.apply(norm, {1e-3, 1e-2}, true);
    CHECK(norm == doctest::Approx(host.step(floats_of(device.gradients()), {1e-3, 1e-2}, true)));
  }
  device.download();
  CHECK_FALSE(weights.save().at("critic") == before.at("critic"));
  check_close(weights.save(), host_weights.save());
  CHECK((saved(weights, optimizer).second == saved(weights, host).second));
}
