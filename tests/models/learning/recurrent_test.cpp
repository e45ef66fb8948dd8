// Training of recurrent models, compared with a simple PPO loss in double precision; and the outputs of the network for
// a whole rollout, compared with its outputs while it acted.

#include <cmath>
#include <numeric>

#include "models/learning/chunks.h"
#include "models/learning/targets.h"
#include "models/torch/learning/chunk_forward.h"
#include "models/torch/learning/device_form.h"
#include "models/torch/learning/host_form.h"
#include "models/torch/learning/policy_stager.h"
#include "tests/support/torch_test.h"

#include "tests/models/learning/batches.h"
#include "tests/models/learning/loop.h"
#include "tests/models/torch/learning/ranks.h"
#include "tests/models/torch/nets.h"

using namespace troupe;
using namespace troupe::test;

namespace {

constexpr int64_t kSize = 6;  // units of the core

RunConfig recurrent_config(const char* core, int64_t length, int64_t sequence, int64_t burn_in = 0) {
  RunConfig config = small_config();
  config.model = net_config(std::string(R"({"trunk": [8], "core": {"size": 6, "kind": ")") + core + R"("}})");
  config.model.policy_gain = 1.0;
  config.rollout.length = length;
  config.model.sequence = sequence;
  config.model.burn_in = burn_in;
  return config;
}

// T x N steps of discrete_spec() with random observations, actions, states and starts. `sequence` steps per chunk.
std::shared_ptr<Rollout> random_recurrent_rollout(int64_t steps, int64_t columns, int64_t sequence, int64_t state_size,
                                                  uint64_t seed) {
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

torch::Tensor tensor_of(const Array& array) {
  const auto type = array.dtype() == DType::f32  ? torch::kFloat
                    : array.dtype() == DType::u8 ? torch::kByte
                                                 : torch::kInt;
  return torch::from_blob(const_cast<std::byte*>(array.data()), {array.shape().begin(), array.shape().end()}, type)
      .clone();
}

torch::Tensor linear(const TensorMap& p, const std::string& name, const torch::Tensor& x) {
  return torch::linear(x, p.at(name + ".weight"), p.at(name + ".bias"));
}

torch::Tensor step_core(const TensorMap& p, bool lstm, const torch::Tensor& x, const torch::Tensor& state) {
  const torch::Tensor &wi = p.at("core.weight_ih"), &wh = p.at("core.weight_hh"), &bi = p.at("core.bias_ih"),
                      &bh = p.at("core.bias_hh");
  if (!lstm) return torch::gru_cell(x, state, wi, wh, bi, bh);
  const auto parts = state.chunk(2, 1);
  const auto [h, c] = torch::lstm_cell(x, {parts[0], parts[1]}, wi, wh, bi, bh);
  return torch::cat({h, c}, 1);
}

torch::Tensor input_of_core(const TensorMap& p, const torch::Tensor& observations) {
  return linear(p, "trunk.0", linear(p, "encoder.state.0", observations).tanh()).tanh();
}

// The PPO loss of a rollout, step by step over whole columns. Each chunk begins with the recorded state, and gradients
// do not flow back into the first `burn_in` steps. Only valid steps after the burn-in have a loss.
torch::Tensor recurrent_ppo_loss(const TensorMap& p, const RunConfig& config, const Rollout& rollout, bool lstm) {
  const int64_t steps = rollout.grid().steps(), columns = rollout.grid().columns(), length = config.model.sequence;
  const auto grid = [&](const Array& array) { return tensor_of(array).to(torch::kDouble); };
  const torch::Tensor observations = grid(rollout.grid().observations.at("state")),
                      states = grid(rollout.grid().chunk_states);
  const torch::Tensor valid = tensor_of(rollout.grid().valid) > 0, starts = tensor_of(rollout.grid().starts) > 0;
  torch::Tensor advantages = grid(rollout.grid().advantages);
  const torch::Tensor samples = advantages.masked_select(valid);
  advantages = (advantages - samples.mean()) / (samples.std(false) + 1e-8);
  torch::Tensor state, policy_loss = torch::zeros({}, torch::kDouble), value_loss = policy_loss.clone();
  double count = 0;
  for (int64_t t = 0; t < steps; ++t) {
    if (t % length == 0) state = states[t / length];
    if (t % length == config.model.burn_in) state = state.detach();
    state = state.masked_fill(starts[t].unsqueeze(1), 0);
    state = step_core(p, lstm, input_of_core(p, observations[t]), state);
    if (t % length < config.model.burn_in) continue;
    const torch::Tensor features = state.narrow(1, 0, kSize);
    const torch::Tensor actions = tensor_of(rollout.grid().actions)[t].reshape({columns, 1}).to(torch::kLong);
    const torch::Tensor log_probs = torch::log_softmax(linear(p, "policy.head", features), 1).gather(1, actions);
    const torch::Tensor ratio = (log_probs.squeeze(1) - grid(rollout.grid().log_probs)[t].squeeze(1)).exp();
    const torch::Tensor surrogate = torch::max(-advantages[t] * ratio, -advantages[t] * ratio.clamp(0.8, 1.2));
    const torch::Tensor error = linear(p, "value.head", features).squeeze(1) - grid(rollout.grid().returns)[t];
    const torch::Tensor mask = valid[t].to(torch::kDouble);
    policy_loss = policy_loss + (surrogate * mask).sum();
    value_loss = value_loss + (0.5 * error * error * mask).sum();
    count += mask.sum().item<double>();
  }
  return (policy_loss + config.algorithm.value_coef * value_loss) / count;
}

// The gradients the learner used, recovered from Adam's first moments after one step.
TensorMap gradients_of(const Learner& learner, const RunConfig& config) {
  TensorMap result;
  for (const auto& [name, array] : learner.save().optimizer)
    if (name.starts_with("first."))
      result[name.substr(6)] = tensor_of(array).to(torch::kDouble) / (1 - config.trainer.adam_beta1);
  return result;
}

int64_t state_size_of(bool lstm) { return lstm ? 2 * kSize : kSize; }

}  // namespace

TEST_CASE("recurrent: the gradients of a learner equal those of a loss unrolled in a plain loop") {
  struct Case {
    int64_t steps, columns, sequence, burn_in;
  };
  for (const bool lstm : {true, false}) {
    for (const auto& [steps, columns, sequence, burn_in] :
         std::vector<Case>{{12, 5, 4, 0}, {12, 5, 4, 1}, {9, 1, 9, 3}, {6, 4, 1, 0}}) {
      RunConfig config = recurrent_config(lstm ? "lstm" : "gru", steps, sequence, burn_in);
      config.trainer.max_grad_norm = 0.0;
      const auto learner = make_learner(config, discrete_spec());
      const auto rollout = random_recurrent_rollout(steps, columns, sequence, state_size_of(lstm), 11);
      rollout->grid().valid.mutable_view<uint8_t>()[2 * columns] =
          0;  // the environment failed, and a new episode follows
      rollout->grid().starts.mutable_view<uint8_t>()[3 * columns] = 1;
      TensorMap parameters;
      for (const auto& [name, array] : learner->save().model)
        parameters[name] = tensor_of(array).to(torch::kDouble).requires_grad_(true);
      recurrent_ppo_loss(parameters, config, *rollout, lstm).backward();
      update_with(*learner, whole_batch(rollout));
      for (const auto& [name, gradient] : gradients_of(*learner, config)) {
        INFO(name << ", " << steps << " steps of " << columns << ", sequences of " << sequence);
        const torch::Tensor& wanted = parameters.at(name).grad();
        REQUIRE(wanted.defined());
        CHECK(relative_error(gradient, wanted) < 2e-6);
      }
    }
  }
}

TEST_CASE("recurrent: micro-batches of chunks give the gradient of their whole minibatch") {
  RunConfig config = recurrent_config("lstm", 8, 4, 1);
  const auto whole_learner = make_learner(config, discrete_spec());
  config.trainer.micro_batch = 9;  // two chunks
  const auto micro_learner = make_learner(config, discrete_spec());
  const auto rollout = random_recurrent_rollout(8, 5, 4, 2 * kSize, 3);
  rollout->grid().valid.mutable_view<uint8_t>()[7] = 0;
  const UpdateReport a = update_with(*whole_learner, whole_batch(rollout));
  const UpdateReport b = update_with(*micro_learner, whole_batch(rollout));
  const TensorMap wanted = gradients_of(*whole_learner, config);
  for (const auto& [name, gradient] : gradients_of(*micro_learner, config)) {
    INFO(name);
    CHECK(relative_error(gradient, wanted.at(name)) < 1e-5);
  }
  for (const char* name : {"policy_loss", "value_loss", "entropy", "kl"})
    CHECK(a.metrics.at(name) == doctest::Approx(b.metrics.at(name)).epsilon(1e-5));
}

TEST_CASE("recurrent: minibatches hold whole chunks, each trained on once an epoch") {
  RunConfig config = recurrent_config("gru", 8, 4);
  config.trainer.minibatches = 3;
  config.trainer.epochs = 2;
  const auto learner = make_learner(config, discrete_spec());
  const UpdateReport report = update_with(*learner, whole_batch(random_recurrent_rollout(8, 5, 4, kSize, 5)));
  CHECK(report.steps == 6);
  CHECK(report.skipped == 0);
}

TEST_CASE("recurrent: chunks without a sample are left out, and a batch without any trains nothing") {
  RunConfig config = recurrent_config("lstm", 8, 4, 2);
  const auto learner = make_learner(config, discrete_spec());
  const auto before = learner->save().model;
  const auto rollout = random_recurrent_rollout(8, 2, 4, 2 * kSize, 5);
  // Only burn-in steps are left: t 0 and 1 of each chunk.
  for (int64_t t = 0; t < 8; ++t)
    for (int64_t n = 0; n < 2; ++n) rollout->grid().valid.mutable_view<uint8_t>()[t * 2 + n] = t % 4 < 2;
  const UpdateReport report = update_with(*learner, whole_batch(rollout));
  CHECK(report.steps + report.skipped == 0);
  CHECK_FALSE(report.metrics.contains("explained_variance"));
  CHECK((learner->save().model == before));
  rollout->grid().valid.mutable_view<uint8_t>()[2 * 2 + 1] = 1;
  CHECK(update_with(*learner, whole_batch(rollout)).steps == 1);
}

TEST_CASE("recurrent: the change of an adaptive KL coefficient depends on the number of samples after the burn-in") {
  RunConfig config = recurrent_config("gru", 8, 4, 1);
  config.algorithm.kl_coef = 0.5;
  config.algorithm.kl_controller = "adaptive";
  config.algorithm.kl_target = 1e-6;
  config.algorithm.kl_horizon = 10'000;
  const auto learner = make_learner(config, discrete_spec());
  const auto rollout = random_recurrent_rollout(8, 5, 4, kSize, 5);
  // Of 2 chunks x 5 columns x 3 steps after the burn-in, 29 samples are left: one burn-in step and one later step are
  // masked.
  for (const int64_t sample : {1, 6}) rollout->grid().valid.mutable_view<uint8_t>()[static_cast<size_t>(sample)] = 0;
  CHECK(update_with(*learner, whole_batch(rollout)).metrics.at("kl_coef") == 0.5);
  CHECK(learner->save().scalars.at("kl_coef") == doctest::Approx(0.5 * (1 + 0.2 * 29 / 10'000)).epsilon(1e-12));
}

TEST_CASE("recurrent: training on some columns of a rollout equals training on a rollout of only these columns") {
  const RunConfig config = recurrent_config("lstm", 8, 4);
  const auto a = make_learner(config, discrete_spec()), b = make_learner(config, discrete_spec());
  const auto all = random_recurrent_rollout(8, 4, 4, 2 * kSize, 6);
  SuperBatch part = whole_batch(all);
  part.parts[0].indices = {1, 3};
  auto picked = random_recurrent_rollout(8, 2, 4, 2 * kSize, 6);
  const auto pick = [&](const Array& from, Array& to) {
    const int64_t samples = from.dim(0);
    const size_t bytes = static_cast<size_t>(from.row_bytes()) / 4;
    for (int64_t t = 0; t < samples; ++t)
      for (int64_t c = 0; c < 2; ++c)
        std::copy_n(from.data() + (t * 4 + 1 + 2 * c) * bytes, bytes, to.mutable_data() + (t * 2 + c) * bytes);
  };
  pick(all->grid().observations.at("state"), picked->grid().observations.at("state"));
  for (auto member : {&Grid::actions, &Grid::log_probs, &Grid::values, &Grid::advantages, &Grid::returns, &Grid::starts,
                      &Grid::chunk_states})
    pick(all->grid().*member, picked->grid().*member);
  update_with(*a, part);
  update_with(*b, whole_batch(picked));
  CHECK((a->save().model == b->save().model));
}

TEST_CASE("recurrent: a rollout whose recurrent states do not fit is refused") {
  const RunConfig config = recurrent_config("lstm", 8, 4);
  const auto learner = make_learner(config, discrete_spec());
  const auto refused = [&](auto change) {
    auto rollout = random_recurrent_rollout(8, 2, 4, 2 * kSize, 6);
    change(*rollout);
    CHECK_THROWS_AS(learner->stager()->stage(whole_batch(rollout)), InvariantError);
  };
  refused([](Rollout& r) { r.grid().chunk_states = {}; });
  refused([](Rollout& r) { r.grid().starts = {}; });
  refused([](Rollout& r) { r.grid().chunk_states = Array(DType::f32, {4, 2, 2 * kSize}); });
  refused([](Rollout& r) { r.grid().chunk_states = Array(DType::f32, {2, 2, kSize}); });
}

TEST_CASE("recurrent: the outputs for a whole rollout equal those while acting, also after truncations") {
  RunConfig config;
  config.env.id = "GridWorld";
  config.env.params = R"({"size": 5, "max_episode_steps": 7})";
  config.env.rows = 6;
  config.model = net_config(R"({"core": {"kind": "lstm", "size": 8}})");
  config.rollout.length = 24;
  config.model.sequence = 8;
  auto env = make_env(config.env);
  const EnvSpec spec = env->spec();
  const auto policy = make_policy(config, spec);
  Sampler sampler(config, *policy, std::move(env), 2);
  sampler.collect(24);  // so that the rollout begins inside episodes
  const RolloutPtr rollout = sampler.collect(24);
  REQUIRE(rollout->grid().final_steps.dim(0) > 3);

  Replica replica(config, spec, at::kCPU, /*with_gradients=*/true);
  replica.require_weights();
  const SuperBatch batch = whole(rollout);
  const StagedSamples staged = stage_samples(batch, spec, replica.encoder, /*whole_columns=*/true);
  const Chunks chunks = stage_chunks(batch, staged, recurrence_of(config, spec));
  SampleGather gather(replica.device.device());
  ChunkForward forward(replica, gather);
  for (const int64_t samples_per_pass : {1, 20, 4096}) {
    const BatchTensors tensors = {replica.tensors_of(staged.inputs), replica.tensors_of(staged.bootstrap_inputs),
                                  tensor_view(chunks.states), tensor_view(chunks.starts)};
    const BatchOutputs batch_outputs = run_batch(forward, replica, staged, chunks, tensors, samples_per_pass);
    const auto computed = floats_of(batch_outputs.values), bootstraps = floats_of(batch_outputs.bootstraps);
    const auto values = rollout->grid().values.view<float>(), next = rollout->grid().next_values.view<float>();
    for (size_t sample = 0; sample < values.size(); ++sample)
      CHECK(computed[sample] == doctest::Approx(values[sample]).epsilon(1e-5));
    REQUIRE(bootstraps.size() == staged.bootstrap_samples.size());
    CHECK(bootstraps.size() == static_cast<size_t>(6 + rollout->grid().final_steps.dim(0)));
    const auto terminated = rollout->grid().terminated.view<uint8_t>(),
               truncated = rollout->grid().truncated.view<uint8_t>();
    for (size_t i = 0; i < bootstraps.size(); ++i) {
      const auto sample = static_cast<size_t>(staged.bootstrap_samples[i]);
      const bool ended = terminated[sample] || truncated[sample];
      const bool of_final = i >= 6;  // the ends of the columns come first
      if (of_final || !ended) CHECK(bootstraps[i] == doctest::Approx(next[sample]).epsilon(1e-5));
    }
  }
}

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
      const auto reducer = single_rank();
      std::unique_ptr<UpdateForm> form;
      if (device_form)
        form = std::make_unique<DeviceForm>(config, replica, choice, *reducer);
      else
        form = std::make_unique<HostForm>(config, replica, choice, *reducer);
      const auto staged = make_policy_stager(config, spec, replica, device_form)->stage(whole(rollout));
      auto& update = dynamic_cast<StagedUpdate&>(*staged);
      StagedSamples& batch = update.staged;
      form->begin(update, {});
      CurrentNetwork network = form->current_network();
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

TEST_CASE("recurrent: two ranks with different chunks train like one learner with the chunks of both") {
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
      CHECK(trainers.reports[0].steps == 2);
      trainers.check_joined();
    }
  }
}
