#include "envs/observation_ranges.h"

#include <stdexcept>

#include "envs/batched.h"
#include "tests/support/test.h"

using namespace troupe;

namespace {

// An environment whose observation is the token that the action selects.
class Tokens {
 public:
  enum Action : int32_t { next, too_large, negative, throws, ends, ends_too_large };
  struct State {
    int32_t token = 0;
  };
  State state;
  static inline int32_t first = 0;

  static EnvSpec spec() {
    EnvSpec spec;
    spec.id = "Tokens";
    spec.observations = {{"place", DType::f32, {1}}, {"tokens", DType::i32, {2}}, {"large", DType::i64, {1}}};
    spec.action.bins = {6};
    return spec;
  }
  void reset(Rng&) { state.token = first; }
  RowStep step(int32_t action, Rng&) {
    if (action == throws) throw std::runtime_error("thrown");
    const bool outside = action == too_large || action == ends_too_large;
    state.token = outside ? 3 : action == negative ? -1 : (state.token + 1) % 3;
    return {.reward = 1.0f, .terminated = action == ends || action == ends_too_large};
  }
  void observe(RowWriter out) const {
    out.array<float>(0)[0] = 1.0f;
    out.array<int32_t>(1)[0] = 0;
    out.array<int32_t>(1)[1] = state.token;
    out.array<int64_t>(2)[0] = int64_t{1} << (state.token == 3 ? 40 : 0);
  }
};

struct Fixture {
  explicit Fixture(int64_t rows, size_t observation = 1, int32_t first = 0) {
    Tokens::first = first;
    env = with_ranges(std::make_unique<Batched<Tokens>>(Tokens::spec(), rows), {{observation, 3, "a table of 3"}});
    out = EnvStep::allocate(env->spec(), rows);
    env->reset(1, 0, out);
  }
  void step(std::initializer_list<int32_t> actions) {
    env->step(Array::of<int32_t>({static_cast<int64_t>(actions.size()), 1, 1}, actions), out);
  }
  Failed failed(size_t row) const { return static_cast<Failed>(out.failed.view<uint8_t>()[row]); }
  int32_t token(size_t row) const { return out.observations.at("tokens").view<int32_t>()[2 * row + 1]; }
  float place(size_t row) const { return out.observations.at("place").view<float>()[row]; }

  std::unique_ptr<Env> env;
  EnvStep out;
};

}  // namespace

TEST_CASE("observation_ranges: a row outside its range fails with a specific error; the other rows continue") {
  Fixture f(4);
  CHECK(f.out.errors.empty());
  f.step({Tokens::next, Tokens::too_large, Tokens::throws, Tokens::negative});
  CHECK(f.out.errors == std::vector<std::string>{
                            "row 1: observation tokens contains 3, expected 0 to 2 (a table of 3)", "row 2: thrown",
                            "row 3: observation tokens contains -1, expected 0 to 2 (a table of 3)"});
  CHECK(f.failed(0) == Failed::no);
  CHECK(f.token(0) == 1);
  CHECK(f.out.rewards.view<float>()[0] == 1.0f);
  for (const size_t row : {size_t{1}, size_t{3}}) {
    CAPTURE(row);
    CHECK(f.failed(row) == Failed::now);
    CHECK(f.token(row) == 0);
    CHECK(f.place(row) == 0.0f);
    CHECK(f.out.rewards.view<float>()[row] == 0.0f);
    CHECK(f.out.executed.view<int32_t>()[row] == 0);
  }
}

TEST_CASE("observation_ranges: a failed row starts a new episode at the next step, unless it is inactive") {
  Fixture f(2);
  f.step({Tokens::next, Tokens::next});
  f.step({Tokens::too_large, Tokens::too_large});
  f.env->set_active(1, false);
  f.step({Tokens::next, Tokens::next});
  CHECK(f.failed(0) == Failed::idle);
  CHECK(f.token(0) == 0);
  CHECK(f.place(0) == 1.0f);
  CHECK(f.place(1) == 0.0f);
  f.step({Tokens::next, Tokens::next});
  CHECK(f.failed(0) == Failed::no);
  CHECK(f.token(0) == 1);
  CHECK(f.failed(1) == Failed::idle);
  f.env->set_active(1, true);
  f.step({Tokens::next, Tokens::next});
  CHECK(f.place(1) == 1.0f);
  f.step({Tokens::next, Tokens::next});
  CHECK(f.failed(1) == Failed::no);
}

TEST_CASE("observation_ranges: the final observation is checked too, and makes its step invalid") {
  Fixture f(2);
  f.step({Tokens::ends, Tokens::ends_too_large});
  CHECK(f.failed(0) == Failed::no);
  CHECK(f.out.terminated.view<uint8_t>()[0] == 1);
  CHECK(f.failed(1) == Failed::now);
  CHECK(f.out.terminated.view<uint8_t>()[1] == 0);
  CHECK(f.out.errors.size() == 1);
  f.step({Tokens::next, Tokens::next});  // the final observation of the ended episode is not checked again
  CHECK(f.out.errors.empty());
}

TEST_CASE(
    "observation_ranges: if only the next episode begins outside the range, the step that ended the last counts") {
  Fixture f(2);
  Tokens::first = 3;
  f.step({Tokens::next, Tokens::ends});
  CHECK(f.failed(1) == Failed::no);
  CHECK(f.out.terminated.view<uint8_t>()[1] == 1);
  CHECK(f.out.rewards.view<float>()[1] == 1.0f);
  CHECK(f.token(1) == 0);
  CHECK(f.out.errors ==
        std::vector<std::string>{"row 1: observation tokens contains 3, expected 0 to 2 (a table of 3)"});
  f.step({Tokens::next, Tokens::next});
  CHECK(f.failed(1) == Failed::now);
  Tokens::first = 0;
  f.step({Tokens::next, Tokens::next});
  CHECK(f.failed(1) == Failed::idle);
  CHECK(f.out.errors.empty());
}

TEST_CASE("observation_ranges: a row whose episodes start outside the range fails at every step") {
  Fixture f(1, 1, 3);
  for (int i = 0; i < 3; ++i) {
    REQUIRE(f.out.errors.size() == 1);
    CHECK(f.failed(0) == Failed::now);
    CHECK(f.token(0) == 0);
    f.step({Tokens::next});
  }
}

TEST_CASE("observation_ranges: 64-bit integers are not truncated") {
  Fixture f(1, 2);
  f.step({Tokens::too_large});
  REQUIRE(f.out.errors.size() == 1);
  CHECK(f.out.errors[0] == "row 0: observation large contains 1099511627776, expected 0 to 2 (a table of 3)");
}

TEST_CASE("observation_ranges: an environment without ranges is returned unchanged, one with ranges saves and loads") {
  auto plain = std::make_unique<Batched<Tokens>>(Tokens::spec(), 1);
  const Env* before = plain.get();
  CHECK(with_ranges(std::move(plain), {}).get() == before);
  Fixture f(2), other(2);
  f.step({Tokens::next, Tokens::next});
  std::string bytes;
  REQUIRE(f.env->save(bytes));
  REQUIRE(other.env->load(bytes));
  other.env->observe(other.out);
  CHECK(other.token(1) == 1);
}

TEST_CASE("observation_ranges: an episode that began singly and fails is inactive until another one begins") {
  Tokens::first = 0;
  const auto env = with_ranges(std::make_unique<Batched<Tokens>>(Tokens::spec(), 2), {{1, 3, "a table of 3"}});
  EnvStep out = EnvStep::allocate(env->spec(), 2);
  const auto step = [&](int32_t action) { env->step(Array::of<int32_t>({2, 1, 1}, {action, action}), out); };
  REQUIRE(env->play_singly(1));
  for (const int32_t action : {Tokens::too_large, Tokens::ends_too_large, Tokens::throws}) {
    env->begin_episode(1, 3);
    step(Tokens::next);
    CHECK(out.failed == Array::of<uint8_t>({2}, {2, 2}));
    step(action);
    CHECK(out.failed == Array::of<uint8_t>({2}, {2, 1}));
    CHECK(out.errors.size() == 1);
    step(Tokens::next);
    CHECK(out.failed == Array::of<uint8_t>({2}, {2, 2}));
  }
  Tokens::first = 3;
  env->begin_episode(0, 3);
  step(Tokens::next);
  CHECK(out.failed == Array::of<uint8_t>({2}, {1, 2}));
  step(Tokens::next);
  CHECK(out.failed == Array::of<uint8_t>({2}, {2, 2}));
  Tokens::first = 0;
}
