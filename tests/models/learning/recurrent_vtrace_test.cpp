#include <cmath>

#include "models/learning/chunks.h"
#include "models/learning/targets.h"
#include "models/torch/learning/chunk_forward.h"
#include "models/torch/learning/device_form.h"
#include "models/torch/learning/host_form.h"
#include "models/torch/learning/policy_stager.h"
#include "tests/models/learning/batches.h"
#include "tests/models/learning/loop.h"
#include "tests/models/learning/recurrent_oracle.h"
#include "tests/models/torch/learning/shards.h"
#include "tests/models/torch/nets.h"
#include "tests/support/torch_test.h"

using namespace troupe;
using namespace troupe::test;

namespace {

// The outputs of the network for a rollout, in double precision, step by step over whole columns.
struct Unrolled {
  torch::Tensor values, log_probs;  // [T, N]
  torch::Tensor next_values;        // [T, N] from the rollout, except after the last step and after truncations
};

Unrolled unroll(const TensorMap& p, const RunConfig& config, const Rollout& rollout, bool lstm) {
  const int64_t steps = rollout.grid().steps(), columns = rollout.grid().columns(), length = config.model.sequence;
  const auto grid = [&](const Array& array) { return tensor_of(array).to(torch::kDouble); };
  const torch::Tensor observations = grid(rollout.grid().observations.at("state")),
                      states = grid(rollout.grid().chunk_states),
                      last = grid(rollout.grid().last_observations.at("state")),
                      finals = grid(rollout.grid().final_observations.at("state")),
                      starts = tensor_of(rollout.grid().starts) > 0;
  const auto final_steps = rollout.grid().final_steps.view<int32_t>();
  Unrolled result = {grid(rollout.grid().values), grid(rollout.grid().values), grid(rollout.grid().next_values)};
  const auto value_of = [&](const torch::Tensor& state) {
    return linear(p, "value.head", state.narrow(1, 0, kSize)).squeeze(1);
  };
  torch::Tensor state;
  for (int64_t t = 0; t < steps; ++t) {
    if (t % length == 0) state = states[t / length];
    state = step_core(p, lstm, input_of_core(p, observations[t]), state.masked_fill(starts[t].unsqueeze(1), 0));
    const torch::Tensor actions = tensor_of(rollout.grid().actions)[t].reshape({columns, 1}).to(torch::kLong);
    result.values[t] = value_of(state);
    result.log_probs[t] =
        torch::log_softmax(linear(p, "policy.head", state.narrow(1, 0, kSize)), 1).gather(1, actions).squeeze(1);
    if (t == steps - 1) result.next_values[t] = value_of(step_core(p, lstm, input_of_core(p, last), state));
    for (int64_t f = 0; f < rollout.grid().final_steps.dim(0); ++f) {
      if (final_steps[static_cast<size_t>(2 * f)] != t) continue;
      const int64_t n = final_steps[static_cast<size_t>(2 * f + 1)];
      const torch::Tensor x = input_of_core(p, finals.narrow(0, f, 1));
      result.next_values[t][n] = value_of(step_core(p, lstm, x, state.narrow(0, n, 1)))[0];
    }
  }
  return result;
}

// Equation 1 of IMPALA as a recurrence, with every bound at 1: value targets and policy advantages, [T * N].
std::pair<std::vector<double>, std::vector<double>> vtrace_targets(const AlgorithmConfig& algorithm, const Rollout& r,
                                                                   const Unrolled& unrolled) {
  const int64_t steps = r.grid().steps(), columns = r.grid().columns();
  const auto flag = [&](const Array& flags, int64_t t, int64_t n) {
    return flags.view<uint8_t>()[static_cast<size_t>(t * columns + n)] != 0;
  };
  const auto number = [](const torch::Tensor& from, int64_t t, int64_t n) { return from[t][n].item<double>(); };
  const torch::Tensor rewards = tensor_of(r.grid().rewards), behaviour = tensor_of(r.grid().log_probs).squeeze(2);
  std::vector<double> targets(static_cast<size_t>(steps * columns), 0.0), advantages = targets;
  for (int64_t n = 0; n < columns; ++n) {
    for (int64_t t = steps - 1; t >= 0; --t) {
      if (!flag(r.grid().valid, t, n)) continue;
      const auto i = static_cast<size_t>(t * columns + n), j = i + static_cast<size_t>(columns);
      const bool ended = flag(r.grid().terminated, t, n) || flag(r.grid().truncated, t, n);
      const bool linked = t + 1 < steps && !ended && flag(r.grid().valid, t + 1, n);
      const double value = number(unrolled.values, t, n), reward = number(rewards, t, n);
      const double next = linked                            ? number(unrolled.values, t + 1, n)
                          : flag(r.grid().terminated, t, n) ? 0.0
                                                            : number(unrolled.next_values, t, n);
      const double rho = std::min(1.0, std::exp(number(unrolled.log_probs, t, n) - number(behaviour, t, n)));
      targets[i] = value + rho * (reward + algorithm.gamma * next - value);
      if (linked) targets[i] += algorithm.gamma * algorithm.lambda * rho * (targets[j] - next);
      const double weight = algorithm.vtrace_adv == "pg_rho" ? rho : 1.0;
      advantages[i] = weight * (reward + algorithm.gamma * (linked ? targets[j] : next) - value);
    }
  }
  return {targets, advantages};
}

// A rollout with a terminated episode, a masked step, and truncations: inside and at the end of a chunk, before a
// masked step and at the end of the rollout.
std::shared_ptr<Rollout> cut_rollout(int64_t state_size) {
  const auto rollout = random_recurrent_rollout(8, 5, 4, state_size, 17);
  const auto set = [](Array& flags, int64_t t, int64_t n, uint8_t value) {
    flags.mutable_view<uint8_t>()[static_cast<size_t>(t * 5 + n)] = value;
  };
  const std::vector<std::pair<int, int>> cuts = {{2, 1}, {3, 4}, {4, 2}, {7, 3}};
  for (const auto& [t, n] : cuts) {
    set(rollout->grid().truncated, t, n, 1);
    if (t < 7) set(rollout->grid().starts, t + 1, n, 1);
  }
  set(rollout->grid().terminated, 5, 0, 1);
  set(rollout->grid().starts, 6, 0, 1);
  set(rollout->grid().valid, 5, 2, 0);
  set(rollout->grid().starts, 6, 2, 1);
  rollout->samples = 39;
  rollout->grid().last_observations.set("state", random_array({5, 5}, 18));
  rollout->grid().final_observations.set("state", random_array({4, 5}, 19));
  rollout->grid().final_steps = Array(DType::i32, {4, 2});
  for (size_t f = 0; f < cuts.size(); ++f) {
    rollout->grid().final_steps.mutable_view<int32_t>()[2 * f] = cuts[f].first;
    rollout->grid().final_steps.mutable_view<int32_t>()[2 * f + 1] = cuts[f].second;
  }
  return rollout;
}

}  // namespace

TEST_CASE("recurrent: V-trace targets and log-probabilities equal those of a network unrolled in a plain loop") {
  for (const bool lstm : {true, false}) {
    for (const bool device_form : {false, true}) {
      CAPTURE(lstm);
      CAPTURE(device_form);
      RunConfig config = recurrent_config(lstm ? "lstm" : "gru", 8, 4, 1);
      config.algorithm.advantage = "vtrace";
      config.algorithm.lambda = 0.9;
      const EnvSpec spec = discrete_spec();
      Replica replica(config, spec, at::kCPU, /*with_gradients=*/true, /*own_memory=*/device_form);
      replica.require_weights();
      TensorMap parameters;
      for (const auto& [name, array] : replica.weights.save()) parameters[name] = tensor_of(array).to(torch::kDouble);
      const RolloutPtr rollout = cut_rollout(state_size_of(lstm));
      const Unrolled unrolled = unroll(parameters, config, *rollout, lstm);
      const auto [targets, advantages] = vtrace_targets(config.algorithm, *rollout, unrolled);

      const AlgorithmChoice choice = choose_algorithm(config.algorithm);
      std::unique_ptr<UpdateForm> form;
      if (device_form)
        form = std::make_unique<DeviceForm>(config, replica, choice);
      else
        form = std::make_unique<HostForm>(config, replica, choice);
      const auto staged = make_policy_stager(config, spec, replica, device_form)->stage(whole(rollout));
      auto& update = dynamic_cast<StagedUpdate&>(*staged);
      StagedSamples& batch = update.staged;
      form->begin(0, update, {});
      CurrentNetwork network = form->current_network(0);
      network.samples_per_pass = 4;  // so that there are several passes
      Start start = evaluate_start(batch, network, replica.head.decisions(), /*probabilities=*/false);
      const Prepared prepared = prepare(choice, config.algorithm, replica.head, network, std::move(start), batch);
      for (const int64_t sample : batch.trained) {
        CAPTURE(sample);
        const auto i = static_cast<size_t>(sample);
        const double log_prob = unrolled.log_probs[sample / 5][sample % 5].item<double>();
        CHECK(prepared.start.policy.log_probs[i] == doctest::Approx(log_prob).epsilon(1e-5));
        CHECK(batch.returns.view<float>()[i] == doctest::Approx(targets[i]).epsilon(1e-5));
        CHECK(prepared.advantages.values[i] == doctest::Approx(advantages[i]).epsilon(1e-5));
      }
    }
  }
}

TEST_CASE("recurrent: an update with V-trace or a rollout correction has finite metrics") {
  for (const bool vtrace : {true, false}) {
    RunConfig config = recurrent_config("lstm", 8, 4, 1);
    config.env.id = "GridWorld";
    config.env.params = R"({"size": 4, "max_episode_steps": 5})";
    config.env.rows = 5;
    if (vtrace)
      config.algorithm.advantage = "vtrace";
    else
      config.algorithm.rollout_correction = R"({"is": "token"})";
    auto env = make_env(config.env);
    const EnvSpec spec = env->spec();
    const auto policy = make_policy(config, spec);
    const auto learner = make_learner(config, spec);
    Sampler sampler(config, *policy, std::move(env), 2);
    const RolloutPtr rollout = sampler.collect(8);
    auto staged = learner->stager()->stage(whole(rollout));
    const UpdateReport report = learner->update(*staged, 0.0);
    CHECK(report.steps == 1);
    for (const auto& [name, value] : report.metrics) {
      INFO(name);
      CHECK(std::isfinite(value));
    }
    // The weights have not changed yet, so the policy equals the behaviour policy.
    CHECK(report.metrics.at("kl") == doctest::Approx(0.0).epsilon(1e-5));
    if (!vtrace) CHECK(report.metrics.at("rollout_kl") == doctest::Approx(0.0).epsilon(1e-5));
  }
}

TEST_CASE("recurrent: two shards with different chunks train like one with the chunks of both") {
  for (const bool device_form : {false, true}) {
    CAPTURE(device_form);
    RunConfig config = recurrent_config("lstm", 8, 4, 1);
    config.model.normalize_observations = config.model.normalize_returns = true;
    config.trainer.epochs = 2;
    const auto some = random_recurrent_rollout(8, 4, 4, 2 * kSize, 20),
               fewer = random_recurrent_rollout(8, 2, 4, 2 * kSize, 21);
    const auto only_burn_in = random_recurrent_rollout(8, 2, 4, 2 * kSize, 22);
    for (int64_t i = 0; i < 16; ++i) {
      fewer->grid().valid.mutable_view<uint8_t>()[i] = i % 3 != 0;
      only_burn_in->grid().valid.mutable_view<uint8_t>()[i] = i % 8 < 2;  // t 0 and 4
    }
    for (const SuperBatch& other : {whole_batch(fewer), whole_batch(only_burn_in), SuperBatch{}}) {
      Trainers trainers(config, discrete_spec(), device_form);
      trainers.update({whole_batch(some), other});
      CHECK(trainers.of_sharded.steps == 2);
      trainers.check_joined();
    }
  }
}
