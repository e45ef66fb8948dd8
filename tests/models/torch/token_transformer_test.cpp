// The network of model.kind "token_transformer": compared with the same network written with functions of torch, and
// drawing compared with training.

#include "models/torch/token_transformer.h"

#include <algorithm>
#include <cmath>

#include "models/networks/token_transformer_layout.h"
#include "models/torch/learning/make_model.h"
#include "models/torch/replica.h"
#include "runtime/base/errors.h"
#include "tests/models/learning/batches.h"
#include "tests/models/torch/nets.h"
#include "tests/models/torch/token_reference.h"
#include "tests/support/torch_test.h"

using namespace troupe;
using namespace troupe::test;

namespace {

constexpr double kTolerance = 1e-5;  // relative, in float32

}  // namespace

TEST_CASE("token_transformer: outputs and every gradient equal those of torch") {
  for (const auto& [chunk, samples] : {std::pair<int64_t, int64_t>{1, 1}, {1, 7}, {3, 33}}) {
    const EnvSpec spec = decisions_spec(chunk);
    NetModel model(transformer_config(), spec, 5);
    const Head head(spec.action);
    NetworkInput input;
    input.observations = random_inputs(model, samples, 1);
    input.observations = {torch::randn({samples, 8}, at::detail::createCPUGenerator(1))};
    input.actions = random_actions(head, samples, 2);
    const NetworkOutput actual = model.network->forward(input, true);
    const torch::Tensor a = random_tensor({samples, head.outputs()}, 3), b = random_tensor({samples, 1}, 4);
    model.device.zero_gradients();
    model.network->backward(a, b);

    const TensorMap parameters = model.parameters(torch::kFloat);
    const Reference wanted = reference(parameters, token_transformer_shape(model.config, spec), head,
                                       input.observations.front(), input.actions);
    ((wanted.policy * a).sum() + (wanted.values * b).sum()).backward();
    CAPTURE(chunk);
    CHECK(relative_error(actual.policy, wanted.policy) < kTolerance);
    CHECK(relative_error(actual.values, wanted.values) < kTolerance);
    for (const auto& [name, parameter] : parameters) {
      INFO(name);
      REQUIRE(parameter.grad().defined());
      CHECK(parameter.grad().abs().max().item<double>() > 0.0);
      CHECK(relative_error(model.device.gradient(name), parameter.grad()) < kTolerance);
    }
  }
}

TEST_CASE("token_transformer: a decision depends on the decisions before it and on no others") {
  const EnvSpec spec = decisions_spec(2);
  NetModel model(transformer_config(), spec, 6);
  const Head head(spec.action);
  NetworkInput input;
  input.observations = {torch::randn({4, 8}, at::detail::createCPUGenerator(1))};
  input.actions = random_actions(head, 4, 2);
  const torch::Tensor before = model.network->forward(input, false).policy.clone();
  for (int64_t changed = 0; changed < head.decisions(); ++changed) {
    NetworkInput other = input;
    other.actions = input.actions.clone();
    const int64_t bins = head.layout()[changed].bins;
    other.actions.select(1, changed).copy_((input.actions.select(1, changed) + 1).remainder(bins));
    const torch::Tensor after = model.network->forward(other, false).policy;
    for (int64_t d = 0; d < head.decisions(); ++d) {
      CAPTURE(changed);
      CAPTURE(d);
      const auto [first, size] = head.layout()[d];
      CHECK(torch::equal(before.narrow(1, first, size), after.narrow(1, first, size)) == (d <= changed));
    }
  }
}

TEST_CASE("token_transformer: what is drawn has the same bits in training") {
  for (const int64_t samples : {1, 5, 64}) {
    const EnvSpec spec = decisions_spec(2);
    NetModel model(transformer_config(), spec, 7);
    const Head head(spec.action);
    NetworkInput input;
    input.observations = {torch::randn({samples, 8}, at::detail::createCPUGenerator(9))};
    const torch::Tensor actions = random_actions(head, samples, 10);
    int64_t calls = 0;
    const Network::Draw draw = [&](const torch::Tensor& outputs, std::optional<int64_t> decision) {
      CHECK(outputs.size(1) == head.outputs());
      CHECK(decision == calls);  // each decision once, in order
      ++calls;
      return actions;
    };
    const torch::Tensor drawn = model.network->act(input, draw).policy.clone();
    CHECK(calls == head.decisions());
    input.actions = actions;
    CHECK(torch::equal(model.network->forward(input, true).policy, drawn));
  }
}

TEST_CASE("token_transformer: greedy decisions are the most likely ones of the pass over all decisions") {
  RunConfig config;
  config.model = transformer_config();
  const EnvSpec spec = decisions_spec(3);
  NetModel model(transformer_config(), spec, 8);
  const Head head(spec.action);
  const std::unique_ptr<Policy> policy = make_policy(config, spec);
  policy->load(*model.weights.snapshot({}));
  constexpr int64_t kSamples = 9;
  ActInput input;
  const torch::Tensor state = torch::randn({kSamples, 6}, at::detail::createCPUGenerator(4));
  const torch::Tensor goal = torch::randn({kSamples, 2}, at::detail::createCPUGenerator(5));
  input.observations.set("state", Array::of<float>({kSamples, 6}, floats_of(state)));
  input.observations.set("goal", Array::of<float>({kSamples, 2}, floats_of(goal)));
  input.seeds = Array(DType::i64, {kSamples});
  input.deterministic = Array(DType::u8, {kSamples});
  std::ranges::fill(input.deterministic.mutable_view<uint8_t>(), 1);
  const ActOutput acted = policy->act(input);

  NetworkInput all;
  all.observations = {torch::cat({state, goal}, 1)};
  all.actions = tensor_view(acted.actions).view({kSamples, head.decisions()});
  const torch::Tensor outputs = model.network->forward(all, false).policy;
  for (int64_t d = 0; d < head.decisions(); ++d) {
    const auto [first, bins] = head.layout()[static_cast<size_t>(d)];
    const torch::Tensor logits = outputs.narrow(1, first, bins);
    CAPTURE(d);
    CHECK(torch::equal(logits.argmax(1), all.actions.select(1, d).to(torch::kLong)));
    const torch::Tensor log_probs = tensor_view(acted.log_probs).select(1, d);
    CHECK((logits.log_softmax(1).amax(1) - log_probs).abs().max().item<double>() < 1e-6);
  }
}

TEST_CASE("token_transformer: the policy and the learner agree on log-probabilities, exactly 1 as a ratio") {
  RunConfig config = small_config();
  config.model = transformer_config();
  config.trainer.epochs = 1;
  config.trainer.minibatches = 1;
  const EnvSpec spec = token_spec();
  Pair pair(config, spec);
  const auto rollout = random_rollout(spec, *pair.policy, 8, 4, 1, /*log_prob_noise=*/0.0f);
  const UpdateReport report = update_with(*pair.learner, whole_batch(rollout));
  CHECK(report.steps == 1);
  for (const char* ratio : {"ratio_min", "ratio_mean", "ratio_max"}) {
    CAPTURE(ratio);
    CHECK(report.metrics.at(ratio) == 1.0);
  }
}

TEST_CASE("token_transformer: settings that do not fit are refused by name") {
  const EnvSpec spec = decisions_spec();
  CHECK_THROWS_WITH_AS(token_transformer_shape(transformer_config(R"({"hidden_size": 16})"), spec),
                       doctest::Contains("model.decoder: "), ConfigError);
  const auto with = [](const std::string& more) {
    std::string text = kSmall;
    return transformer_config(text.substr(0, text.size() - 1) + ", " + more + "}");
  };
  CHECK_THROWS_WITH_AS(token_transformer_shape(with(R"("vocab_size": 100)"), spec),
                       "model.decoder: vocab_size: 100, but the number of bins of all decisions is 12; remove it",
                       ConfigError);
  CHECK_THROWS_WITH_AS(token_transformer_shape(with(R"("max_position_embeddings": 4)"), spec),
                       "model.decoder: max_position_embeddings: 4, but the number of decisions is 3; remove it",
                       ConfigError);
  CHECK_THROWS_WITH_AS(token_transformer_shape(with(R"("tie_word_embeddings": true)"), spec),
                       doctest::Contains("tie_word_embeddings: true"), ConfigError);
  EnvSpec continuous = env_of({{"state", DType::f32, {3}}});
  continuous.action.kind = ActionKind::continuous;
  continuous.action.low = {-1.0f};
  continuous.action.high = {1.0f};
  CHECK_THROWS_WITH_AS(token_transformer_shape(transformer_config(), continuous),
                       doctest::Contains("model.kind: \"token_transformer\" decides among tokens"), ConfigError);
}
