// Tests of Batched<> with rows that fail in different ways.
#include "envs/batched.h"

#include <cmath>

#include "tests/envs/faulty_env.h"
#include "tests/envs/fixtures.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

namespace {

struct Pair {  // two rows: action 0 of the first never fails, action 1 of the second fails
  Batched<Faulty> env;
  EnvStep step;
  Pair(Faulty::Options options, int32_t limit = 0) : env(Faulty::spec(limit), 2, options) {
    step = EnvStep::allocate(env.spec(), 2);
    env.reset(1, 0, step);
  }
  void advance() { env.step(Array::of<int32_t>({2, 1, 1}, {0, 1}), step); }
  uint8_t failed(size_t i) const { return step.failed.view<uint8_t>()[i]; }
  float count(size_t i) const { return step.observations[0].second.view<float>()[i]; }
};

// Observes -2 in each floating-point dtype, and infinity in number `bad` of them after the first step.
class ManyDTypes {
 public:
  struct Options {
    size_t bad = 99;
  };
  struct State {
    int32_t count = 0;
  };
  State state;
  explicit ManyDTypes(const Options& options) : bad_(options.bad) {}
  static EnvSpec spec() {
    EnvSpec spec;
    spec.id = "ManyDTypes";
    spec.observations = {
        {"f16", DType::f16, {3}}, {"bf16", DType::bf16, {3}}, {"f32", DType::f32, {3}}, {"f64", DType::f64, {3}}};
    spec.action.bins = {2};
    return spec;
  }
  void reset(Rng&) { state.count = 0; }
  RowStep step(int32_t, Rng&) {
    ++state.count;
    return {};
  }
  void observe(RowWriter out) const {
    const auto value = [this](size_t i) { return state.count > 0 && i == bad_ ? -INFINITY : -2.0f; };
    out.array<Float16>(0)[1] = to_float16(value(0));
    out.array<BFloat16>(1)[1] = to_bfloat16(value(1));
    out.array<float>(2)[1] = value(2);
    out.array<double>(3)[1] = value(3);
  }

 private:
  size_t bad_;
};

}  // namespace

TEST_CASE("batched: if a row throws, only this row fails, with a one-line error, and it is restarted") {
  Pair pair({.failure = Faulty::Failure::throws});
  pair.advance();
  pair.advance();
  CHECK(pair.failed(0) == 0);
  CHECK(pair.failed(1) == 1);
  CHECK(pair.count(0) == 2);
  CHECK(pair.count(1) == 0);
  REQUIRE(pair.step.errors.size() == 1);
  CHECK(pair.step.errors[0].find("row 1: first second x") == 0);
  CHECK(pair.step.errors[0].size() <= 300);
  pair.advance();
  CHECK(pair.failed(1) == 0);
  CHECK(pair.count(1) == 1);
  CHECK(pair.step.errors.empty());
}

TEST_CASE("batched: unknown exceptions, NaN, infinity and wrong dtypes are failures with specific errors") {
  const std::vector<std::pair<Faulty::Failure, std::string>> cases{
      {Faulty::Failure::throws_int, "unknown type"},
      {Faulty::Failure::nan_reward, "reward nan is not finite"},
      {Faulty::Failure::infinite_observation, "observation count is not finite"},
      {Faulty::Failure::wrong_dtype, "written as uint8"}};
  for (const auto& [failure, text] : cases) {
    Pair pair({.failure = failure});
    pair.advance();
    if (failure != Faulty::Failure::wrong_dtype) pair.advance();
    CHECK(pair.failed(1) == 1);
    CHECK(pair.step.rewards.view<float>()[1] == 0.0f);
    CHECK(pair.count(1) == 0.0f);
    REQUIRE(!pair.step.errors.empty());
    CHECK(pair.step.errors.back().find(text) != std::string::npos);
  }
}

TEST_CASE("batched: observations may have any floating-point dtype, and infinity is detected in each") {
  for (size_t bad = 0; bad <= 4; ++bad) {
    CAPTURE(bad);
    Batched<ManyDTypes> env(ManyDTypes::spec(), 1, {.bad = bad});
    EnvStep out = EnvStep::allocate(env.spec(), 1);
    env.reset(1, 0, out);
    CHECK(to_float(out.observations[0].second.view<Float16>()[1]) == -2.0f);
    CHECK(to_float(out.observations[1].second.view<BFloat16>()[1]) == -2.0f);
    env.step(Array::of<int32_t>({1, 1, 1}, {0}), out);
    REQUIRE(out.errors.size() == (bad < 4 ? 1 : 0));
    if (bad < 4) CHECK(out.errors[0] == "row 0: observation " + env.spec().observations[bad].name + " is not finite");
  }
}

TEST_CASE("batched: a row that cannot start shows zeros, is retried at every step, and recovers") {
  bool healed = false;
  Pair pair({.failure = Faulty::Failure::reset_throws, .healed = &healed});
  CHECK(pair.failed(0) == 1);
  CHECK(pair.failed(1) == 1);
  CHECK(pair.step.errors.size() == 2);
  scribble(pair.step, 0x55);
  pair.advance();
  CHECK(pair.failed(0) == 1);
  CHECK(pair.count(0) == 0.0f);
  CHECK(pair.step.errors.size() == 2);
  healed = true;
  pair.advance();
  CHECK(pair.failed(0) == 2);
  CHECK(pair.step.executed.view<int32_t>()[0] == 0);
  CHECK(pair.step.errors.empty());
  pair.advance();
  CHECK(pair.failed(0) == 0);
  CHECK(pair.count(0) == 1.0f);
}

TEST_CASE("batched: if a row cannot begin the next episode, the step that ended the last one is valid") {
  bool healed = true;
  Pair pair({Faulty::Failure::reset_throws, 0, &healed}, /*limit=*/3);
  healed = false;
  for (int t = 0; t < 3; ++t) pair.advance();
  for (size_t i = 0; i < 2; ++i) {
    CHECK(pair.failed(i) == 0);
    CHECK(pair.step.truncated.view<uint8_t>()[i] == 1);
    CHECK(pair.step.rewards.view<float>()[i] == 1.0f);
    CHECK(pair.step.executed.view<int32_t>()[i] == 1);
    CHECK(pair.step.final_observations[0].second.view<float>()[i] == 3);
    CHECK(pair.count(i) == 0);
  }
  CHECK(pair.step.errors == std::vector<std::string>{"row 0: no licence", "row 1: no licence"});
  pair.advance();
  CHECK(pair.failed(0) == 1);  // it still cannot
  CHECK(pair.step.errors.size() == 2);
  healed = true;
  pair.advance();
  CHECK(pair.failed(0) == 2);
  pair.advance();
  CHECK(pair.failed(0) == 0);
  CHECK(pair.count(0) == 1);
}

TEST_CASE("batched: a row that restarted after a failure and then rests is not reset again") {
  int resets = 0;
  Pair pair({.failure = Faulty::Failure::throws, .resets = &resets});
  pair.advance();
  pair.advance();
  REQUIRE(pair.failed(1) == 1);
  CHECK(resets == 3);
  std::string bytes;
  for (const bool active : {false, true}) {
    pair.env.set_active(1, active);
    REQUIRE(pair.env.save(bytes));
    REQUIRE(pair.env.load(bytes));
    pair.advance();
    CHECK(pair.failed(1) == 2);
    CHECK(pair.count(1) == 0);
  }
  CHECK(resets == 3);
  pair.advance();
  CHECK(pair.failed(1) == 0);
  CHECK(pair.count(1) == 1);
  const int before = resets;
  for (const bool active : {false, true}) pair.env.set_active(1, active);
  pair.advance();
  CHECK(pair.count(1) == 0);  // a row in the middle of an episode begins another one
  CHECK(resets == before + 1);
}

TEST_CASE("batched: the time limit truncates, and a terminal state at the limit counts as terminated") {
  Pair four({}, 4), five({}, 5);
  for (int t = 0; t < 4; ++t) four.advance();
  CHECK(four.step.truncated.view<uint8_t>()[0] == 1);
  CHECK(four.step.terminated.view<uint8_t>()[0] == 0);
  CHECK(four.step.final_observations[0].second.view<float>()[0] == 4.0f);
  CHECK(four.count(0) == 0.0f);
  for (int t = 0; t < 5; ++t) five.advance();
  CHECK(five.step.terminated.view<uint8_t>()[0] == 1);
  CHECK(five.step.truncated.view<uint8_t>()[0] == 0);
  CHECK(five.step.success.view<uint8_t>()[0] == 1);
  CHECK(five.step.final_observations[0].second.view<float>()[0] == 5.0f);
}

TEST_CASE("batched: a chunk stops at the end of the episode and sums the executed rewards") {
  Batched<Faulty> env(Faulty::spec(0, 3), 1, {});
  EnvStep step = EnvStep::allocate(env.spec(), 1);
  env.reset(1, 0, step);
  const Array actions(DType::i32, {1, 3, 1});
  env.step(actions, step);
  CHECK(step.executed.view<int32_t>()[0] == 3);
  CHECK(step.rewards.view<float>()[0] == 3.0f);
  env.step(actions, step);
  CHECK(step.executed.view<int32_t>()[0] == 2);
  CHECK(step.rewards.view<float>()[0] == 2.0f);
  CHECK(step.terminated.view<uint8_t>()[0] == 1);
}

TEST_CASE("batched: a failure inside a chunk makes the whole chunk invalid") {
  Batched<Faulty> env(Faulty::spec(0, 3), 1, {.failure = Faulty::Failure::throws});
  EnvStep step = EnvStep::allocate(env.spec(), 1);
  env.reset(1, 0, step);
  env.step(Array::of<int32_t>({1, 3, 1}, {1, 1, 1}), step);
  CHECK(step.failed.view<uint8_t>()[0] == 1);
  CHECK(step.executed.view<int32_t>()[0] == 0);
  CHECK(step.rewards.view<float>()[0] == 0.0f);
}

// Its mask allows one action until step 2 of an episode, and then none for the second choice.
class Stuck {
 public:
  static EnvSpec spec() {
    EnvSpec spec;
    spec.id = "Stuck";
    spec.observations = {{"o", DType::f32, {1}}};
    spec.action = {ActionKind::multi_discrete, {2, 3}, {}, {}, 1, true};
    return spec;
  }
  void reset(Rng&) { steps_ = 0; }
  RowStep step(std::span<const int32_t>, Rng&) {
    ++steps_;
    return {};
  }
  void observe(RowWriter out) const { out.array<float>()[0] = 0; }
  void mask(std::span<uint8_t> allowed) const {
    std::ranges::fill(allowed, uint8_t{0});
    allowed[1] = 1;
    if (steps_ < 2) allowed[4] = 1;
  }

 private:
  int32_t steps_ = 0;
};

TEST_CASE("batched: a row whose mask allows no action fails and is restarted") {
  Batched<Stuck> env(Stuck::spec(), 1);
  EnvStep step = EnvStep::allocate(env.spec(), 1);
  env.reset(1, 0, step);
  const Array actions = Array::of<int32_t>({1, 1, 2}, {1, 2});
  const std::vector<uint8_t> allowed = {0, 1, 0, 0, 1};
  for (int episode = 0; episode < 3; ++episode) {
    env.step(actions, step);
    CHECK(step.failed.view<uint8_t>()[0] == 0);
    env.step(actions, step);
    CHECK(step.failed.view<uint8_t>()[0] == static_cast<uint8_t>(Failed::now));
    REQUIRE(step.errors.size() == 1);
    CHECK(step.errors[0].ends_with("the action mask allows no action for choice 1"));
    CHECK(std::ranges::equal(step.action_mask.view<uint8_t>(), allowed));
  }
}
