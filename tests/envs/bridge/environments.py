"""Small environments for the tests of envs/bridge. They need numpy only: the spaces are classes of their own."""

import multiprocessing
import os
import signal
import subprocess
import sys
import time

import numpy as np


class Box:
    def __init__(self, low, high, shape, dtype=np.float32):
        self.low, self.high = np.full(shape, low, np.float64), np.full(shape, high, np.float64)
        self.shape, self.dtype = shape, np.dtype(dtype)


class Discrete:
    def __init__(self, n, start=0):
        self.n, self.start = n, start


class MultiDiscrete:
    def __init__(self, nvec):
        self.nvec, self.dtype = np.array(nvec), np.int64


class MultiBinary:
    def __init__(self, n):
        self.n = n


class Dict:
    def __init__(self, **spaces):
        self.spaces = spaces


class Tuple:
    def __init__(self, *spaces):
        self.spaces = spaces


class Graph:
    pass


class Sequence:
    pass


class Text:
    pass


class Walk:
    """A random walk from the seed; ends at step `length`, truncated when `truncates`."""

    def __init__(self, length=5, truncates=False, dims=3):
        self.observation_space = Box(-np.inf, np.inf, (dims,))
        self.action_space = Discrete(2)
        self.length, self.truncates, self.dims = length, truncates, dims
        self.random = None
        self.resets = 0

    def observation(self):
        return np.array([self.position, self.t, self.resets][: self.dims], np.float32)

    def reset(self, seed=None, options=None):
        if seed is not None:
            self.random = np.random.default_rng(seed)
        self.t, self.position = 0, float(self.random.normal())
        self.resets += 1
        return self.observation(), {}

    def step(self, action):
        self.t += 1
        self.position += (2 * action - 1) * float(self.random.uniform())
        over = self.t >= self.length
        info = {"is_success": over and self.position > 0}
        return self.observation(), self.position, over and not self.truncates, over and self.truncates, info


class Continuous(Walk):
    """Observes the action that it got."""

    def __init__(self, shape=(2,)):
        super().__init__(length=100)
        self.action_space = Box(-1, 2, shape)
        self.observation_space = Box(-10, 10, shape)
        self.got = np.zeros(shape, np.float32)

    def observation(self):
        return self.got

    def step(self, action):
        self.got = action
        return self.got, np.float64(action.sum()), False, False, {}


class Spaces(Walk):
    """Every kind of observation, with a mask that forbids the action taken last."""

    def __init__(self):
        super().__init__(length=4)
        self.action_space = Discrete(3, start=5)
        self.observation_space = Dict(
            image=Box(0, 255, (2, 2), np.uint8),
            large=Box(0, 2**40, (1,), np.int64),
            choice=Discrete(3, start=1),
            choices=MultiDiscrete([2, 3]),
            flags=MultiBinary(2),
            both=Tuple(Box(-1, 1, (), np.float64), Dict(inner=Box(0, 9, (1,), np.int32))),
            action_mask=MultiBinary(3),
        )
        self.last = 5

    def observation(self):
        mask = np.ones(3, np.int8)
        mask[self.last - 5] = 0
        return {
            "image": np.arange(4, dtype=np.uint8).reshape(2, 2) + 250,
            "large": np.array([2**40], np.int64),
            "choice": 2,
            "choices": np.array([1, 2]),
            "flags": np.array([0, 1], np.int8),
            "both": (0.25, {"inner": np.array([7], np.int32)}),
            "action_mask": mask,
        }

    def step(self, action):
        self.last = action
        return super().step(action)


class Choices(Walk):
    """Several choices; the reward spells them."""

    def __init__(self):
        super().__init__(length=100)
        self.action_space = MultiDiscrete([3, 4])

    def step(self, action):
        return self.observation(), 10.0 * action[0] + action[1], False, False, {}


class Trouble(Walk):
    """Does what `what` says at step 3 of every episode of the rows in which `where` says so."""

    def __init__(self, what="", where="all", folder=""):
        super().__init__(length=10)
        self.what, self.where, self.folder = what, where, folder
        self.chosen = False

    def reset(self, seed=None, options=None):
        if seed is not None:
            self.chosen = self.where == "all" or seed % 2 == 0
        if self.what == "raise_in_reset" and self.chosen and self.resets > 0:
            raise RuntimeError("no reset")
        observation, info = super().reset(seed=seed)
        if self.chosen and self.resets > 1:
            if self.what == "nan_in_reset":
                observation[0] = np.nan
            elif self.what == "shape_in_reset":
                observation = np.zeros(2, np.float32)
        return observation, info

    def step(self, action):
        observation, reward, terminated, truncated, info = super().step(action)
        if self.t == 3 and self.chosen:
            if self.what == "raise":
                raise ValueError("bad\nstep")
            elif self.what == "exit":
                sys.exit("leaving")
            elif self.what == "nan":
                observation[0] = np.nan
            elif self.what == "infinite_reward":
                reward = float("inf")
            elif self.what == "shape":
                observation = np.zeros(1, np.float32)
            elif self.what == "four":
                return observation, reward, terminated, info
            elif self.what == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            elif self.what == "hang":
                time.sleep(1000)
            elif self.what == "garbage":
                os.write(3, b"garbage")
            elif self.what == "close":
                os.close(3)
                time.sleep(1000)
        if self.what == "print":
            print("printed", "x" * 5000)
            print("to stderr", file=sys.stderr)
            os.write(1, b"raw bytes \xff\n")
        return observation, reward, terminated, truncated, info


class Returns(Walk):
    """Replaces parts of what it returns, from a step on: "reward=None" gives the reward None."""

    def __init__(self, what="", from_step=1):
        super().__init__(length=100)
        self.what, self.from_step = what, from_step

    def replaced(self, **values):
        if self.what == "raise" and "reward" in values:
            raise RuntimeError("always")
        for part in self.what.split("; "):
            name, equals, text = part.partition("=")
            if equals and name in values:
                values[name] = eval(text, {"np": np, "nan": float("nan")})
        return values

    def reset(self, seed=None, options=None):
        observation, info = super().reset(seed=seed)
        values = self.replaced(reset=None, reset_info=info)
        return (observation, values["reset_info"]) if values["reset"] is None else values["reset"]

    def step(self, action):
        names = ("observation", "reward", "terminated", "truncated", "info")
        values = dict(zip(names, super().step(action)))
        if self.t >= self.from_step:
            values = self.replaced(step=None, **values)
        if values.pop("step", None) is not None:
            return 1, 2.0, False, {}
        return tuple(values[name] for name in names)


def slow_start():
    time.sleep(0.6)
    return Walk()


def meets(folder, count, write=0):
    """
    Is made only when `count` processes make it at the same time, after each has printed 200 KB in writes of `write` bytes.
    The first call, which asks for the spaces, does not wait.
    """
    if not os.path.exists(folder):
        os.mkdir(folder)
        return Walk()
    for _ in range(200_000 // write if write else 0):
        os.write(1, b"x" * (write - 1) + b"\n")
    open(os.path.join(folder, str(os.getpid())), "w").close()
    deadline = time.monotonic() + 60
    while len(os.listdir(folder)) < count:
        if time.monotonic() > deadline:
            raise RuntimeError("the others have not come")
        time.sleep(0.01)
    return Walk()


class Spawns(Walk):
    """Starts a process that only its own end or a signal ends, and has no close()."""

    def __init__(self, file):
        super().__init__()
        child = subprocess.Popen(["sleep", "1000"])
        with open(file, "a") as out:
            out.write(f"{child.pid}\n")


def _put_number(queue):
    queue.put(1)


def with_a_spawned_process():
    """Walk, if a process that multiprocessing starts anew, and which imports the main module, can work."""
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    process = context.Process(target=_put_number, args=(queue,))
    process.start()
    queue.get(timeout=60)
    process.join()
    return Walk()


def broken(text="cannot be built"):
    raise OSError(text)


def crashing():
    print("about to crash")
    os.kill(os.getpid(), signal.SIGSEGV)


def hanging():
    time.sleep(1000)


def with_spaces(observation="box", action="discrete"):
    env = Walk()
    spaces = {
        "box": Box(-1, 1, (3,)),
        "graph": Graph(),
        "sequence": Sequence(),
        "text": Dict(a=Tuple(Text())),
        "empty": Dict(),
        "mask": Dict(action_mask=MultiBinary(2)),
        "collision": Dict(**{"a/b": Discrete(2), "a": Dict(b=Discrete(2))}),
        "nothing": Box(-1, 1, (0,)),
        "complex": Box(-1, 1, (3,), np.complex64),
        "discrete": Discrete(2),
        "infinite": Box(-np.inf, 1, (2,)),
        "integers": Box(0, 5, (2,), np.int32),
        "dict": Dict(a=Discrete(2)),
    }
    env.observation_space, env.action_space = spaces[observation], spaces[action]
    return env


class Vector(Walk):
    single_observation_space = Box(-1, 1, (3,))


class Odd(Walk):
    """Spaces without dimensions, and numbers that do not begin at 0. The action comes back in the observation."""

    def __init__(self):
        super().__init__(length=100)
        self.action_space = Box(-1, 1, (), np.float64)
        self.observation_space = Tuple(Dict(scalar=Box(-1, 1, ()), deep=Tuple(Discrete(2, start=-3))), Box(0, 9, (), np.uint8))
        self.got = np.float64(0)

    def observation(self):
        assert np.shape(self.got) == () and self.got.dtype == np.float64
        return ({"scalar": np.float32(self.got), "deep": (-2,)}, 7)

    def step(self, action):
        self.got = action
        return self.observation(), 0, False, False, {}


class Grid(Walk):
    """Two by two choices from 5 on; observes them in the same space."""

    def __init__(self):
        super().__init__(length=100)
        self.action_space = MultiDiscrete([[2, 3], [2, 2]])
        self.action_space.start = np.full((2, 2), 5)
        self.observation_space = self.action_space
        self.got = np.full((2, 2), 5)

    def observation(self):
        return self.got

    def step(self, action):
        self.got = action
        return self.got, 0, False, False, {}


class Unreliable(Walk):
    """Fails in all ways, about once in 500 steps, and prints."""

    def step(self, action):
        observation, reward, terminated, truncated, info = super().step(action)
        fault = self.random.integers(4000)
        if fault == 0:
            os._exit(3)
        elif fault == 1:
            sys.exit("leaving")
        elif fault < 4:
            raise ValueError("bad step")
        elif fault < 6:
            reward = np.nan
        elif fault < 8:
            observation = np.zeros(7, np.float32)
        if fault % 50 == 0:
            print("printed at step", self.t)
        return observation, reward, terminated, truncated, info


class NothingAllowed(Walk):
    """Allows no action at step 2."""

    def __init__(self):
        super().__init__(length=100)
        self.observation_space = Dict(state=self.observation_space, action_mask=MultiBinary(2))

    def observation(self):
        return {"state": super().observation(), "action_mask": np.full(2, self.t != 2)}


class MaskOf(NothingAllowed):
    """Has the number `entry` in the mask of step 2."""

    def __init__(self, entry="nan"):
        super().__init__()
        self.entry = float(entry)

    def observation(self):
        observation = super().observation()
        observation["action_mask"] = np.array([1, self.entry if self.t == 2 else 0])
        return observation


class Stuck(Walk):
    """Hangs, crashes or ends its process in the first step of one row."""

    made = 0

    def __init__(self, row, what):
        super().__init__(length=100)
        self.what = what if Stuck.made == row else ""
        Stuck.made += 1

    def waits_for_ever(self):
        time.sleep(1000)

    def reads_address_0(self):
        import ctypes

        ctypes.string_at(0)

    def step(self, action):
        if self.what == "hang":
            self.waits_for_ever()
        elif self.what == "crash":
            self.reads_address_0()
        elif self.what == "exit":
            os._exit(7)
        return super().step(action)


class Hoards(Walk):
    """Keeps 64 MB from each step, in a process of its own if `child`."""

    def __init__(self, child=False):
        super().__init__(length=100)
        self.child, self.kept = child, []

    def step(self, action):
        if self.child:
            ready, done = os.pipe()
            if os.fork() == 0:
                self.kept.append(np.ones(8 << 20))
                os.write(done, b"1")
                time.sleep(1000)
            os.read(ready, 1)
        else:
            self.kept.append(np.ones(8 << 20))
        return super().step(action)


class Drawn(Walk):
    render_mode = "ansi"

    def render(self):
        return f"at {self.position:.2f}, step {self.t}"


class Simulated(Walk):
    """Uses a module of the name mujoco, which warns from step 2 on."""

    def __init__(self):
        super().__init__(length=100)
        sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "fake"))
        import mujoco

        self.warn = mujoco.warn

    def step(self, action):
        if self.t > 0:
            self.warn(f"The simulation is unstable. Time = {self.t:.4f}.")
        return super().step(action)


NotCallable = 3
