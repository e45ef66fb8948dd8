#include "actors/experience/grid/rollout_writer.h"

#include "tests/support/test.h"

using namespace troupe;

namespace {

EnvSpec tiny_spec() {
  EnvSpec spec;
  spec.id = "tiny";
  spec.observations = {{"o", DType::f32, {1}}};
  spec.action = {ActionKind::discrete, {2}, {}, {}, 1, false};
  return spec;
}

struct Fixture {
  Fixture(int64_t steps, int64_t rows) : writer(spec, steps, rows), step(EnvStep::allocate(spec, rows)), rows(rows) {
    algorithm.gamma = 0.5;
    algorithm.lambda = 1.0;
  }
  void policy(int64_t t, std::initializer_list<float> values, uint64_t version = 0) {
    writer.record_policy(t, Array(DType::i32, {rows, 1, 1}), Array(DType::f32, {rows, 1}),
                         Array::of<float>({rows}, values), {0, version});
  }
  void env(int64_t t, std::initializer_list<float> rewards, std::initializer_list<uint8_t> terminated,
           std::initializer_list<uint8_t> truncated, std::initializer_list<int32_t> executed) {
    std::ranges::copy(rewards, step.rewards.mutable_view<float>().begin());
    std::ranges::copy(terminated, step.terminated.mutable_view<uint8_t>().begin());
    std::ranges::copy(truncated, step.truncated.mutable_view<uint8_t>().begin());
    std::ranges::copy(executed, step.executed.mutable_view<int32_t>().begin());
    writer.record_step(t, step, 1.0, 0.0);
  }
  std::vector<float> advantages() {
    rollout = writer.close(algorithm, 1, 0);
    const auto view = rollout->grid().advantages.view<float>();
    return {view.begin(), view.end()};
  }

  EnvSpec spec = tiny_spec();
  AlgorithmConfig algorithm;
  RolloutWriter writer;
  EnvStep step;
  int64_t rows;
  RolloutPtr rollout;
};

}  // namespace

TEST_CASE("rollout_writer: the last step bootstraps from the values of the observation after it") {
  Fixture f(2, 1);
  f.policy(0, {1});
  f.env(0, {1}, {0}, {0}, {1});
  f.policy(1, {2});
  f.env(1, {1}, {0}, {0}, {1});
  f.writer.set_last_values(Array::of<float>({1}, {4.0f}));
  // delta1 = 1 + .5*4 - 2 = 1, delta0 = 1 + .5*2 - 1 = 1, A0 = 1 + .5*1
  CHECK(f.advantages() == std::vector<float>{1.5f, 1.0f});
}

TEST_CASE("rollout_writer: a terminated episode has next value 0, a truncated one that of its final observation") {
  Fixture f(1, 2);
  f.policy(0, {1, 1});
  f.env(0, {1, 1}, {1, 0}, {0, 1}, {1, 1});
  f.writer.set_next_value(0, 1, 8);
  f.writer.set_last_values(Array::of<float>({2}, {100.0f, 100.0f}));  // values of the new episodes, not used
  CHECK(f.advantages() == std::vector<float>{0.0f, 4.0f});
}

TEST_CASE("rollout_writer: a failed step is masked, and the segment before it bootstraps from its observation") {
  Fixture f(3, 1);
  f.policy(0, {1});
  f.env(0, {1}, {0}, {0}, {1});
  f.policy(1, {6});
  f.env(1, {0}, {0}, {0}, {0});
  f.policy(2, {1});
  f.env(2, {1}, {1}, {0}, {1});
  const auto advantages = f.advantages();
  CHECK(advantages[0] == doctest::Approx(1 + .5 * 6 - 1));
  CHECK(advantages[1] == 0.0f);
  CHECK(advantages[2] == 0.0f);
  CHECK(f.rollout->samples == 2);
  CHECK(f.rollout->grid().valid.view<uint8_t>()[1] == 0);
  CHECK(f.rollout->grid().truncated.view<uint8_t>()[0] == 1);
}

TEST_CASE("rollout_writer: oldest and newest are the extreme versions of the valid steps") {
  Fixture f(3, 1);
  for (int64_t t = 0; t < 3; ++t) {
    f.policy(t, {0}, static_cast<uint64_t>(5 + t));
    f.env(t, {0}, {0}, {0}, {t == 0 ? 0 : 1});
  }
  f.advantages();
  CHECK(f.rollout->oldest == 6);
  CHECK(f.rollout->newest == 7);
}

TEST_CASE("rollout_writer: rewards are scaled, then clipped") {
  Fixture f(1, 2);
  f.policy(0, {0, 0});
  std::ranges::copy(std::initializer_list<float>{1.0f, 100.0f}, f.step.rewards.mutable_view<float>().begin());
  std::ranges::fill(f.step.executed.mutable_view<int32_t>(), 1);
  f.writer.record_step(0, f.step, 0.1, 2.0);
  f.advantages();
  CHECK(f.rollout->grid().rewards.view<float>()[0] == doctest::Approx(0.1f));
  CHECK(f.rollout->grid().rewards.view<float>()[1] == 2.0f);
}

TEST_CASE("rollout_writer: a rollout has final and last observations, for estimators that recompute values") {
  Fixture f(1, 2);
  f.policy(0, {0, 0});
  f.env(0, {0, 0}, {0, 0}, {0, 1}, {1, 1});
  std::ranges::copy(std::initializer_list<float>{7.0f, 9.0f},
                    f.step.final_observations.at("o").mutable_view<float>().begin());
  f.writer.keep_final(0, 1, f.step.final_observations);
  f.writer.keep_last(f.step.observations);
  f.advantages();
  CHECK(f.rollout->grid().final_observations.at("o") == Array::of<float>({1, 1}, {9.0f}));
  CHECK(f.rollout->grid().final_steps == Array::of<int32_t>({1, 2}, {0, 1}));
  CHECK(f.rollout->grid().last_observations.at("o").shape() == Shape{2, 1});
}

TEST_CASE("rollout_writer: only the estimates that the algorithm takes from rollouts are computed") {
  const auto closed = [](const char* advantage) {
    Fixture f(3, 2);
    f.algorithm.advantage = advantage;
    f.algorithm.lambda = 0.9;
    for (int64_t t = 0; t < 3; ++t) {
      f.policy(t, {0.3f, -1.7f});
      f.env(t, {1.1f, 2.3f}, {0, t == 1}, {0, 0}, {1, 1});
    }
    f.writer.set_last_values(Array::of<float>({2}, {4.0f, 5.0f}));
    f.advantages();
    return f.rollout;
  };
  const RolloutPtr gae = closed("gae"), sequences = closed("rloo"), vtrace = closed("vtrace");
  CHECK(gae->grid().advantages.shape() == Shape{3, 2});
  CHECK(sequences->grid().advantages.empty());
  CHECK(sequences->grid().returns == gae->grid().returns);  // the value targets, byte for byte
  CHECK(vtrace->grid().advantages.empty());
  CHECK(vtrace->grid().returns.empty());
  CHECK(vtrace->grid().next_values == gae->grid().next_values);
}

TEST_CASE("rollout_writer: policy parameters are stored per step, and are empty if none were recorded") {
  Fixture f(2, 2);
  for (int64_t t = 0; t < 2; ++t) {
    f.policy(t, {0, 0});
    const float first = static_cast<float>(10 * t);
    f.writer.record_parameters(t, Array::of<float>({2, 2}, {first, first + 1, first + 2, first + 3}));
    f.env(t, {0, 0}, {0, 0}, {0, 0}, {1, 1});
  }
  f.advantages();
  CHECK(f.rollout->grid().policy_parameters == Array::of<float>({2, 2, 2}, {0, 1, 2, 3, 10, 11, 12, 13}));
  CHECK(RolloutWriter(tiny_spec(), 2, 1).close({}, 1, 0)->grid().policy_parameters.empty());
}

TEST_CASE("rollout_writer: the number of executed steps of a chunk is stored, 0 for a row that failed") {
  EnvSpec spec = tiny_spec();
  CHECK(RolloutWriter(spec, 2, 1).close({}, 1, 0)->grid().executed.empty());  // one step per action: always executed
  spec.action.chunk = 4;
  RolloutWriter writer(spec, 2, 3);
  EnvStep step = EnvStep::allocate(spec, 3);
  const std::vector<std::vector<int32_t>> executed = {{4, 1, 0}, {3, 4, 2}};
  for (int64_t t = 0; t < 2; ++t) {
    writer.record_policy(t, Array(DType::i32, {3, 4, 1}), Array(DType::f32, {3, 4}), Array(DType::f32, {3}), {});
    std::ranges::copy(executed[static_cast<size_t>(t)], step.executed.mutable_view<int32_t>().begin());
    writer.record_step(t, step, 1.0, 0.0);
  }
  const RolloutPtr rollout = writer.close({}, 1, 0);
  CHECK(rollout->grid().executed == Array::of<int32_t>({2, 3}, {4, 1, 0, 3, 4, 2}));
  CHECK(rollout->env_steps == 14);
  CHECK(rollout->samples == 5);
}
