#include <cmath>
#include <fstream>

#include <nlohmann/json.hpp>

#include "envs/acrobot.h"
#include "envs/cart_pole.h"
#include "envs/mountain_car.h"
#include "envs/pendulum.h"
#include "tests/support/test.h"

using namespace troupe;

namespace {

using Json = nlohmann::json;
constexpr double kTolerance = 1e-5;

Json golden(const std::string& id) {
  std::ifstream file("tests/envs/golden/" + id + ".json");
  REQUIRE(file.good());
  return Json::parse(file);
}

Array action_of(const ActionSpec& spec, const Json& action) {
  if (spec.kind == ActionKind::continuous) return Array::of<float>({1, 1, 1}, {action[0].get<float>()});
  return Array::of<int32_t>({1, 1, 1}, {action.get<int32_t>()});
}

// The largest difference between an observation row and its golden numbers.
double difference(const Array& observation, const Json& wanted) {
  double worst = 0;
  for (size_t k = 0; k < wanted.size(); ++k)
    worst = std::max(worst, std::abs(observation.view<float>()[k] - wanted[k].get<double>()));
  return worst;
}

template <class Row>
void replay(Batched<Row>& env, const Json& episode) {
  EnvStep out = EnvStep::allocate(env.spec(), 1);
  env.reset(1, 0, out);
  auto* state = reinterpret_cast<decltype(env.row(0).state)*>(&env.row(0).state);
  auto* numbers =
      reinterpret_cast<std::conditional_t<std::is_same_v<Row, MountainCarContinuous>, float, double>*>(state);
  for (size_t k = 0; k < episode["state"].size(); ++k) numbers[k] = episode["state"][k];
  env.observe(out);
  CHECK(difference(out.observations[0].second, episode["first"]) < kTolerance);
  const size_t steps = episode["actions"].size();
  for (size_t t = 0; t < steps; ++t) {
    env.step(action_of(env.spec().action, episode["actions"][t]), out);
    const bool last = t + 1 == steps;
    const bool terminated = last && episode["terminated"].get<bool>(),
               truncated = last && episode["truncated"].get<bool>();
    REQUIRE(out.terminated.view<uint8_t>()[0] == terminated);
    REQUIRE(out.truncated.view<uint8_t>()[0] == truncated);
    const Arrays& reached = terminated || truncated ? out.final_observations : out.observations;
    INFO(env.spec().id << " seed " << episode["seed"] << " step " << t);
    REQUIRE(difference(reached[0].second, episode["observations"][t]) < kTolerance);
    REQUIRE(std::abs(out.rewards.view<float>()[0] - episode["rewards"][t].get<double>()) < kTolerance);
  }
}

template <class Row>
void check_golden(const std::string& id) {
  const Json file = golden(id);
  Batched<Row> env = [] {
    if constexpr (requires { typename Row::Options; })
      return Batched<Row>(Row::spec({}), 1);
    else
      return Batched<Row>(Row::spec(), 1);
  }();
  CHECK(env.spec().max_episode_steps == file["max_episode_steps"]);
  REQUIRE(file["episodes"].size() >= 4);
  for (const Json& episode : file["episodes"]) replay(env, episode);
}

}  // namespace

TEST_CASE("cart_pole: follows Gymnasium's trajectories") { check_golden<CartPole>("CartPole-v1"); }
TEST_CASE("acrobot: follows Gymnasium's trajectories") { check_golden<Acrobot>("Acrobot-v1"); }
TEST_CASE("mountain_car: follows Gymnasium's trajectories") { check_golden<MountainCar>("MountainCar-v0"); }
TEST_CASE("mountain_car_continuous: follows Gymnasium's trajectories") {
  check_golden<MountainCarContinuous>("MountainCarContinuous-v0");
}
TEST_CASE("pendulum: follows Gymnasium's trajectories") { check_golden<Pendulum>("Pendulum-v1"); }
