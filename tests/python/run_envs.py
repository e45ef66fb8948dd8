"""Environments of the tests of whole runs. They are imported by name, and defined again in scripts and closures."""

import json
import os
from math import cos, sin

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple


class Pole(gymnasium.Env):
    """CartPole with the dynamics of Barto, Sutton and Anderson (1983)."""

    observation_space = Box(-10, 10, (4,), np.float32)
    action_space = Discrete(2)

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.state, self.steps = self.np_random.uniform(-0.05, 0.05, 4), 0
        return self.state.astype(np.float32), {}

    def step(self, action):
        x, v, angle, turn = self.state
        push = ((10 if action == 1 else -10) + 0.05 * turn**2 * sin(angle)) / 1.1
        turning = (9.8 * sin(angle) - cos(angle) * push) / (0.5 * (4 / 3 - 0.1 * cos(angle) ** 2 / 1.1))
        moving = push - 0.05 * turning * cos(angle) / 1.1
        self.state = self.state + 0.02 * np.array([v, moving, turn, turning])
        self.steps += 1
        fallen = bool(abs(self.state[0]) > 2.4 or abs(self.state[2]) > 0.2095)
        return self.state.astype(np.float32), 1.0, fallen, self.steps >= 500, {}


class Levels(gymnasium.Env):
    """Short episodes, each in a level that it draws and notes in a file."""

    observation_space = Box(-1, 1, (1,), np.float32)
    action_space = Discrete(2)

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        with open("levels.txt", "a") as file:
            file.write(f"{self.np_random.integers(10**9)}\n")
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.steps += 1
        return np.zeros(1, np.float32), 1.0, self.steps >= 10, False, {}


class Throttle(Levels):
    """Actions far from those that a new policy draws."""

    action_space = Box(5, 10, (1,), np.float32)


class MaskedPole(Pole):
    """The same with a Dict of observations, a third action that is never allowed, and a mask that says so."""

    observation_space = Dict({"place": Box(-10, 10, (4,), np.float32), "action_mask": MultiBinary(3)})
    action_space = Discrete(3)

    def seen(self, place):
        return {"place": place, "action_mask": np.array([1, 1, 0], np.int8)}

    def reset(self, seed=None, options=None):
        place, info = super().reset(seed=seed)
        return self.seen(place), info

    def step(self, action):
        assert action < 2, "the masked action was taken"
        place, *rest = super().step(action)
        return self.seen(place), *rest


class Steps(gymnasium.Env):
    """Several numbers to choose, an integer and a number to observe; the reward is the number of choices that match."""

    observation_space = Dict({"number": Box(-1, 1, (2,), np.float32), "kind": Box(0, 4, (1,), np.int64)})
    action_space = MultiDiscrete([3, 5])

    def seen(self):
        self.kind = int(self.np_random.integers(5))
        return {"number": self.np_random.uniform(-1, 1, 2).astype(np.float32), "kind": np.array([self.kind])}

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return self.seen(), {}

    def step(self, action):
        reward = float(action[0] == self.kind % 3) + float(action[1] == self.kind)
        self.steps += 1
        return self.seen(), reward, False, self.steps == 20, {}


class Parts(gymnasium.Env):
    """Every kind of observation, nested; the reward is 1 for the action that `place` says."""

    observation_space = Dict(
        {
            "place": Discrete(3, start=2),
            "inner": Dict(
                {"two": MultiDiscrete([2, 4]), "flags": MultiBinary(2), "pair": Tuple([Discrete(2), Box(-1, 1, (), np.float32)])}
            ),
        }
    )
    action_space = Discrete(3)

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.observation_space.seed(int(self.np_random.integers(2**31)))
        self.steps, self.seen = 0, self.observation_space.sample()
        return self.seen, {}

    def step(self, action):
        reward = float(action == self.seen["place"] - 2)
        self.steps, self.seen = self.steps + 1, self.observation_space.sample()
        return self.seen, reward, False, self.steps == 20, {}


class Place(Parts):
    """Only the place: no Dict."""

    observation_space = Discrete(3, start=2)

    def step(self, action):
        self.steps, place, self.seen = self.steps + 1, self.seen, self.observation_space.sample()
        return self.seen, float(action == place - 2), False, self.steps == 20, {}


ACTIONS = {
    "discrete": Discrete(3, start=5),
    "negative": Discrete(2, start=-4),
    "multi": MultiDiscrete([2, 3], start=[4, -1]),
    "matrix": MultiDiscrete([[2, 3], [4, 2]], dtype=np.int32),
    "cube": Box(-2, np.arange(1, 13, dtype=np.float32).reshape(2, 2, 3)),
    "double": Box(np.array([0.1, -3]), np.array([0.7, 5]), dtype=np.float64),
    "half": Box(-1, 1, (2, 1), np.float16),
    "number": Box(-1, 1, (), np.float32),
}


def typed(action):
    """The type, dtype and shape of an action."""
    return [type(action).__name__, str(getattr(action, "dtype", "")), list(np.shape(action))]


class Typed(gymnasium.Env):
    """Refuses actions outside of its space, one of ACTIONS, and writes the type of the first one to a file."""

    observation_space = Box(-1, 1, (1,), np.float32)

    def __init__(self, name, file):
        self.action_space, self.file = ACTIONS[name], file

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return self.np_random.uniform(-1, 1, 1).astype(np.float32), {}

    def step(self, action):
        if not self.action_space.contains(action):
            raise ValueError(f"{action!r} is not in {self.action_space}")
        if not os.path.exists(self.file):
            with open(self.file, "w", encoding="utf-8") as out:
                json.dump(typed(action), out)
        self.steps += 1
        return self.np_random.uniform(-1, 1, 1).astype(np.float32), 0.0, self.steps == 10, False, {}


def as_lists(value):
    return {key: as_lists(part) for key, part in value.items()} if isinstance(value, dict) else np.asarray(value).tolist()


class Recorded(gymnasium.Wrapper):
    """Writes every observation and action as a line of JSON to the file that the variable RECORD names, if it is set."""

    def __init__(self, of, **parameters):
        super().__init__(globals()[of]() if of in globals() else gymnasium.make(of, **parameters))
        self.file = os.environ.get("RECORD")

    def write(self, **record):
        if self.file:
            with open(self.file, "a", encoding="utf-8") as out:
                out.write(json.dumps({"row": f"{os.getpid()} {id(self)}"} | record) + "\n")

    def reset(self, **arguments):
        self.last, info = super().reset(**arguments)
        self.begin = True
        return self.last, info

    def step(self, action):
        self.write(observation=as_lists(self.last), action=as_lists(action), begin=self.begin)
        self.last, *rest = super().step(action)
        self.begin = False
        return self.last, *rest


def half(completions, **columns):
    """A reward function."""
    return [0.5] * len(completions)


def hint(answers):
    """What is said to each answer, in turns."""
    return ["77"] * len(answers)
