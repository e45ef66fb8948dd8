#!/usr/bin/env python3
"""Writes tests/envs/mujoco/golden/*.json: trajectories of Gymnasium's MuJoCo environments for mujoco_test to compare with.

    python3 -m venv golden && golden/bin/pip install 'gymnasium[mujoco]==1.4.0' mujoco==4.0.0
    golden/bin/python tests/envs/mujoco/make_golden.py

An episode has the positions and velocities from which it starts, random actions, and for every step the reward, whether it is
terminal, and the FNV-1a hash of the observation's float64 bytes; the observations themselves at every STRIDE-th step. The steps
go on after a terminal state, without a reset. The first episode of a file has the default arguments and 200 steps, the others
have the `arguments` that are given to Gymnasium and the same as `params` of troupe.
"""

import json
import pathlib

import gymnasium
import mujoco
import numpy as np

FOLDER = pathlib.Path(__file__).parent / "golden"
STRIDE = 20
STEPS, MORE_STEPS = 200, 40

# Other arguments than the defaults, one set per environment.
RUNNER = {"forward_reward_weight": 0.7, "ctrl_cost_weight": 0.03, "reset_noise_scale": 0.2, "frame_skip": 3,
          "exclude_current_positions_from_observation": False}
WALKER = {**RUNNER, "healthy_reward": 2.5, "terminate_when_unhealthy": False, "healthy_z_range": [0.9, 1.2],
          "healthy_angle_range": [-0.1, 0.3]}
HUMANOID = {"ctrl_cost_weight": 0.3, "reset_noise_scale": 0.05, "frame_skip": 4, "exclude_current_positions_from_observation": False,
            "include_cinert_in_observation": False, "include_qfrc_actuator_in_observation": False}
ARGUMENTS = {
    "HalfCheetah-v5": RUNNER,
    "Hopper-v5": {**WALKER, "healthy_state_range": [-1.0, 1.5]},
    "Walker2d-v5": WALKER,
    "Swimmer-v5": RUNNER,
    "Ant-v5": {**RUNNER, "contact_cost_weight": 0.01, "healthy_reward": 2.5, "healthy_z_range": [0.7, 0.9], "main_body": 3,
               "contact_force_range": [-0.5, 0.75], "include_cfrc_ext_in_observation": False},
    "Humanoid-v5": {**HUMANOID, "forward_reward_weight": 0.7, "contact_cost_weight": 1e-4, "healthy_reward": 2.5,
                    "healthy_z_range": [1.3, 1.5], "contact_cost_range": [-np.inf, 0.5]},
    "HumanoidStandup-v5": {**HUMANOID, "impact_cost_weight": 1e-4, "impact_cost_range": [-np.inf, 0.5]},
    "Reacher-v5": {"frame_skip": 3, "reward_dist_weight": 2.5, "reward_control_weight": 0.3},
    "Pusher-v5": {"frame_skip": 3, "reward_near_weight": 0.25, "reward_dist_weight": 2.5, "reward_control_weight": 0.3},
    "InvertedPendulum-v5": {"frame_skip": 3, "reset_noise_scale": 0.1},
    "InvertedDoublePendulum-v5": {"frame_skip": 3, "reset_noise_scale": 0.05, "healthy_reward": 3.0},
}


def params_of(arguments):
    """The same as `env.params` of troupe, where a range is two numbers."""
    params = {}
    for key, value in arguments.items():
        if isinstance(value, list):
            for end, number in zip(("min", "max"), value):
                if np.isfinite(number):
                    params[f"{key.removesuffix('_range')}_{end}"] = number
        else:
            params[key] = value
    return params


def fnv1a(data):
    value = 0xCBF29CE484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return f"{value:016x}"


def record(name, arguments, steps, seed):
    env = gymnasium.make(name, **arguments).unwrapped
    first, _ = env.reset(seed=seed)
    env.action_space.seed(seed)
    episode = {"params": params_of(arguments), "qpos": env.data.qpos.tolist(), "qvel": env.data.qvel.tolist(),
               "first": first.tolist(), "actions": [], "rewards": [], "terminated": [], "hashes": [], "observations": []}
    for t in range(steps):
        action = env.action_space.sample()
        observation, reward, terminated, _, _ = env.step(action)
        observation = np.ascontiguousarray(observation, np.float64)
        episode["actions"].append([float(x) for x in action])
        episode["rewards"].append(float(reward))
        episode["terminated"].append(bool(terminated))
        episode["hashes"].append(fnv1a(observation.tobytes()))
        if t % STRIDE == STRIDE - 1:
            episode["observations"].append(observation.tolist())
    return episode


def main():
    mujoco.set_mju_user_warning(print)  # else it writes MUJOCO_LOG.TXT into the working folder
    FOLDER.mkdir(exist_ok=True)
    for name, arguments in ARGUMENTS.items():
        episodes = [record(name, {}, STEPS, seed=1), record(name, arguments, MORE_STEPS, seed=2)]
        golden = {"max_episode_steps": gymnasium.spec(name).max_episode_steps, "stride": STRIDE, "episodes": episodes}
        (FOLDER / f"{name}.json").write_text(json.dumps(golden, separators=(",", ":")) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
