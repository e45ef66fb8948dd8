// The configs of MuJoCo.

#include "tests/learn/config_runs.h"
#include "tests/support/run_command.h"
#include "tests/support/run_program.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

namespace {

bool has_mujoco() {
  if (run_command({built_program("troupe"), "envs", "mujoco:Hopper-v5"}).exit_code == 0) return true;
  MESSAGE("skipped: tools/fetch_mujoco has not been run");
  return false;
}

}  // namespace

TEST_CASE("configs: mujoco/half_cheetah_1m runs") {
  if (has_mujoco()) check_learns({.config = "mujoco/half_cheetah_1m", .least = 1500, .seeds = 3, .mean_of = 3});
}

TEST_CASE("configs: mujoco/hopper_1m hops") {
  if (has_mujoco()) check_learns({.config = "mujoco/hopper_1m", .least = 1500, .seeds = 3, .mean_of = 3});
}

TEST_CASE("configs: mujoco/walker2d_1m walks") {
  if (has_mujoco()) check_learns({.config = "mujoco/walker2d_1m", .least = 1500, .seeds = 3, .mean_of = 3});
}
