#include "models/policy.h"

#include <cmath>

#include "models/heads/heads.h"
#include "runtime/base/errors.h"
#include "tests/models/learning/batches.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

TEST_CASE("policy: weights with another signature or size are refused, and the old weights are kept") {
  Pair pair(small_config(), discrete_spec()), other(small_config(), masked_spec());
  const Array before = pair.policy->act(one_input(pair.spec, 2)).log_probs;
  CHECK_THROWS_WITH_AS(pair.policy->load(*other.learner->snapshot({0, 3})),
                       "weights 0.3: tensor 4 is policy parameter policy.head.bias float32 [3] here and policy "
                       "parameter policy.head.bias "
                       "float32 [4] there",
                       ConfigError);
  auto cut = std::make_shared<WeightSnapshot>(*pair.learner->snapshot({0, 4}));
  cut->flat = cut->flat.slice(0, cut->flat.shape()[0] - 1);
  CHECK_THROWS_WITH_AS(pair.policy->load(*cut), doctest::Contains("bytes, expected"), ConfigError);
  CHECK(pair.policy->act(one_input(pair.spec, 2)).log_probs == before);
}

TEST_CASE("policy: a policy that has loaded no weights acts with the initial weights of the learner") {
  RunConfig config = small_config();
  config.model.normalize_observations = config.model.normalize_returns = true;
  const Pair pair(config, continuous_spec());
  const auto loaded = make_policy(pair.config, pair.spec), valued = make_policy(pair.config, pair.spec);
  loaded->load(*pair.learner->snapshot({0, 1}));
  const ActInput input = one_input(pair.spec, 3);
  const ActOutput first = pair.policy->act(input), wanted = loaded->act(input);
  CHECK(first.actions == wanted.actions);
  CHECK(first.log_probs == wanted.log_probs);
  CHECK(first.values == wanted.values);
  CHECK(valued->values(input.observations) == loaded->values(input.observations));
}

TEST_CASE("policy: the error about numbers that are not finite has the number of the row") {
  Pair pair(small_config(), discrete_spec());
  ActInput input = one_input(pair.spec, 4);
  input.observations.at("state").mutable_view<float>()[2 * 5 + 1] = nan();
  CHECK_THROWS_WITH(pair.policy->act(input), doctest::Contains("sample 2 is not finite"));
  CHECK_THROWS_WITH(pair.policy->values(input.observations), doctest::Contains("row 2 is not finite"));
}

TEST_CASE("policy: an observation of the wrong shape is refused by name") {
  Pair pair(small_config(), discrete_spec());
  ActInput input = one_input(pair.spec, 4);
  input.observations.set("state", Array(DType::f32, {4, 6}));
  CHECK_THROWS_WITH(pair.policy->act(input), doctest::Contains("observation state is float32 [4, 6]"));
}

TEST_CASE("policy: a row acts the same in a batch of any size") {
  Pair pair(small_config(), discrete_spec());
  ActInput all = one_input(pair.spec, 64), one = one_input(pair.spec, 1);
  std::iota(all.seeds.mutable_view<int64_t>().begin(), all.seeds.mutable_view<int64_t>().end(), 0);
  const ActOutput together = pair.policy->act(all);
  for (int64_t i : {0, 17, 63}) {
    one.observations.set("state", all.observations.at("state").slice(i, i + 1));
    one.seeds = all.seeds.slice(i, i + 1);
    const ActOutput alone = pair.policy->act(one);
    CHECK(alone.actions.view<int32_t>()[0] == together.actions.view<int32_t>()[i]);
    CHECK(alone.log_probs.view<float>()[0] == doctest::Approx(together.log_probs.view<float>()[i]).epsilon(1e-5));
  }
}

TEST_CASE("policy: bytes are read as numbers from 0 to 1, in the order of the spec") {
  EnvSpec spec = discrete_spec();
  spec.observations = {{"image", DType::u8, {2, 2}}, {"state", DType::f32, {1}}};
  EnvSpec flat = discrete_spec();
  const auto policy = make_policy(small_config(), spec), plain = make_policy(small_config(), flat);
  ActInput mixed = one_input(spec, 1), numbers = one_input(flat, 1);
  mixed.observations = {{"state", Array::of<float>({1, 1}, {0.25f})},
                        {"image", Array::of<uint8_t>({1, 2, 2}, {0, 51, 102, 255})}};
  numbers.observations = {{"state", Array::of<float>({1, 5}, {0.0f, 0.2f, 0.4f, 1.0f, 0.25f})}};
  CHECK(policy->act(mixed).values.view<float>()[0] == doctest::Approx(plain->act(numbers).values.view<float>()[0]));
}

TEST_CASE("policy: 16-bit floating-point observations give the same outputs as float32") {
  EnvSpec spec = discrete_spec();
  spec.observations = {{"half", DType::f16, {2}}, {"brain", DType::bf16, {3}}};
  EnvSpec flat = discrete_spec();
  const auto policy = make_policy(small_config(), spec), plain = make_policy(small_config(), flat);
  ActInput mixed = one_input(spec, 1), numbers = one_input(flat, 1);
  mixed.observations = {
      {"half", Array::of<Float16>({1, 2}, {to_float16(0.5f), to_float16(-2.0f)})},
      {"brain", Array::of<BFloat16>({1, 3}, {to_bfloat16(1.0f), to_bfloat16(0.0f), to_bfloat16(-0.75f)})}};
  numbers.observations = {{"state", Array::of<float>({1, 5}, {0.5f, -2.0f, 1.0f, 0.0f, -0.75f})}};
  CHECK(policy->act(mixed).values == plain->act(numbers).values);
}

TEST_CASE("policy: requested policy parameters give the log-probabilities of the actions") {
  for (const EnvSpec& spec : {token_spec(), continuous_spec()}) {
    Pair pair(small_config(), spec);
    ActInput input = one_input(spec, 5);
    const ActOutput without = pair.policy->act(input);
    CHECK(without.policy_parameters.empty());
    input.with_parameters = true;
    const ActOutput output = pair.policy->act(input);
    CHECK(output.actions == without.actions);
    CHECK(output.policy_parameters.shape() == Shape{5, spec.action.policy_parameters()});
    // Computes the log-probabilities of the actions from the parameters.
    const Head head(spec.action);
    std::vector<float> outputs, log_std, log_probs(5 * head.decisions()), entropy(5);
    for (int64_t row = 0; row < 5; ++row) {
      const auto of_row = output.policy_parameters.at(row).view<float>();
      outputs.insert(outputs.end(), of_row.begin(), of_row.begin() + head.outputs());
      log_std.assign(of_row.begin() + head.outputs(), of_row.end());
    }
    HeadInput head_input;
    head_input.samples = 5;
    head_input.outputs = outputs;
    head_input.log_std = log_std;
    ActionsView actions;
    if (head.continuous())
      actions.continuous = output.actions.view<float>();
    else
      actions.discrete = output.actions.view<int32_t>();
    HeadScratch scratch;
    head.evaluate(head_input, actions, log_probs, entropy, scratch);
    for (size_t i = 0; i < log_probs.size(); ++i)
      CHECK(log_probs[i] == doctest::Approx(output.log_probs.view<float>()[i]).epsilon(1e-6));
  }
}

TEST_CASE("policy: a request without rows gives no actions and no values") {
  Pair pair(small_config(), continuous_spec());
  CHECK(pair.policy->act(one_input(pair.spec, 0)).actions.shape() == Shape{0, 1, 2});
  CHECK(pair.policy->values(one_input(pair.spec, 0).observations).size() == 0);
}
