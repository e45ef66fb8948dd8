"""What figures_recomputed_test.py makes runs from: an environment and a verifier that write down what they gave."""

import os
import pathlib

import numpy as np

LOG = "TROUPE_FIGURES_LOG"  # a folder


def note(name, line):
    """Adds a line to a file of the folder."""
    with open(pathlib.Path(os.environ[LOG]) / name, "a") as file:
        file.write(line + "\n")


def wait_at(pipes):
    """Says in the pipe `reached` of a folder that it waits, and goes on when nobody has the pipe `gate` open to write any more."""
    (pipes / "reached").write_text("reached")
    (pipes / "gate").read_text()


class Box:
    shape, dtype = (2,), np.dtype(np.float32)
    low, high = np.full(2, -np.inf), np.full(2, np.inf)


class Discrete:
    n, start = 2, 0


class Logged:
    """Episodes of different lengths and rewards. With `gate`, the folder of the pipes, it waits there at its 200th step."""

    made = 0

    def __init__(self, gate=""):
        self.observation_space, self.action_space = Box(), Discrete()
        Logged.made += 1
        self.file = f"episodes_{os.getpid()}_{Logged.made}.txt"
        self.gate, self.steps = gate, 0

    def reset(self, seed=None, options=None):
        if seed is not None:
            self.random = np.random.default_rng(seed)
        self.t, self.total, self.length = 0, 0.0, int(self.random.integers(1, 12))
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.t += 1
        self.steps += 1
        if self.gate and self.steps == 200:
            wait_at(pathlib.Path(self.gate))
        reward = float(np.float32(self.random.normal()))
        self.total += reward
        over = self.t == self.length
        if over:
            note(self.file, f"{self.t} {self.total!r} {int(self.total > 0)}")
        return np.array([self.t, reward], np.float32), reward, over, False, {"is_success": bool(over and self.total > 0)}


SCORED = []


def score(answers):
    """A verifier: the share of odd digits in each answer. It waits at the gate after its 200th answer."""
    scores = [sum(letter in "13579" for letter in answer) / max(len(answer), 1) for answer in answers]
    for answer, value in zip(answers, scores):
        note("answers.txt", f"{len(answer)} {value!r}")
    before = len(SCORED)
    SCORED.extend(scores)
    if before < 200 <= len(SCORED):
        wait_at(pathlib.Path(os.environ[LOG]).parent)
    return scores
