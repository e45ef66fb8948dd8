#include "envs/mujoco/make_mujoco_env.h"
#include "tests/envs/fixtures.h"

std::vector<std::string> troupe::test::conformance_ids() { return mujoco_ids(); }
uint64_t troupe::test::conformance_steps() { return 150; }
