// Batched<>: the errors about invalid specs, and the memory that steps allocate.
#include "envs/batched.h"

#include <cstdlib>
#include <functional>
#include <limits>
#include <new>

#include "tests/envs/faulty_env.h"
#include "tests/envs/fixtures.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

namespace {

size_t allocations = 0;

}  // namespace

#if !defined(__SANITIZE_ADDRESS__)
[[gnu::noinline]] void* operator new(size_t bytes) {
  ++allocations;
  if (void* place = std::malloc(bytes)) return place;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* place) noexcept { std::free(place); }
[[gnu::noinline]] void operator delete(void* place, size_t) noexcept { std::free(place); }
#endif

TEST_CASE("batched: the error about an invalid spec is one line and names the mistake") {
  using Change = std::function<void(EnvSpec&)>;
  const auto build = [](const Change& change, int64_t rows = 1) {
    EnvSpec spec = Faulty::spec(1);
    spec.id = "Broken";
    change(spec);
    Batched<Faulty> env(spec, rows, {});
  };
  build([](EnvSpec&) {});
  CHECK_THROWS_AS(build([](EnvSpec&) {}, 0), InvariantError);
  const auto continuous = [](const std::vector<float>& low, const std::vector<float>& high) {
    return [low, high](EnvSpec& spec) {
      spec.action = {.kind = ActionKind::continuous, .bins = {}, .low = low, .high = high};
    };
  };
  const auto shaped = [](const Shape& shape) { return [shape](EnvSpec& spec) { spec.observations[0].shape = shape; }; };
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::string name = Faulty::spec(1).observations[0].name;
  struct Case {
    Change change;
    std::string text;
  };
  for (const Case& c : std::vector<Case>{
           {[](EnvSpec& s) { s.observations.clear(); },
            "there is no observation, expected at least one (EnvSpec::observations)"},
           {[](EnvSpec& s) { s.observations.push_back(s.observations[0]); },
            "two observations are named \"" + name + "\" (EnvSpec::observations)"},
           {[](EnvSpec& s) { s.observations[0].name.clear(); },
            "an observation has an empty name (EnvSpec::observations)"},
           {shaped({3, 0}), "observation \"" + name + "\" has the shape [3, 0], expected extents of at least 1"},
           {shaped({-1}), "observation \"" + name + "\" has the shape [-1], expected extents of at least 1"},
           {shaped({int64_t{1} << 40, int64_t{1} << 40}), "whose product fits in 63 bits (EnvSpec::observations)"},
           {[](EnvSpec& s) { s.action.bins = {0}; }, "bins contains 0, expected at least 1 (EnvSpec::action)"},
           {[](EnvSpec& s) { s.action.bins.clear(); }, "discrete actions have no bins"},
           {[](EnvSpec& s) { s.action.bins = {2, 2}; },
            "actions of kind discrete have 2 bins, expected one, or the kind multi_discrete (EnvSpec::action)"},
           {[](EnvSpec& s) {
              s.action.bins = {2, 2};
              s.action.kind = ActionKind::multi_discrete;
            },
            "step() takes one choice as int32_t, but the spec has several bins; expected std::span<const int32_t>"},
           {[](EnvSpec& s) { s.action.low = {0}; }, "discrete actions have bounds, expected only bins"},
           {[](EnvSpec& s) { s.action.chunk = 0; }, "the chunk is 0, expected at least 1 (EnvSpec::action)"},
           {[](EnvSpec& s) { s.max_episode_steps = -1; },
            "-1 is negative, expected 0 (no limit) or more (EnvSpec::max_episode_steps)"},
           {[](EnvSpec& s) { s.action.masked = true; }, "masked is true, but the environment has no mask()"},
           {[](EnvSpec& s) {
              s.action.masked = true;
              s.action.chunk = 4;
            },
            "masked actions have a chunk of 4, expected 1"},
           {[](EnvSpec& s) { s.action.kind = ActionKind::continuous; }, "continuous actions have bins"},
           {continuous({}, {}), "continuous actions have no bounds"},
           {continuous({0, 0}, {1}), "continuous actions have 2 low and 1 high bounds, expected as many of each"},
           {continuous({1}, {-1}), "action bound low 1 is not below high -1 (EnvSpec::action)"},
           {continuous({1}, {1}), "action bound low 1 is not below high 1 (EnvSpec::action)"},
           {continuous({nan}, {1}), "the action bounds low nan and high 1 are not both finite (EnvSpec::action)"},
           {continuous({0}, {1}), "step() takes discrete actions, but the kind is continuous (EnvSpec::action)"},
       }) {
    CAPTURE(c.text);
    std::string text = "accepted";
    try {
      build(c.change);
    } catch (const ConfigError& error) {
      text = error.what();
    }
    CAPTURE(text);
    CHECK(text.starts_with("Broken: "));
    CHECK(text.find(c.text) != std::string::npos);
  }
}

TEST_CASE("batched: a step allocates no memory in the steady state") {
  for (const EnvInfo& info : list_environments()) {
    const auto env = make_env(small_config(info.id, 8));
    EnvStep step = EnvStep::allocate(env->spec(), 8);
    env->reset(1, 0, step);
    for (uint64_t t = 0; t < 200; ++t) {
      const Array actions = random_actions(*env, step, t);
      const size_t before = allocations;
      env->step(actions, step);
      const size_t made = allocations - before;
      REQUIRE_MESSAGE(made == 0, info.id);
    }
  }
}
