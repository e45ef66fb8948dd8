#include <chrono>

#include "tests/envs/fixtures.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

namespace {

struct Counts {
  int steps = 0, failed = 0;
  std::string errors;
};

Counts run(const std::string& faults, int64_t rows, uint64_t steps) {
  EnvConfig config;
  config.id = "Synthetic";
  config.rows = rows;
  config.params = R"({"image_height": 2, "image_width": 2, "episode_length": 20)" + faults + "}";
  const auto env = make_env(config);
  EnvStep step = EnvStep::allocate(env->spec(), rows);
  env->reset(1, 0, step);
  Counts counts;
  for (uint64_t t = 0; t < steps; ++t) {
    env->step(random_actions(*env, step, t), step);
    int failed = 0;
    for (uint8_t flag : step.failed.view<uint8_t>()) failed += flag == 1;
    REQUIRE(static_cast<size_t>(failed) == step.errors.size());
    for (float value : step.observations.at("state").view<float>()) REQUIRE(std::abs(value) <= 1.0f);
    for (float value : step.rewards.view<float>()) REQUIRE(value <= 0.0f);
    counts.steps += static_cast<int>(rows);
    counts.failed += failed;
    for (const std::string& error : step.errors) counts.errors += error + '\n';
  }
  return counts;
}

double seconds(const std::string& params, uint64_t steps) {
  const auto start = std::chrono::steady_clock::now();
  run(params, 1, steps);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

TEST_CASE("synthetic: without faults nothing fails") { CHECK(run("", 4, 500).failed == 0); }

TEST_CASE("synthetic: exceptions have the requested frequency, and the other rows continue") {
  const Counts counts = run(R"(, "exception_probability": 0.05)", 8, 2000);
  CHECK(counts.failed == doctest::Approx(0.05 * counts.steps).epsilon(0.15));
  CHECK(counts.errors.find("injected exception") != std::string::npos);
}

TEST_CASE("synthetic: NaN occurs in rewards and observations, and is never passed on") {
  const Counts counts = run(R"(, "nan_probability": 0.05)", 8, 2000);
  CHECK(counts.failed == doctest::Approx(0.05 * counts.steps).epsilon(0.15));
  CHECK(counts.errors.find("reward nan") != std::string::npos);
  CHECK(counts.errors.find("observation state is not finite") != std::string::npos);
}

TEST_CASE("synthetic: a row that fails at every step is reported at every step") {
  const Counts counts = run(R"(, "exception_probability": 1)", 2, 50);
  CHECK(counts.failed == counts.steps);
}

TEST_CASE("synthetic: a step takes the step time, computing or sleeping, and a stall takes its extra time") {
  CHECK(seconds(R"(, "step_us": 2000)", 10) >= 0.02);
  CHECK(seconds(R"(, "step_us": 2000, "step_mode": "sleep")", 10) >= 0.02);
  CHECK(seconds(R"(, "stall_probability": 1, "stall_ms": 3)", 10) >= 0.03);
}

TEST_CASE("synthetic: images differ from frame to frame and from row to row") {
  const auto env = make_env(small_config("Synthetic", 2));
  EnvStep step = EnvStep::allocate(env->spec(), 2);
  env->reset(1, 0, step);
  const Array before = step.observations.at("image").clone();
  CHECK_FALSE(before.at(0) == before.at(1));
  env->step(random_actions(*env, step, 0), step);
  CHECK_FALSE(step.observations.at("image").at(0) == before.at(0));
}

TEST_CASE("synthetic: the default image is 3 x 224 x 224 bytes") {
  EnvConfig config;
  config.id = "Synthetic";
  const EnvSpec spec = make_env(config)->spec();
  CHECK(spec.observations[0].shape == Shape{3, 224, 224});
  CHECK(spec.observations[0].dtype == DType::u8);
  CHECK(spec.observations[1].shape == Shape{7});
}
