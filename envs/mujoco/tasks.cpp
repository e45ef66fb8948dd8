#include "envs/mujoco/tasks.h"

namespace troupe {

std::span<const MujocoTaskEntry> mujoco_tasks() {
  static const MujocoTaskEntry entries[] = {
      {"HalfCheetah-v5", "run forward on two legs in a plane", "half_cheetah.xml", 5, 1000, make_half_cheetah},
      {"Hopper-v5", "hop forward on one leg without falling", "hopper.xml", 4, 1000, make_hopper},
      {"Walker2d-v5", "walk forward on two legs in a plane without falling", "walker2d_v5.xml", 4, 1000, make_walker2d},
      {"Ant-v5", "walk forward on four legs", "ant.xml", 5, 1000, make_ant},
      {"Humanoid-v5", "walk forward on two legs without falling", "humanoid.xml", 5, 1000, make_humanoid},
      {"HumanoidStandup-v5", "stand up from lying on the ground", "humanoidstandup.xml", 5, 1000,
       make_humanoid_standup},
      {"Swimmer-v5", "swim forward in a plane with two joints", "swimmer.xml", 4, 1000, make_swimmer},
      {"Reacher-v5", "move the end of a two-joint arm to a target", "reacher.xml", 2, 50, make_reacher},
      {"Pusher-v5", "push an object to a target with an arm of seven joints", "pusher_v5.xml", 5, 100, make_pusher},
      {"InvertedPendulum-v5", "balance a pole on a cart", "inverted_pendulum.xml", 2, 1000, make_inverted_pendulum},
      {"InvertedDoublePendulum-v5", "balance two connected poles on a cart", "inverted_double_pendulum.xml", 5, 1000,
       make_inverted_double_pendulum},
  };
  return entries;
}

}  // namespace troupe
