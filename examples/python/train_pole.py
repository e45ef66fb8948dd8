#!/usr/bin/env python3
"""Trains CartPole, written in Python, from Python: train_pole.py [STEPS]

The cells work in a notebook too. It needs the program troupe (TROUPE_PROGRAM or PATH) and: pip install ./python cloudpickle gymnasium
"""
# %% An environment
import sys
from math import cos, sin

import gymnasium
import numpy as np
import troupe


class Pole(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-10, 10, (4,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.state, self.steps = self.np_random.uniform(-0.05, 0.05, 4), 0
        return self.state.astype(np.float32), {}

    def step(self, action):
        x, v, angle, turn = self.state
        push = ((10 if action == 1 else -10) + 0.05 * turn**2 * sin(angle)) / 1.1
        turning = (9.8 * sin(angle) - cos(angle) * push) / (0.5 * (4 / 3 - 0.1 * cos(angle) ** 2 / 1.1))
        self.state = self.state + 0.02 * np.array([v, push - 0.05 * turning * cos(angle) / 1.1, turn, turning])
        self.steps += 1
        fallen = bool(abs(self.state[0]) > 2.4 or abs(self.state[2]) > 0.2095)
        return self.state.astype(np.float32), 1.0, fallen, self.steps >= 500, {}


# %% A callback
class Progress:
    def on_report(self, run, report):
        print(report["env_steps"], "steps, return", report["episodes"]["return_mean"])


# %% Train. Ctrl-C, or the stop button of a notebook, ends the run with a checkpoint.
config = {
    "rollout": {"length": 32},
    "inference": {"batch_size": 64},
    "algorithm": {"gamma": 0.98, "lambda": 0.9, "entropy_coef": 0.01},
    "trainer": {"super_batch": 2048, "minibatches": 4, "epochs": 4, "policy_lr": 1e-3, "value_lr": 1e-3},
}
steps = int(sys.argv[1]) if len(sys.argv) > 1 and sys.argv[1].isdigit() else 300_000
run = troupe.train(config, env=Pole, callbacks=[Progress()], stop__env_steps=steps, quiet=True)
print("mean return of the last evaluation:", run.summary["eval"] and run.summary["eval"]["return_mean"])

# %% Use the policy
policy = troupe.load(run)
env = Pole()
observation, _ = env.reset(seed=1)
total, ended = 0.0, False
while not ended:
    action, _ = policy.predict(observation)
    observation, reward, terminated, truncated, _ = env.step(int(action))
    total, ended = total + reward, terminated or truncated
print("return of one episode with troupe.load:", total)
