"""Prints the observations of a Gymnasium environment in hexadecimal: gymnasium_loop.py ID SEED STEPS."""

import sys

import gymnasium
import numpy as np

name, seed, steps = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
env = gymnasium.make(name)
observation, _ = env.reset(seed=seed)
print(np.asarray(observation, np.float32).tobytes().hex())
for t in range(steps):
    draw = (t * t + t // 7) % 2
    action = draw if env.action_space.shape == () else np.array([draw * 2.5 - 1.25], np.float32)
    observation, _, terminated, truncated, _ = env.step(action)
    if terminated or truncated:
        observation, _ = env.reset()
    print(np.asarray(observation, np.float32).tobytes().hex())
