// Training of recurrent models, compared with a simple PPO loss in double precision; and the outputs of the network for
// a whole rollout, compared with its outputs while it acted.
#include "models/learning/chunks.h"

#include "models/torch/learning/chunk_forward.h"
#include "models/torch/learning/device_form.h"
#include "models/torch/learning/host_form.h"
#include "tests/models/learning/batches.h"
#include "tests/models/learning/loop.h"
#include "tests/models/learning/recurrent_oracle.h"
#include "tests/models/torch/learning/forms.h"
#include "tests/models/torch/nets.h"
#include "tests/support/torch_test.h"

using namespace troupe;
using namespace troupe::test;

namespace {

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
