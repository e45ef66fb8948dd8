#include <cmath>
#include <fstream>

#include <nlohmann/json.hpp>

#include "envs/mujoco/make_mujoco_env.h"
#include "envs/mujoco/mujoco_row.h"
#include "tests/support/test.h"

using namespace troupe;

namespace {

using Json = nlohmann::json;
using Numbers = std::vector<double>;
constexpr double kRewardTolerance = 1e-12;  // relative to rewards above 1

std::string fnv1a(std::span<const double> numbers) {
  uint64_t value = 0xcbf29ce484222325;
  const auto* bytes = reinterpret_cast<const uint8_t*>(numbers.data());
  for (size_t i = 0; i < numbers.size_bytes(); ++i) value = (value ^ bytes[i]) * 0x100000001b3;
  char text[17];
  std::snprintf(text, sizeof text, "%016lx", static_cast<unsigned long>(value));
  return text;
}

// The observation of a row as float64, after the episode's step number `t`.
void check_observation(const MujocoRow& row, const Json& episode, size_t t, size_t stride) {
  const std::span<const double> observation = row.observation();
  if (t % stride == stride - 1) {
    const Numbers wanted = episode["observations"][t / stride].get<Numbers>();
    REQUIRE(Numbers(observation.begin(), observation.end()) == wanted);
  }
  REQUIRE(fnv1a(observation) == episode["hashes"][t].get<std::string>());
}

void replay(const std::string& id, const Json& episode, size_t stride) {
  EnvConfig config;
  config.id = id;
  config.rows = 1;
  config.params = episode["params"].dump();
  const std::unique_ptr<Env> env = make_env(config);
  EnvStep step = EnvStep::allocate(env->spec(), 1);
  env->reset(1, 0, step);
  MujocoRow& row = dynamic_cast<Batched<MujocoRow>&>(*env).row(0);
  row.start(episode["qpos"].get<Numbers>(), episode["qvel"].get<Numbers>());
  const std::span<const double> first = row.observation();
  CHECK(Numbers(first.begin(), first.end()) == episode["first"].get<Numbers>());
  for (size_t t = 0; t < episode["actions"].size(); ++t) {
    INFO(id << " step " << t);
    const TaskStep outcome = row.advance(episode["actions"][t].get<std::vector<float>>());
    check_observation(row, episode, t, stride);
    const double reward = episode["rewards"][t];
    REQUIRE(std::abs(outcome.reward - reward) <= kRewardTolerance * std::max(1.0, std::abs(reward)));
    REQUIRE(outcome.terminated == episode["terminated"][t]);
  }
}

}  // namespace

TEST_CASE("mujoco: observations equal Gymnasium's bit for bit, rewards to 1e-12") {
  for (const std::string& id : mujoco_ids()) {
    CAPTURE(id);
    std::ifstream file("tests/envs/mujoco/golden/" + id.substr(id.find(':') + 1) + ".json");
    REQUIRE(file.good());
    const Json golden = Json::parse(file);
    EnvConfig config;
    config.id = id;
    CHECK(make_env(config)->spec().max_episode_steps == golden["max_episode_steps"]);
    REQUIRE(golden["episodes"].size() == 2);
    CHECK(golden["episodes"][0]["actions"].size() == 200);
    for (const Json& episode : golden["episodes"]) replay(id, episode, golden["stride"]);
  }
}
