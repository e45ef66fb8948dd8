// One config of each kind: discrete and continuous actions, images, chunks of tokens. configs_nightly_test.cpp has the
// others.

#include "envs/grid_world.h"
#include "tests/learn/config_runs.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

TEST_CASE("configs: cartpole is solved") {
  check_learns({.config = "cartpole", .least = 475, .seeds = 10, .seconds = 10});
}

TEST_CASE("configs: pendulum swings up and stays upright") {
  check_learns({.config = "pendulum", .least = -200, .seeds = 10, .seconds = 20});
}

TEST_CASE("configs: grid_world_image finds the same paths in an image of the grid") {
  check_learns({.config = "grid_world_image", .least = 0.98 * grid_world_optimum("{}"), .seconds = 60});
}

TEST_CASE("configs: token_reach reaches the target") {
  check_learns({.config = "token_reach", .score = "success_rate", .least = 0.95});
}
