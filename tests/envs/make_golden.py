#!/usr/bin/env python3
"""Writes tests/envs/golden/*.json: trajectories of Gymnasium's classic control environments for envs_test to compare with.

    python3 -m venv /tmp/golden && /tmp/golden/bin/pip install gymnasium
    /tmp/golden/bin/python tests/envs/make_golden.py

Each file holds episodes of at most 200 steps: the environment's state after reset, the actions, and the results of every step.
"""

import json
import math
import pathlib

import gymnasium
import numpy as np

STEPS = 200
FOLDER = pathlib.Path(__file__).parent / "golden"


def discrete(n):
    return lambda rng, state: int(rng.integers(n))


def continuous(limit):
    return lambda rng, state: [float(np.float32(rng.uniform(-limit, limit)))]


def balance(rng, state):
    return int(state[2] + 0.3 * state[3] + 0.02 * state[0] + 0.05 * state[1] > 0)


def pump_acrobot(rng, state):
    return 2 if state[3] >= 0 else 0  # torque in the direction of the joint's motion adds energy


# Per environment: policies that together reach all ways in which an episode can end.
POLICIES = {
    "CartPole-v1": [discrete(2), discrete(2), discrete(2), balance, lambda rng, state: 1],
    "Acrobot-v1": [discrete(3), discrete(3), pump_acrobot, pump_acrobot, lambda rng, state: 0],
    "MountainCar-v0": [discrete(3), discrete(3), lambda rng, state: 2 if state[1] >= 0 else 0, lambda rng, state: 0],
    "MountainCarContinuous-v0": [continuous(1), continuous(1), lambda rng, state: [1.0 if state[1] >= 0 else -1.0],
                                 lambda rng, state: [0.6 if state[1] >= 0 else -0.7]],
    "Pendulum-v1": [continuous(2), continuous(2), lambda rng, state: [2.0 if state[1] >= 0 else -2.0],
                    lambda rng, state: [-1.5]],
}


def episode(env_id, policy, seed):
    env = gymnasium.make(env_id)
    rng = np.random.default_rng(seed)
    observation, _ = env.reset(seed=seed)
    record = {"seed": seed, "state": [float(x) for x in env.unwrapped.state], "first": [float(x) for x in observation],
              "actions": [], "observations": [], "rewards": [], "terminated": False, "truncated": False}
    for _ in range(STEPS):
        action = policy(rng, env.unwrapped.state)
        given = np.array(action, dtype=np.float32) if isinstance(action, list) else action
        observation, reward, terminated, truncated, _ = env.step(given)
        assert all(math.isfinite(x) for x in observation)
        record["actions"].append(action)
        record["observations"].append([float(f"{x:.9g}") for x in observation])
        record["rewards"].append(float(f"{float(reward):.9g}"))
        record["terminated"], record["truncated"] = bool(terminated), bool(truncated)
        if terminated or truncated:
            break
    return record


for env_id, policies in POLICIES.items():
    episodes = [episode(env_id, policy, seed) for seed, policy in enumerate(policies)]
    spec = gymnasium.spec(env_id)
    text = {"id": env_id, "gymnasium": gymnasium.__version__, "max_episode_steps": spec.max_episode_steps, "episodes": episodes}
    path = FOLDER / f"{env_id}.json"
    path.write_text(json.dumps(text, separators=(",", ":")) + "\n")
    ends = ["terminated" if e["terminated"] else "truncated" if e["truncated"] else "open" for e in episodes]
    print(path.name, path.stat().st_size, [len(e["actions"]) for e in episodes], ends)
