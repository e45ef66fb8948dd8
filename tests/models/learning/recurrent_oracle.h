#pragma once
// Recurrent rollouts, and a recurrent network as a plain loop of tensor operations.

#include "tests/support/torch_test.h"

#include "models/torch/learning/chunk_forward.h"
#include "tests/models/learning/batches.h"
#include "tests/models/learning/loop.h"
#include "tests/models/torch/learning/shards.h"
#include "tests/models/torch/nets.h"

namespace troupe::test {

inline constexpr int64_t kSize = 6;  // units of the core

inline RunConfig recurrent_config(const char* core, int64_t length, int64_t sequence, int64_t burn_in = 0) {
  RunConfig config = small_config();
  config.model = net_config(std::string(R"({"trunk": [8], "core": {"size": 6, "kind": ")") + core + R"("}})");
  config.model.policy_gain = 1.0;
  config.rollout.length = length;
  config.model.sequence = sequence;
  config.model.burn_in = burn_in;
  return config;
}

// T x N steps of discrete_spec() with random observations, actions, states and starts. `sequence` steps per chunk.
inline std::shared_ptr<Rollout> random_recurrent_rollout(int64_t steps, int64_t columns, int64_t sequence,
                                                         int64_t state_size, uint64_t seed) {
  auto rollout = std::make_shared<Rollout>();
  const auto numbers = [&](const char* name, Shape shape) { return random_array(shape, derive_key(seed, name)); };
  rollout->grid().observations.set("state", numbers("observations", {steps, columns, 5}));
  rollout->grid().actions = Array(DType::i32, {steps, columns, 1, 1});
  Rng rng(derive_key(seed, "actions"));
  for (int32_t& action : rollout->grid().actions.mutable_view<int32_t>()) action = static_cast<int32_t>(rng.below(3));
  rollout->grid().log_probs = Array(DType::f32, {steps, columns, 1});
  for (float& x : rollout->grid().log_probs.mutable_view<float>()) x = -1.1f + 0.2f * rng.normal();
  rollout->grid().values = numbers("values", {steps, columns});
  rollout->grid().next_values = numbers("next_values", {steps, columns});
  rollout->grid().rewards = numbers("rewards", {steps, columns});
  rollout->grid().advantages = numbers("advantages", {steps, columns});
  rollout->grid().returns = numbers("returns", {steps, columns});
  for (Array* array :
       {&rollout->grid().terminated, &rollout->grid().truncated, &rollout->grid().valid, &rollout->grid().starts})
    *array = Array(DType::u8, {steps, columns});
  std::ranges::fill(rollout->grid().valid.mutable_view<uint8_t>(), 1);
  for (uint8_t& start : rollout->grid().starts.mutable_view<uint8_t>()) start = rng.below(5) == 0;
  rollout->grid().chunk_states = numbers("states", {steps / sequence, columns, state_size});
  rollout->samples = static_cast<uint64_t>(steps * columns);
  return rollout;
}

inline torch::Tensor tensor_of(const Array& array) {
  const auto type = array.dtype() == DType::f32  ? torch::kFloat
                    : array.dtype() == DType::u8 ? torch::kByte
                                                 : torch::kInt;
  return torch::from_blob(const_cast<std::byte*>(array.data()), {array.shape().begin(), array.shape().end()}, type)
      .clone();
}

inline torch::Tensor step_core(const TensorMap& p, bool lstm, const torch::Tensor& x, const torch::Tensor& state) {
  const torch::Tensor &wi = p.at("core.weight_ih"), &wh = p.at("core.weight_hh"), &bi = p.at("core.bias_ih"),
                      &bh = p.at("core.bias_hh");
  if (!lstm) return torch::gru_cell(x, state, wi, wh, bi, bh);
  const auto parts = state.chunk(2, 1);
  const auto [h, c] = torch::lstm_cell(x, {parts[0], parts[1]}, wi, wh, bi, bh);
  return torch::cat({h, c}, 1);
}

inline torch::Tensor input_of_core(const TensorMap& p, const torch::Tensor& observations) {
  return linear(p, "trunk.0", linear(p, "encoder.state.0", observations).tanh()).tanh();
}

inline int64_t state_size_of(bool lstm) { return lstm ? 2 * kSize : kSize; }

}  // namespace troupe::test
