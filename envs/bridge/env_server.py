"""Environment server: the process in which troupe runs environments that are written in Python.

troupe starts it as `PYTHON env_server.py DESCRIPTOR TRACE`. DESCRIPTOR is one end of a socket pair; TRACE is a file for the
stack of this process if it crashes or is aborted. It needs Python 3.9 and numpy, and the library that the scheme of the
id names. The other side is envs/bridge/server_process.h.

A message on the socket is the byte "j", four bytes with a length, and as many bytes of JSON. The first one asks for the
spaces of the environment. The second one brings a block of shared memory and two eventfds. From then on, each request
comes by the first eventfd, its kind is in the header of the block, and the second eventfd answers that it is done. All
arrays of a step are in the block.
"""

import faulthandler
import gc
import importlib
import importlib.util
import inspect
import json
import math
import mmap
import os
import socket
import struct
import sys
import traceback

# Several servers and the trainer share the processors, so no library may start a thread for each of them.
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

try:
    import numpy as np
except ImportError:
    np = None  # reported in the answer to "describe"

STEP_ROWS, MESSAGE, CLOSE, STEP_ALL = 1, 2, 3, 4  # what a request asks for
SKIP, STEP, START, START_SEEDED, REBUILD = range(5)  # what a row does in a step


class Refused(Exception):
    """A mistake of the user; the text is complete."""

    def __init__(self, kind, text):
        super().__init__(text)
        self.kind = kind


# ---- errors


def place_of(error):
    """The innermost line of the user's code in a traceback, as "file:line"; of a library if there is none."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename != __file__]
    own = [f for f in frames if not any(part in f.filename for part in ("site-packages", "dist-packages", "<frozen"))]
    own = [f for f in own if not f.filename.startswith(os.path.dirname(os.__file__))]
    frame = (own or frames or [None])[-1]
    return f"{frame.filename}:{frame.lineno}" if frame else ""


def printable(text):
    """The text without control characters and lone surrogates, which JSON readers refuse."""
    text = "".join(c if c >= " " else " " for c in text)
    return text.encode("utf-8", "replace").decode()


def lines_of(error, count):
    """The last lines of the traceback of an exception."""
    lines = "".join(traceback.format_exception(type(error), error, error.__traceback__)).splitlines()
    return [printable(line)[:500] for line in lines[-count:]]


def text_of(error):
    """An exception as one line: type, text, file and line."""
    text = " ".join(str(error).split())
    line = type(error).__name__ + (": " + text if text else "")
    place = place_of(error)
    longest = max(60, 270 - len(place))  # so that the place is not cut off, where lines are limited to 300 bytes
    return printable(line[:longest] + (f" ({place})" if place else ""))


# ---- values that an environment returns


def shown(value):
    """A value as an error shows it."""
    if np.ndim(value) > 0 and np.size(value) > 4:
        return f"{type(value).__name__} of shape {list(np.shape(value))}" if isinstance(value, np.ndarray) else brief(value)
    return brief(value)


def brief(value):
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def number_of(name, value):
    """The number that a value is: a number, or an array of one."""
    if isinstance(value, (float, int, np.floating, np.integer)):
        return value
    array = np.asarray(value)
    if array.dtype.kind not in "fiub" or array.size != 1:
        raise ValueError(f"{name} is {shown(value)}, expected a number")
    return float(array.reshape(-1)[0])


def flag_of(name, value):
    """The truth value that a value is: True, False, 1 or 0, or an array of one of them."""
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    array = np.asarray(value)
    if array.dtype.kind in "fiub" and array.size == 1 and array.reshape(-1)[0] in (0, 1):
        return bool(array.reshape(-1)[0])
    raise ValueError(f"{name} is {shown(value)}, expected True or False")


def numbers_of_rows(name, values, count):
    """The numbers of all rows of a vector environment: [N], or [N, 1]."""
    array = np.asarray(values)
    if array.dtype.kind in "fiub" and array.shape in ((count,), (count, 1)):
        return array.reshape(count)
    if np.shape(values) not in ((count,), (count, 1)):
        raise ValueError(f"{name} has shape {list(np.shape(values))}, expected [{count}]")
    return np.array([number_of(f"{name}[{i}]", values[i]) for i in range(count)])


def flags_of_rows(name, values, count):
    array = np.asarray(values)
    if array.dtype.kind == "b" and array.shape == (count,):
        return array
    if np.shape(values) not in ((count,), (count, 1)):
        raise ValueError(f"{name} has shape {list(np.shape(values))}, expected [{count}]")
    return np.array([flag_of(f"{name}[{i}]", values[i]) for i in range(count)], bool)


def dict_of(info):
    if not hasattr(info, "get"):
        raise ValueError(f"info is {shown(info)}, expected a dict")
    return info


def parts_of_reset(result):
    """Observation and info."""
    if type(result) not in (tuple, list) or len(result) != 2:
        raise ValueError(f"reset() returned {returned(result)}, expected 2: observation and info")
    return result


def parts_of_step(result):
    if type(result) not in (tuple, list) or len(result) != 5:
        raise ValueError(
            f"step() returned {returned(result)}, expected 5: observation, reward, terminated, truncated, info " "(Gymnasium 0.26 or later)"
        )
    return result


def returned(result):
    return f"{len(result)} values" if type(result) in (tuple, list) else shown(result)


# ---- making environments


class MujocoImport:
    """Lets the package mujoco print each warning once. Otherwise it writes every warning to MUJOCO_LOG.TXT in the working
    folder. This is a hook in the import of the package, because the first warnings come with the first model."""

    def __init__(self):
        self.printed = set()

    def find_spec(self, name, path=None, target=None):
        if name != "mujoco":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def execute_and_set(module):
            execute(module)
            if hasattr(module, "set_mju_user_warning"):
                module.set_mju_user_warning(self.warn)

        spec.loader.exec_module = execute_and_set
        return spec

    def warn(self, text):
        kind = text.partition(" Time = ")[0]  # the time differs from row to row
        if kind not in self.printed:
            self.printed.add(kind)
            print("MuJoCo:", text, file=sys.stderr)


def find_callable(target):
    """The callable that "module:name" or "path/file.py:name" refers to."""
    module_name, _, name = target.rpartition(":")
    if not module_name or not name:
        raise Refused("id", "expected py:MODULE:CALLABLE or py:FILE.py:CALLABLE")
    if module_name.endswith(".py"):
        path = os.path.abspath(module_name)
        if not os.path.isfile(path):
            raise Refused("id", f"there is no file {path}")
        sys.path.insert(0, os.path.dirname(path))
        spec = importlib.util.spec_from_file_location(os.path.basename(path)[:-3], path)
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
    else:
        module = importlib.import_module(module_name)
    found = module
    for part in name.split("."):
        if not hasattr(found, part):
            raise Refused("id", f"{module_name} has no {name}")
        found = getattr(found, part)
    if not callable(found):
        raise Refused("id", f"{module_name}:{name} cannot be called, expected a function or class")
    return found


def import_library(name):
    """The module `name`. Its absence is a mistake of the user; an absent module that it needs is not."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        if error.name not in (None, name):
            raise
        raise Refused("no_" + name, f"{name} is not installed") from error


def takes_number_of_rows(make):
    try:
        return "num_envs" in inspect.signature(make).parameters
    except (TypeError, ValueError):  # some callables in C have no signature
        return False


def parallel_maker(target, params):
    """A function that makes one PettingZoo parallel environment."""
    if ":" in target:
        make = find_callable(target)
        return lambda: make(**params)
    import_library("pettingzoo")
    names = [target, "pettingzoo." + target]
    for name in reversed(names):
        try:
            module = importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name is None or not (name == error.name or name.startswith(error.name + ".")):
                raise
            continue
        if not hasattr(module, "parallel_env"):
            raise Refused("id", f"{name} has no parallel_env, so it is no parallel environment")
        return lambda: module.parallel_env(**params)
    raise Refused("id", f"there is no module {names[1]} or {names[0]}" + similar_modules(target))


def similar_modules(target):
    """The names of PettingZoo's modules that are similar, as the end of a message."""
    import difflib
    import pkgutil

    folder, _, name = target.rpartition(".")
    try:
        package = importlib.import_module("pettingzoo." + folder if folder else "pettingzoo")
    except ImportError:
        return ""
    known = [module.name for module in pkgutil.iter_modules(package.__path__)]
    near = difflib.get_close_matches(name, known, 1)
    return f", did you mean {folder + '.' if folder else ''}{near[0]}?" if near else ""


def maker_of(env_id, params, rows):
    """A function that makes one environment; a vector environment has `rows` rows."""
    scheme, _, target = env_id.partition(":")
    if scheme == "envpool":
        return pool_maker(import_library("envpool"), target, params, rows)
    if scheme == "zoo":
        return parallel_maker(target, params)
    if scheme == "py":
        make = find_callable(target)
        if takes_number_of_rows(make):
            if "num_envs" in params:
                raise Refused("params", f"num_envs is {params['num_envs']}, expected none: env.rows sets it")
            params = {**params, "num_envs": rows}
        return lambda: make(**params)
    gymnasium = import_library("gymnasium")
    return lambda: gymnasium.make(target, **params)


class Pool:
    """Environments of EnvPool. Their seeds are arguments of envpool.make, so a reset with seeds makes them anew."""

    def __init__(self, make):
        self.make = make
        self._use(make())

    def _use(self, pool):
        self.pool = pool
        self.step, self.num_envs = pool.step, int(pool.config["num_envs"])
        self.single_observation_space = getattr(pool, "single_observation_space", pool.observation_space)
        self.single_action_space = getattr(pool, "single_action_space", pool.action_space)
        self.max_episode_steps = pool.config.get("max_episode_steps", 0)
        self.metadata = {"autoreset_mode": "NextStep", **(getattr(pool, "metadata", None) or {})}

    def reset(self, seed=None, options=None):
        if seed is not None:
            self.close()
            self._use(self.make(seed=[each or 0 for each in seed]))
        return self.pool.reset()

    def close(self):
        if hasattr(self.pool, "close"):
            self.pool.close()


def pool_maker(envpool, target, params, rows):
    import difflib

    known = list(envpool.list_all_envs())
    if target not in known:
        near = difflib.get_close_matches(target, known, 1)
        raise Refused("id", "EnvPool has no environment of this name" + (f", did you mean {near[0]}?" if near else ""))
    for name in ("num_envs", "batch_size", "env_type", "seed"):
        if name in params:
            raise Refused("params", f"{name} is {params[name]!r}, expected none: troupe sets it")
    given = {"num_threads": 1, **params, "env_type": "gymnasium", "num_envs": rows}
    pool = Pool(lambda **seed: envpool.make(target, **given, **seed))
    first = [pool]
    if pool.pool.config.get("max_num_players", 1) > 1:
        raise Refused("make", f"{target} has several players, expected one")
    return lambda: first.pop() if first else Pool(pool.make)


# ---- spaces


def kind_of(space):
    """The name of a space's class in Gymnasium, also for subclasses. Any class of such a name will do."""
    names = [c.__name__ for c in type(space).__mro__]
    for name in ("Box", "Discrete", "MultiDiscrete", "MultiBinary", "Dict", "Tuple"):
        if name in names:
            return name
    return names[0]


def box_dtype(dtype, where):
    """The dtype in which troupe stores numbers of `dtype`."""
    same = {
        "float32": "float32",
        "float64": "float32",
        "float16": "float32",
        "uint8": "uint8",
        "int32": "int32",
        "int64": "int64",
        "int8": "int32",
        "int16": "int32",
        "uint16": "int32",
        "uint32": "int64",
        "bool": "float32",
    }
    name = np.dtype(dtype).name
    if name not in same:
        raise Refused("space", f"{where}: Box with dtype {name} is not supported, expected one of: {', '.join(same)}")
    return same[name]


class Leaf:
    """One observation array: where it is in the observation, and how it is written."""

    def __init__(self, space, path):
        self.path = path
        self.name = "/".join(str(p) for p in path) or "observation"
        self.kind = kind_of(space)
        where = f"observation {self.name}"
        self.dtype = "float32"
        if self.kind == "Box":
            self.source = tuple(int(x) for x in space.shape)
            self.dtype = box_dtype(space.dtype, where)
        elif self.kind == "Discrete":
            self.source = ()
            self.sizes, self.starts = [int(space.n)], [int(getattr(space, "start", 0))]
        elif self.kind == "MultiDiscrete":
            self.source = tuple(np.shape(space.nvec))
            self.sizes = [int(n) for n in np.ravel(space.nvec)]
            start = getattr(space, "start", None)
            self.starts = [0] * len(self.sizes) if start is None else [int(n) for n in np.ravel(start)]
        elif self.kind == "MultiBinary":
            self.source = tuple(int(x) for x in np.atleast_1d(space.n))
        else:
            raise Refused(
                "space",
                f"{where}: a {self.kind} space is not supported, expected Box, Discrete, " "MultiDiscrete, MultiBinary, Dict or Tuple",
            )
        if 0 in self.source:
            raise Refused("space", f"{where} has the shape {list(self.source)}, expected extents of at least 1")
        self.shape = self.source or (1,)
        if self.kind in ("Discrete", "MultiDiscrete"):
            self.shape = (sum(self.sizes),)
            self.offsets = [sum(self.sizes[:k]) for k in range(len(self.sizes))]

    def describe(self):
        answer = {"name": self.name, "dtype": self.dtype, "shape": list(self.shape)}
        if self.kind in ("Discrete", "MultiDiscrete"):
            answer["categories"] = [list(pair) for pair in zip(self.starts, self.sizes)]
            answer["number_shape"] = list(self.source)
        return answer

    def take(self, observation):
        for part in self.path:
            try:
                observation = observation[part]
            except (LookupError, TypeError) as error:
                raise ValueError(f"observation {self.name} is missing in {shown(observation)}") from error
        return observation

    def write(self, view, i, observation):
        """Writes its part of an observation of row i. Raises ValueError if it does not fit the space."""
        self.write_value(view, i, self.take(observation))

    def write_value(self, view, i, value):
        given, value = value, np.asarray(value)
        if value.dtype.kind not in "fiub":
            raise ValueError(f"observation {self.name} is {shown(given)}, expected numbers")
        if value.shape != self.source:
            raise ValueError(f"observation {self.name} has shape {list(value.shape)}, its space has {list(self.source)}")
        if self.kind in ("Box", "MultiBinary"):
            view[i] = value.reshape(self.shape)
            return
        row = view[i]
        row.fill(0)
        for number, size, start, offset in zip(value.reshape(-1).tolist(), self.sizes, self.starts, self.offsets):
            if not 0 <= number - start < size or number != int(number):
                raise ValueError(f"observation {self.name} has {number}, its space has {start} to {start + size - 1}")
            row[offset + int(number) - start] = 1


def leaves_of(space, path=()):
    kind = kind_of(space)
    if kind not in ("Dict", "Tuple"):
        return [Leaf(space, path)]
    parts = space.spaces.items() if kind == "Dict" else enumerate(space.spaces)
    return [leaf for key, part in parts for leaf in leaves_of(part, path + (key,))]


class Actions:
    """The action space: its description, and the conversion of a row's numbers to what step() takes."""

    def __init__(self, space):
        self.space_kind = kind_of(space)
        self.bins, self.low, self.high = [], [], []
        self.shape = ()
        if self.space_kind == "Discrete":
            self.kind, self.bins, self.start = "discrete", [int(space.n)], int(getattr(space, "start", 0))
        elif self.space_kind == "MultiDiscrete":
            self.kind, self.bins = "multi_discrete", [int(n) for n in np.ravel(space.nvec)]
            self.shape, self.dtype = tuple(np.shape(space.nvec)), getattr(space, "dtype", np.int64)
            start = getattr(space, "start", None)
            self.start = np.zeros(self.shape, self.dtype) if start is None else np.asarray(start, self.dtype)
        elif self.space_kind == "Box":
            self._read_box(space)
        else:
            raise Refused(
                "space",
                f"a {self.space_kind} action space is not supported, expected Discrete, " "MultiDiscrete or Box",
            )

    def _read_box(self, space):
        self.kind, self.shape, self.dtype = "continuous", tuple(int(x) for x in space.shape), np.dtype(space.dtype)
        if self.dtype.kind != "f":
            raise Refused(
                "space",
                f"the action space is a Box of {self.dtype.name}, expected float32 or float64, or a " "MultiDiscrete space",
            )
        # Rounded to float32 towards the inside, so that a clipped action is never outside of the space.
        for bound, towards, out in ((space.low, np.inf, self.low), (space.high, -np.inf, self.high)):
            for exact in np.ravel(bound).tolist():
                number = np.float32(exact)
                outside = number < exact if towards > 0 else number > exact
                out.append(float(np.nextafter(number, np.float32(towards)) if outside else number))
        for low, high in zip(self.low, self.high):
            if not (math.isfinite(low) and math.isfinite(high)):
                raise Refused(
                    "space",
                    f"the action space has the bounds {low} and {high}, expected finite ones; "
                    "gymnasium.wrappers.RescaleAction or an own wrapper can set them",
                )

    def masked_size(self):
        return sum(self.bins)

    @staticmethod
    def to_ints(numbers):
        return numbers[:, 0].tolist()

    def converter(self):
        """A function from the numbers of all rows, [N, A], to a list with each row's action."""
        if self.kind == "discrete":
            start = self.start
            if start == 0:
                return Actions.to_ints
            return lambda numbers: (numbers[:, 0] + start).tolist()
        shape, dtype = (-1, *self.shape), self.dtype
        if self.kind == "continuous":
            return lambda numbers: list(numbers.reshape(shape).astype(dtype))
        start = self.start
        return lambda numbers: list(numbers.reshape(shape).astype(dtype) + start)

    def batch(self, actions):
        """The actions of all rows, as a vector environment takes them."""
        return np.asarray(actions).astype(getattr(self, "dtype", np.int64)).reshape((len(actions), *self.shape))


def mode_of(env):
    """How a vector environment starts the next episode of a row: "NextStep", "SameStep" or "Disabled"."""
    mode = (getattr(env, "metadata", None) or {}).get("autoreset_mode")
    name = str(getattr(mode, "value", mode)).replace("_", "").lower()
    modes = {"nextstep": "NextStep", "samestep": "SameStep", "disabled": "Disabled"}
    if name not in modes:
        given = "no" if mode is None else f"the unknown value {mode!r} as"
        raise Refused(
            "make",
            f'the vector environment {type(env).__name__} has {given} metadata["autoreset_mode"], expected one of '
            f"gymnasium.vector.AutoresetMode: {', '.join(modes.values())}",
        )
    return modes[name]


def require_members(env, names):
    for name in names:
        if not hasattr(env, name):
            raise Refused("make", f"{type(env).__name__} has no {name}, expected an environment as Gymnasium has them")


class Spaces:
    """What a row observes and does, as JSON and as writers."""

    def __init__(self, observation_space, action_space, limit=0):
        self.actions = Actions(action_space)
        self.leaves = leaves_of(observation_space)
        self.mask = None
        masked = kind_of(observation_space) == "Dict" and "action_mask" in observation_space.spaces
        if masked and self.actions.kind != "continuous":
            self.mask = lambda observation: observation["action_mask"]
            self.leaves = [leaf for leaf in self.leaves if leaf.path[0] != "action_mask"]
        if not self.leaves:
            raise Refused("space", "the observation space has no arrays besides the mask, expected at least one")
        names = [leaf.name for leaf in self.leaves]
        for name in names:
            if names.count(name) > 1:
                raise Refused("space", f"two parts of the observation have the name {name}, expected different names")
        self.limit = int(limit or 0)

    def describe(self):
        return {
            "observations": [leaf.describe() for leaf in self.leaves],
            "action": {
                "kind": self.actions.kind,
                "bins": self.actions.bins,
                "low": self.actions.low,
                "high": self.actions.high,
                "masked": self.mask is not None,
            },
            "max_episode_steps": self.limit,
        }

    def write_mask(self, view, i, observation):
        self.write_mask_value(view, i, self.mask(observation))

    def write_mask_value(self, view, i, mask):
        if isinstance(mask, (tuple, list)):
            mask = np.concatenate([np.ravel(part) for part in mask])
        mask = np.ravel(np.asarray(mask))
        if len(mask) != self.actions.masked_size():
            raise ValueError(f"action_mask has {len(mask)} entries, expected {self.actions.masked_size()}")
        allowed = mask == 1
        known = allowed | (mask == 0)
        if not known.all():
            k = int(np.argmin(known))
            raise ValueError(f"entry {k} of action_mask is {mask[k]}, expected 0 (forbidden) or 1 (allowed)")
        view[i] = allowed

    def mask_of_row(self, masks, i):
        """The part for row i of the masks of a vector environment."""
        return [part[i] for part in masks] if isinstance(masks, tuple) else masks[i]

    def allow_where_none(self, mask):
        """Allows all categories of each choice for which a mask, [M] uint8, allows none."""
        at = 0
        for size in self.actions.bins:
            if not mask[at : at + size].any():
                mask[at : at + size] = 1
            at += size

    def allowed_action(self, mask):
        """Numbers of an action, [A], that this mask of an observation allows. `mask` is ignored if actions have none."""
        if self.mask is None:
            return first_action(self)
        view = np.zeros((1, self.actions.masked_size()), np.uint8)
        self.write_mask_value(view, 0, mask)
        return first_action(self, view[0])


def success_of(info):
    """Whether an episode succeeded, or None if the environment does not say."""
    for name in ("is_success", "success"):
        value = dict_of(info).get(name)
        if value is not None:
            return flag_of(f'info["{name}"]', value)
    return None


def first_action(spaces, mask=None):
    """Numbers of an action that is allowed, [A]. `mask` is [M], or none."""
    actions = spaces.actions
    if actions.kind == "continuous":
        return np.array(actions.low, np.float32)
    numbers = np.zeros(len(actions.bins), np.int32)
    at = 0
    for a, size in enumerate(actions.bins if mask is not None else []):
        numbers[a] = int(np.argmax(mask[at : at + size]))
        at += size
    return numbers


class Trial:
    """A reset and a step of an environment before the run, with their results checked as in the run."""

    def __init__(self, env, spaces):
        self.env, self.spaces = env, spaces
        self.convert = spaces.actions.converter()

    def reports_success(self):
        """Whether the environment says if an episode succeeded. Raises Refused for what a run could not use."""
        metadata = getattr(self.env, "metadata", None) or {}
        try:
            said = self.reset_and_step()
        except Exception:  # an environment may fail now and then: once more
            try:
                said = self.reset_and_step()
            except Mistake as error:
                raise Refused("contract", str(error)) from error
        return bool(metadata.get("reports_success")) or said

    def reset_and_step(self):
        masks, said = self.checked("reset", self.reset)
        return self.checked("step", self.step, masks) or said

    def checked(self, name, call, *arguments):
        """A call of the environment and the check of its results. Errors of the environment itself pass."""
        results = call(*arguments)
        try:
            return self.check_reset(*results) if name == "reset" else self.check_step(*results)
        except ValueError as error:
            text = str(error)
            raise Mistake(text if text.startswith(name) else f"{name}(): {text}") from error

    def observed(self, observation):
        """Checks an observation; returns its mask."""
        for leaf in self.spaces.leaves:
            view = np.zeros((1, *leaf.shape), leaf.dtype)
            leaf.write(view, 0, observation)
            if not np.isfinite(view).all():
                raise ValueError(f"observation {leaf.name} is {shown(leaf.take(observation))}, expected finite numbers")
        if self.spaces.mask is None:
            return None
        view = np.zeros((1, self.spaces.actions.masked_size()), np.uint8)
        self.spaces.write_mask(view, 0, observation)
        return self.spaces.mask(observation)

    def ended(self, reward, terminated, truncated):
        if not math.isfinite(number_of("the reward", reward)):
            raise ValueError(f"the reward is {shown(reward)}, expected a finite number")
        flag_of("terminated", terminated)
        flag_of("truncated", truncated)

    def reset(self):
        return (self.env.reset(seed=0),)

    def check_reset(self, result):
        observation, info = parts_of_reset(result)
        return self.observed(observation), success_of(info) is not None

    def step(self, mask):
        return (self.env.step(self.convert(self.spaces.allowed_action(mask)[None])[0]),)

    def check_step(self, result):
        observation, reward, terminated, truncated, info = parts_of_step(result)
        self.ended(reward, terminated, truncated)
        self.observed(observation)
        return success_of(info) is not None


class Mistake(Exception):
    """An environment returned something that no run could use."""


class VectorTrial(Trial):
    """The same of a vector environment, of which the first row is checked."""

    def reset(self):
        return (reset_result(self.env, [0] * int(self.env.num_envs)),)

    def check_reset(self, result):
        batch, info = parts_of_reset(result)
        self.observed(self.first(batch))
        masks = self.spaces.mask and self.spaces.mask(batch)
        rows = [None if masks is None else self.spaces.mask_of_row(masks, i) for i in range(int(self.env.num_envs))]
        return rows, success_of_rows(info) is not None

    def first(self, batch):
        """The observation of row 0."""
        result = {}
        for leaf in self.spaces.leaves:
            values, at = leaf.take(batch), result
            if np.ndim(values) == 0 or len(values) != int(self.env.num_envs):
                raise ValueError(f"observation {leaf.name} is {shown(values)}, expected {self.env.num_envs} rows")
            if not leaf.path:
                return values[0]
            for part in leaf.path[:-1]:
                at = at.setdefault(part, {})
            at[leaf.path[-1]] = values[0]
        if self.spaces.mask is not None:
            result["action_mask"] = self.spaces.mask_of_row(self.spaces.mask(batch), 0)
        return result

    def step(self, masks):
        actions = np.stack([self.spaces.allowed_action(mask) for mask in masks])
        return (self.env.step(self.spaces.actions.batch(self.convert(actions))),)

    def check_step(self, result):
        batch, rewards, terminated, truncated, info = parts_of_step(result)
        count = int(self.env.num_envs)
        flags = [flags_of_rows(*named, count) for named in (("terminated", terminated), ("truncated", truncated))]
        self.ended(numbers_of_rows("rewards", rewards, count)[0], *(each[0] for each in flags))
        self.observed(self.first(batch))
        return success_of_rows(info) is not None


class ZooTrial(Trial):
    """The same of a PettingZoo parallel environment."""

    def check_reset(self, result):
        observations, infos = parts_of_reset(result)
        masks = {agent: self.observed(self.of(observations, agent, "observations")) for agent in self.env.agents}
        return masks, any(success_of(info) is not None for info in dict_of(infos).values())

    def of(self, values, agent, name):
        if agent not in dict_of(values):
            raise ValueError(f"{name} has nothing for {agent}")
        return values[agent]

    def step(self, masks):
        actions = self.convert(np.stack([self.spaces.allowed_action(mask) for mask in masks.values()]))
        return self.env.step(dict(zip(masks, actions))), list(masks)

    def check_step(self, result, agents):
        observations, rewards, terminated, truncated, infos = parts_of_step(result)
        for agent in agents:
            named = ((rewards, "rewards"), (terminated, "terminated"), (truncated, "truncated"))
            self.ended(*(self.of(values, agent, name) for values, name in named))
            self.observed(self.of(observations, agent, "observations"))
        return any(success_of(info) is not None for info in dict_of(infos).values())


# ---- rows


def close(env):
    if hasattr(env, "close"):
        env.close()


class Block:
    """The shared memory of the rows of this server, and the errors of a step."""

    def __init__(self, spaces, layout, memory):
        self.spaces = spaces
        self.count, self.chunk = layout["rows"], layout["chunk"]
        arrays = {}
        for entry in layout["arrays"]:
            size = math.prod(entry["shape"])
            array = np.frombuffer(memory, dtype=entry["dtype"], count=size, offset=entry["offset"])
            arrays[entry["name"]] = array.reshape(entry["shape"])
        self.header = memoryview(arrays["header"])
        self.codes = [self.code_of(i, i + 1) for i in range(self.count)]
        self.commands, self.actions, self.seeds = arrays["command"], arrays["actions"], arrays["seed"]
        # Single numbers are written through memoryviews, which is faster than through numpy.
        self.rewards, self.executed = memoryview(arrays["rewards"]), memoryview(arrays["executed"])
        self.terminated, self.truncated = memoryview(arrays["terminated"]), memoryview(arrays["truncated"])
        self.success = memoryview(arrays["success"])
        self.mask = arrays.get("mask")
        self.observations = [arrays[f"observations/{k}"] for k in range(len(spaces.leaves))]
        self.finals = [arrays[f"final_observations/{k}"] for k in range(len(spaces.leaves))]
        self.convert = spaces.actions.converter()
        self.errors = []

    @staticmethod
    def code_of(first, end):
        """Rows as header[4] names those whose code of the user runs."""
        return (first << 32) + end

    def write(self, i, observation, views):
        for leaf, view in zip(self.spaces.leaves, views):
            leaf.write(view, i, observation)

    def write_next(self, i, observation):
        self.write(i, observation, self.observations)
        if self.mask is not None:
            self.spaces.write_mask(self.mask, i, observation)

    def fail(self, i, error, after_end=False):
        """Row i fails. `after_end`: only at the start of the next episode, so the step that ended the last one counts."""
        self.errors.append([i, text_of(error), lines_of(error, 30), bool(after_end)])

    def render(self, i):
        return ""


class Rows(Block):
    """Rows that are environments of their own."""

    def __init__(self, make, spare, spaces, layout, memory):
        super().__init__(spaces, layout, memory)
        self.make, self.spare = make, spare
        self.envs = [None] * self.count
        self.steps = [None] * self.count
        leaf = spaces.leaves[0]
        # The common case, one Box of rank 1 without a mask, is written without a loop over the parts of an observation.
        single = len(spaces.leaves) == 1 and leaf.kind == "Box" and not leaf.path and self.mask is None
        self.plain = single and len(leaf.source) == 1 and self.chunk == 1
        if self.plain:
            self.row_views = [memoryview(row) for row in self.observations[0]]
            first = self.actions[:, 0]
            discrete = self.convert is Actions.to_ints
            self.take_actions = first[:, 0].tolist if discrete else lambda: self.convert(first)

    def start(self, i, command):
        """Begins an episode in row i, and makes its environment first if there is none or `command` asks for it."""
        if command == REBUILD and self.envs[i] is not None:
            env, self.envs[i] = self.envs[i], None
            try:
                close(env)
            except Exception as error:
                print("close():", text_of(error))
        if self.envs[i] is None:
            env, self.spare = (self.spare, None) if self.spare is not None else (self.make(), None)
            self.envs[i], self.steps[i] = env, env.step
        seed = {"seed": int(self.seeds[i])} if command in (START_SEEDED, REBUILD) else {}
        observation, info = parts_of_reset(self.envs[i].reset(**seed))
        dict_of(info)
        self.write_next(i, observation)

    def finish(self, i, observation, terminated, truncated, info):
        """The end of an episode, and the beginning of the next one."""
        self.write(i, observation, self.finals)
        self.success[i] = bool(success_of(info))
        self.terminated[i], self.truncated[i] = terminated, truncated and not terminated
        try:
            observation, info = parts_of_reset(self.envs[i].reset())
            dict_of(info)
            self.write_next(i, observation)
        except (Exception, SystemExit) as error:
            self.fail(i, error, after_end=True)

    def step_plain(self):
        """One step of every row, in the common case."""
        rewards, header, codes, i = self.rewards, self.header, self.codes, 0
        for step, action, view in zip(self.steps, self.take_actions(), self.row_views):
            header[4] = codes[i]
            try:
                result = step(action)
                if type(result) is not tuple or len(result) != 5:
                    result = parts_of_step(result)
                observation, reward, terminated, truncated, info = result
                rewards[i] = reward if type(reward) is float else number_of("the reward", reward)
                if terminated is not False:
                    terminated = flag_of("terminated", terminated)
                if truncated is not False:
                    truncated = flag_of("truncated", truncated)
                if terminated or truncated:
                    self.finish(i, observation, terminated, truncated, info)
                else:
                    try:
                        view[:] = observation  # a memoryview takes only an array of its own shape and dtype
                    except (TypeError, ValueError):
                        self.write_next(i, observation)
            except (Exception, SystemExit) as error:
                self.fail(i, error)
            i += 1

    def step_chunk(self, i, actions):
        """The steps of one chunk in row i, until the episode ends."""
        total, executed, step = 0.0, 0, self.steps[i]
        for action in actions:
            observation, reward, terminated, truncated, info = parts_of_step(step(action))
            total += number_of("the reward", reward)
            terminated, truncated = flag_of("terminated", terminated), flag_of("truncated", truncated)
            executed += 1
            if terminated or truncated:
                break
        self.rewards[i], self.executed[i] = total, executed
        if terminated or truncated:
            self.finish(i, observation, terminated, truncated, info)
        else:
            self.write_next(i, observation)

    def step_general(self, commands):
        by_step = [self.convert(self.actions[:, k]) for k in range(self.chunk)]
        for i, command in enumerate(commands):
            if command == SKIP:
                continue
            self.header[4] = self.codes[i]
            try:
                if command == STEP:
                    self.step_chunk(i, [actions[i] for actions in by_step])
                else:
                    self.start(i, command)
            except (Exception, SystemExit) as error:
                self.fail(i, error)

    def step(self, all_rows):
        """Executes the commands of all rows. Returns the errors: row, line and traceback of each."""
        self.errors = []
        if all_rows and self.plain:
            self.step_plain()
        else:
            self.step_general(self.commands.tolist())
        return self.errors

    def render(self, i):
        env = self.envs[i]
        if env is None or getattr(env, "render_mode", None) != "ansi":
            return ""
        picture = env.render()
        return picture if isinstance(picture, str) else ""

    def close(self):
        for env in self.envs + [self.spare]:
            if env is not None:
                close(env)


def close_quietly(env):
    try:
        close(env)
    except Exception as error:
        print("close():", text_of(error))


class SharedRows(Block):
    """Rows that cannot be stepped one by one. A row that executes no step, because its episode is over or because it
    cannot start yet, gets executed 0; its observation is then the one to act on next."""

    def __init__(self, spaces, layout, memory):
        super().__init__(spaces, layout, memory)
        self.default = first_action(spaces)

    def numbers_of(self, i, command):
        """The action of row i as numbers, [A]. A row without a policy takes one that is allowed."""
        if command == STEP:
            return self.actions[i, 0]
        return self.default if self.mask is None else first_action(self.spaces, self.mask[i])

    def allow_all(self, i):
        """For a row without an observation."""
        if self.mask is not None:
            self.mask[i] = 1

    def keep_last(self, i):
        """The observation of row i is the last one of its episode."""
        for final, observation in zip(self.finals, self.observations):
            final[i] = observation[i]
        if self.mask is not None:  # a mask may allow nothing after the end of an episode
            self.spaces.allow_where_none(self.mask[i])

    def end(self, i, terminated, truncated, success):
        self.terminated[i], self.truncated[i] = bool(terminated), bool(truncated and not terminated)
        self.success[i] = bool(success)

    def fail_all(self, rows, error, ended=()):
        """All of these rows fail because of the same exception, which is reported with one traceback. Rows in `ended`
        fail after the end of their episodes."""
        for k, i in enumerate(rows):
            self.errors.append([int(i), text_of(error), lines_of(error, 30) if k == 0 else [], i in ended])


def value_of_row(infos, name, i):
    """The value that the infos of a vector environment have for row i; none if there is none."""
    values, given = infos.get(name), infos.get("_" + name)
    if values is None or (given is not None and not given[i]):
        return None
    return values[i] if np.ndim(values) > 0 else values


def success_of_rows(infos):
    """What the infos of a vector environment say about success in any row; None if they do not."""
    return next((infos[name] for name in ("is_success", "success") if dict_of(infos).get(name) is not None), None)


def reset_result(env, seeds, **given):
    """Resets a vector environment. One whose reset() takes no list of seeds gets the first one."""
    if all(seed is None for seed in seeds):
        return env.reset(**given)
    try:
        return env.reset(seed=seeds, **given)
    except Exception as error:
        try:
            return env.reset(seed=next(seed for seed in seeds if seed is not None), **given)
        except Exception:
            raise error from None


def reset_vector(env, seeds, **given):
    """The same; returns the observations."""
    return parts_of_reset(reset_result(env, seeds, **given))[0]


class VectorRows(SharedRows):
    """Rows of one gymnasium.vector.VectorEnv."""

    def __init__(self, make, env, spaces, layout, memory):
        super().__init__(spaces, layout, memory)
        self.make, self.env, self.mode = make, env, mode_of(env)
        self.over = np.zeros(self.count, bool)  # rows whose episode the last step ended, if the next one restarts them
        self.fresh = True  # whether no episode has begun since the environment was made

    def step(self, all_rows):
        self.errors = []
        self.header[4] = self.code_of(0, self.count)
        commands = [STEP] * self.count if all_rows else self.commands.tolist()
        try:
            if STEP in commands:
                self.step_all(commands)
            else:
                self.start_all(commands)
        except (Exception, SystemExit) as error:
            self.errors = []
            self.fail_all([i for i, command in enumerate(commands) if command != SKIP], error)
        return self.errors

    def start_all(self, commands):
        if REBUILD in commands and not self.fresh and self.env is not None:
            close_quietly(self.env)
            self.env = None
        if self.env is None:
            self.env, self.fresh = self.make(), True
        some = self.mode == "Disabled" and not self.fresh
        self.fresh = False
        observation = self.reset(commands, np.array([c != SKIP for c in commands]) if some else None)
        self.over[:] = False
        self.write_rows(range(self.count) if not some else np.flatnonzero(self.commands), observation)

    def reset(self, commands, rows=None):
        """Resets the environment, or these rows of it, [N] bool. Returns the observations."""
        seeded = (START_SEEDED, REBUILD)
        seeds = [int(self.seeds[i]) if c in seeded else None for i, c in enumerate(commands)]
        given = {} if rows is None else {"options": {"reset_mask": rows}}
        return reset_vector(self.env, seeds, **given)

    def batch_of_actions(self, commands):
        numbers = self.actions[:, 0]
        if any(command != STEP for command in commands):
            numbers = np.stack([self.numbers_of(i, command) for i, command in enumerate(commands)])
        return self.spaces.actions.batch(self.convert(numbers))

    def write_rows(self, rows, batch, begun=None):
        """Writes these rows of a batch of observations, [N, ...] each. Rows that do not fit their space fail; `begun`,
        [N] bool, says in which an episode ended and this observation is the first of the next one."""
        failed = {}
        for leaf, view in zip(self.spaces.leaves, self.observations):
            values = leaf.take(batch)
            if leaf.kind in ("Box", "MultiBinary") and np.shape(values) == (self.count, *leaf.source):
                chosen = slice(None) if len(rows) == self.count else np.asarray(rows)
                view[chosen] = np.asarray(values).reshape(view.shape)[chosen]
                continue
            if len(values) != self.count:
                raise ValueError(f"observation {leaf.name} has {len(values)} rows, expected {self.count}")
            for i in rows:
                try:
                    leaf.write_value(view, i, values[i])
                except ValueError as error:
                    failed.setdefault(int(i), error)
        if self.mask is not None:
            masks = self.spaces.mask(batch)
            for i in rows:
                try:
                    self.spaces.write_mask_value(self.mask, i, self.spaces.mask_of_row(masks, i))
                except ValueError as error:
                    failed.setdefault(int(i), error)
        for i, error in failed.items():
            if self.commands[i] != SKIP:
                self.fail(i, error, begun is not None and begun[i])

    def step_all(self, commands):
        result = parts_of_step(self.env.step(self.batch_of_actions(commands)))
        observation, rewards, terminated, truncated, infos = result
        rewards = numbers_of_rows("rewards", rewards, self.count)
        terminated = flags_of_rows("terminated", terminated, self.count)
        truncated = flags_of_rows("truncated", truncated, self.count)
        done = terminated | truncated
        self.write_rows(range(self.count), observation, done if self.mode == "SameStep" else None)
        # A row that is to start does so where an episode has just begun.
        begun = self.over if self.mode == "NextStep" else done
        for i, command in enumerate(commands):
            if command == SKIP:
                continue
            if command != STEP:
                self.executed[i] = int(begun[i] or self.mode == "Disabled")
            elif self.mode == "NextStep" and self.over[i]:
                self.executed[i] = 0
            else:
                self.rewards[i] = rewards[i]
                if done[i]:
                    self.finish(i, terminated[i], truncated[i], infos)
        if self.mode == "NextStep":
            self.over = done
        elif self.mode == "Disabled":
            again = done | np.array([command not in (STEP, SKIP) for command in commands])
            if again.any():
                self.start_again(commands, again, done)

    def start_again(self, commands, again, done):
        """Resets the rows `again` of a vector environment that does not do it itself."""
        try:
            observation = self.reset(commands, again)
        except (Exception, SystemExit) as error:
            ended = [i for i, command in enumerate(commands) if command == STEP and done[i]]
            self.fail_all([i for i, command in enumerate(commands) if command != SKIP], error, ended)
        else:
            self.write_rows(np.flatnonzero(again), observation, done)

    def finish(self, i, terminated, truncated, infos):
        if self.mode == "SameStep":
            finals = infos.get("final_obs")
            if finals is None:
                raise ValueError('the infos of a step that ended an episode have no "final_obs"')
            for leaf, view in zip(self.spaces.leaves, self.finals):
                # An array of observations, or arrays [N, ...] in the structure of an observation.
                one_by_one = isinstance(finals, np.ndarray) and finals.dtype == object
                leaf.write_value(view, i, leaf.take(finals[i]) if one_by_one else leaf.take(finals)[i])
            infos = infos.get("final_info", infos)
        else:
            self.keep_last(i)
        values = {name: value_of_row(infos, name, i) for name in ("is_success", "success")}
        self.end(i, terminated, truncated, success_of(values))

    def close(self):
        if self.env is not None:
            close_quietly(self.env)


class World:
    """One PettingZoo parallel environment, whose agents are rows from `first` on."""

    def __init__(self, make, env, rows, first):
        self.make, self.env, self.rows, self.first = make, env, rows, first
        self.agents = list(env.possible_agents) if env is not None else []

    def index(self, agent):
        return self.first + self.agents.index(agent)

    def start(self, commands):
        """Begins an episode of all agents. `commands` are those of its rows."""
        if self.env is None or REBUILD in commands:
            if self.env is not None:
                close_quietly(self.env)
            self.env = None
            self.env = self.make()
            self.agents = list(self.env.possible_agents)
        seeded = [k for k, command in enumerate(commands) if command in (START_SEEDED, REBUILD)]
        seed = {"seed": int(self.rows.seeds[self.first + seeded[0]])} if seeded else {}
        self.begin(parts_of_reset(self.env.reset(**seed))[0])

    def begin(self, observations):
        for agent in self.agents:
            i = self.index(agent)
            if agent in observations:
                self.rows.write_next(i, observations[agent])
            else:
                self.blank(i)

    def blank(self, i):
        for view in self.rows.observations:
            view[i] = 0
        self.rows.allow_all(i)

    def step(self, commands):
        rows, before = self.rows, list(self.env.agents)
        numbers = [rows.numbers_of(self.first + k, command) for k, command in enumerate(commands)]
        actions = dict(zip(self.agents, rows.convert(np.stack(numbers))))
        result = parts_of_step(self.env.step({agent: actions[agent] for agent in before}))
        over = not self.env.agents
        for k, agent in enumerate(self.agents):
            i = self.first + k
            if agent not in before or commands[k] != STEP:
                rows.executed[i] = int(over and commands[k] != STEP)
                if not over and agent in result[0]:
                    rows.write_next(i, result[0][agent])  # the mask of a row without a policy
                continue
            self.take(i, agent, result)
        if over:
            self.start_again(commands, before)

    def start_again(self, commands, acted):
        try:
            self.begin(parts_of_reset(self.env.reset())[0])
        except (Exception, SystemExit) as error:
            mine = [self.first + k for k, command in enumerate(commands) if command != SKIP]
            ended = [i for i in mine if commands[i - self.first] == STEP and self.agents[i - self.first] in acted]
            self.rows.fail_all(mine, error, ended)

    def take(self, i, agent, result):
        rows, (observations, rewards, terminated, truncated, infos) = self.rows, result
        rows.rewards[i] = number_of(f"the reward of {agent}", rewards.get(agent, 0.0))
        if agent in observations:
            rows.write_next(i, observations[agent])
        ended = flag_of(f"terminated of {agent}", terminated.get(agent, False))
        cut = flag_of(f"truncated of {agent}", truncated.get(agent, False))
        if ended or cut or agent not in self.env.agents:
            rows.keep_last(i)
            rows.end(i, ended, not ended, success_of(infos.get(agent, {})))


class ZooRows(SharedRows):
    """Rows that are the agents of PettingZoo parallel environments."""

    def __init__(self, make, env, spaces, layout, memory):
        super().__init__(spaces, layout, memory)
        self.agents = len(env.possible_agents)
        self.worlds = [World(make, None, self, first) for first in range(0, self.count, self.agents)]
        self.worlds[0] = World(make, env, self, 0)

    def step(self, all_rows):
        self.errors = []
        commands = [STEP] * self.count if all_rows else self.commands.tolist()
        for world in self.worlds:
            chosen = range(world.first, world.first + self.agents)
            mine = [commands[i] for i in chosen]
            self.header[4] = self.code_of(chosen.start, chosen.stop)
            try:
                if STEP in mine:
                    world.step(mine)
                elif any(command != SKIP for command in mine):
                    world.start(mine)
            except (Exception, SystemExit) as error:
                self.fail_all([i for i in chosen if commands[i] != SKIP], error)
        return self.errors

    def close(self):
        for world in self.worlds:
            if world.env is not None:
                close_quietly(world.env)


# ---- the socket


class Connection:
    def __init__(self, descriptor):
        self.socket = socket.socket(fileno=descriptor)
        self.socket.setblocking(True)
        self.files = []

    def read(self, count):
        data = b""
        while len(data) < count:
            part = self.socket.recv(count - len(data))
            if not part:
                sys.exit(0)  # troupe has closed its end
            data += part
        return data

    def read_json(self):
        return json.loads(self.read(struct.unpack("<I", self.read(4))[0]))

    def read_request(self):
        """The next request, which is JSON. Files that come with it are added to `files`."""
        first, files, _, _ = socket.recv_fds(self.socket, 1, 3)
        self.files += files
        if first != b"j":
            sys.exit(0 if not first else f"unexpected message {first!r}")
        return self.read_json()

    def send_json(self, value):
        data = json.dumps(value).encode()
        self.socket.sendall(b"j" + struct.pack("<I", len(data)) + data)


def single_description(env):
    """The spaces of an environment and the class of its rows."""
    require_members(env, ("observation_space", "action_space", "reset", "step"))
    limit = getattr(getattr(env, "spec", None), "max_episode_steps", None)
    return Spaces(env.observation_space, env.action_space, limit), Rows


def vector_description(env, rows):
    require_members(env, ("single_action_space", "num_envs", "reset", "step"))
    mode_of(env)
    if int(env.num_envs) != rows:
        raise Refused(
            "make",
            f"the vector environment {type(env).__name__} has {env.num_envs} rows, expected {rows}; give the callable "
            "a parameter num_envs, which troupe sets",
        )
    limit = getattr(env, "max_episode_steps", None) or getattr(getattr(env, "spec", None), "max_episode_steps", None)
    return Spaces(env.single_observation_space, env.single_action_space, limit), VectorRows


def parallel_description(env):
    for name in ("possible_agents", "observation_space", "action_space", "reset", "step"):
        if not hasattr(env, name):
            raise Refused("make", f"{type(env).__name__} has no {name}, expected a parallel environment as PettingZoo has them")
    agents = list(env.possible_agents)
    if not agents:
        raise Refused("make", f"{type(env).__name__} has no possible_agents, expected at least one")
    spaces = [Spaces(env.observation_space(agent), env.action_space(agent)) for agent in agents]
    for agent, other in zip(agents, spaces):
        for part, text in (("observations", "observation"), ("action", "action")):
            if other.describe()[part] != spaces[0].describe()[part]:
                raise Refused(
                    "space",
                    f"the agents {agents[0]} and {agent} have different {text} spaces, expected the same for all "
                    "agents, because they share one policy; wrappers of the package supersuit can pad them",
                )
    return spaces[0], ZooRows


def describe(request):
    """The answer to the first request, and what is needed for the second: make, a first environment, its spaces, the
    class of its rows."""
    if np is None:
        return {"error": {"kind": "no_numpy", "text": "numpy is not installed", "traceback": []}}, None
    try:
        make = maker_of(request["id"], request["params"], request["rows"])
        env = make()
        if request["id"].startswith("zoo:"):
            spaces, kind = parallel_description(env)
        elif hasattr(env, "single_observation_space"):
            spaces, kind = vector_description(env, request["rows"])
        else:
            spaces, kind = single_description(env)
        answer = spaces.describe()
        answer["shared"] = kind is not Rows
        answer["agents"] = len(env.possible_agents) if kind is ZooRows else 1
        if request["probe"]:
            trial = {Rows: Trial, VectorRows: VectorTrial, ZooRows: ZooTrial}[kind]
            answer["reports_success"] = trial(env, spaces).reports_success()
        return {"spaces": answer}, (make, env, spaces, kind)
    except Refused as error:
        return {"error": {"kind": error.kind, "text": printable(str(error)), "traceback": []}}, None
    except (Exception, SystemExit) as error:
        return {"error": {"kind": "make", "text": text_of(error), "traceback": lines_of(error, 60)}}, None


def picture_of(rows, message):
    try:
        return rows.render(message["render"])
    except Exception as error:
        return text_of(error)


def serve(connection, rows, requested, replied):
    """Answers requests until troupe closes the connection or ends."""
    read, write, one = os.read, os.write, (1).to_bytes(8, sys.byteorder)
    header, step = rows.header, rows.step
    while True:
        read(requested, 8)
        request, kind = header[0], header[1]
        if kind == STEP_ALL or kind == STEP_ROWS:
            errors = step(kind == STEP_ALL)
            header[3] = 1 if errors else 0
            if errors:
                connection.send_json({"errors": errors})
            header[2], header[4] = request, 0
            write(replied, one)
        elif kind == MESSAGE:
            connection.send_json({"picture": picture_of(rows, connection.read_request())})
        else:
            rows.close()
            return


def main():
    # A module that the id names is looked up in the working folder, not in the folder of this file.
    sys.path[0] = os.getcwd()
    sys.meta_path.insert(0, MujocoImport())
    faulthandler.enable(file=int(sys.argv[2]), all_threads=True)
    connection = Connection(int(sys.argv[1]))
    answer, made = describe(connection.read_request())
    connection.send_json(answer)
    if made is None:
        return
    make, env, spaces, kind = made
    layout = connection.read_request()
    file, requested, replied = connection.files
    block = mmap.mmap(file, layout["bytes"])
    rows = kind(make, env, spaces, layout, block)
    gc.collect()
    gc.freeze()  # modules and spaces live as long as the process
    serve(connection, rows, requested, replied)


if __name__ == "__main__":
    main()
