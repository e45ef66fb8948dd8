"""Environment server: the process in which troupe runs environments that are written in Python.

troupe starts it as `PYTHON env_server.py DESCRIPTOR`, where DESCRIPTOR is one end of a socket pair. It needs Python 3.9
and numpy, and Gymnasium for ids that begin with "gym:". The other side is envs/bridge/server_process.h.

A message on the socket is the byte "j", four bytes with a length, and as many bytes of JSON. The first one asks for the
spaces of the environment. The second one brings a block of shared memory and two eventfds. From then on, each request
comes by the first eventfd, its kind is in the header of the block, and the second eventfd answers that it is done. All
arrays of a step are in the block.
"""

import gc
import importlib
import importlib.util
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


# ---- making environments


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


def maker_of(env_id, params):
    """A function that makes one environment."""
    scheme, _, target = env_id.partition(":")
    if scheme == "py":
        make = find_callable(target)
        return lambda: make(**params)
    try:
        import gymnasium
    except ImportError as error:
        if error.name not in (None, "gymnasium"):
            raise
        raise Refused("no_gymnasium", "gymnasium is not installed") from error
    return lambda: gymnasium.make(target, **params)


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
                f"{where}: a {self.kind} space is not supported, expected Box, Discrete, "
                "MultiDiscrete, MultiBinary, Dict or Tuple",
            )
        self.shape = self.source or (1,)
        if self.kind in ("Discrete", "MultiDiscrete"):
            self.shape = (sum(self.sizes),)
            self.offsets = [sum(self.sizes[:k]) for k in range(len(self.sizes))]

    def take(self, observation):
        for part in self.path:
            observation = observation[part]
        return observation

    def write(self, view, i, observation):
        """Writes its part of an observation of row i. Raises ValueError if it does not fit the space."""
        value = np.asarray(self.take(observation))
        if value.shape != self.source:
            raise ValueError(
                f"observation {self.name} has shape {list(value.shape)}, its space has {list(self.source)}"
            )
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
                f"the action space is a Box of {self.dtype.name}, expected float32 or float64, or a "
                "MultiDiscrete space",
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


class Spaces:
    """What an environment observes and does, as JSON and as writers."""

    def __init__(self, env):
        for name in ("observation_space", "action_space", "reset", "step"):
            if not hasattr(env, name):
                raise Refused(
                    "make", f"{type(env).__name__} has no {name}, expected an environment as Gymnasium has them"
                )
        if hasattr(env, "single_observation_space"):
            raise Refused(
                "make",
                f"{type(env).__name__} is a vector environment, expected a single one: troupe makes "
                "env.rows of them",
            )
        self.actions = Actions(env.action_space)
        space = env.observation_space
        self.leaves = leaves_of(space)
        self.mask = None
        if kind_of(space) == "Dict" and "action_mask" in space.spaces and self.actions.kind != "continuous":
            self.mask = lambda observation: observation["action_mask"]
            self.leaves = [leaf for leaf in self.leaves if leaf.path[0] != "action_mask"]
        if not self.leaves:
            raise Refused("space", "the observation space has no arrays besides the mask, expected at least one")
        self.limit = getattr(getattr(env, "spec", None), "max_episode_steps", None)

    def describe(self):
        return {
            "observations": [{"name": x.name, "dtype": x.dtype, "shape": list(x.shape)} for x in self.leaves],
            "action": {
                "kind": self.actions.kind,
                "bins": self.actions.bins,
                "low": self.actions.low,
                "high": self.actions.high,
                "masked": self.mask is not None,
            },
            "max_episode_steps": int(self.limit or 0),
        }

    def write_mask(self, view, i, observation):
        mask = self.mask(observation)
        if isinstance(mask, (tuple, list)):
            mask = np.concatenate([np.ravel(part) for part in mask])
        mask = np.ravel(np.asarray(mask))
        if len(mask) != self.actions.masked_size():
            raise ValueError(f"action_mask has {len(mask)} entries, expected {self.actions.masked_size()}")
        view[i] = mask != 0


def success_of(info):
    """Whether an episode succeeded, or None if the environment does not say."""
    value = info.get("is_success")
    return info.get("success") if value is None else value


def reports_success(env, spaces):
    """Whether the infos of a reset or of a first step contain the success of an episode."""
    observation, info = env.reset(seed=0)
    if (getattr(env, "metadata", None) or {}).get("reports_success") or success_of(info) is not None:
        return True
    numbers = np.zeros((1, max(1, len(spaces.actions.bins), len(spaces.actions.low))))
    if spaces.actions.kind == "continuous":
        numbers[0] = spaces.actions.low
    elif spaces.mask is not None:
        view = np.zeros((1, spaces.actions.masked_size()), np.uint8)
        spaces.write_mask(view, 0, observation)
        at = 0
        for a, size in enumerate(spaces.actions.bins):
            numbers[0, a] = int(view[0, at : at + size].argmax())
            at += size
    numbers = numbers.astype(np.float32 if spaces.actions.kind == "continuous" else np.int32)
    try:
        result = env.step(spaces.actions.converter()(numbers)[0])
    except Exception:  # an environment may fail now and then; a run reports it
        return False
    if len(result) != 5:
        raise Refused(
            "make",
            f"step() returned {len(result)} values, expected 5: observation, reward, terminated, "
            "truncated, info (Gymnasium 0.26 or later)",
        )
    return success_of(result[4]) is not None


# ---- rows


def close(env):
    if hasattr(env, "close"):
        env.close()


class Rows:
    """The rows of this server and their shared memory."""

    def __init__(self, make, spare, spaces, layout, block):
        self.make, self.spare, self.spaces = make, spare, spaces
        self.count, self.chunk = layout["rows"], layout["chunk"]
        self.envs = [None] * self.count
        self.steps = [None] * self.count
        arrays = {}
        for entry in layout["arrays"]:
            size = math.prod(entry["shape"])
            array = np.frombuffer(block, dtype=entry["dtype"], count=size, offset=entry["offset"])
            arrays[entry["name"]] = array.reshape(entry["shape"])
        self.header = memoryview(arrays["header"])
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
        leaf = spaces.leaves[0]
        # The common case, one Box of rank 1 without a mask, is written without a loop over the parts of an observation.
        single = len(spaces.leaves) == 1 and leaf.kind == "Box" and not leaf.path and self.mask is None
        self.plain = single and len(leaf.source) == 1 and self.chunk == 1
        if self.plain:
            self.row_views = [memoryview(row) for row in self.observations[0]]
            first = self.actions[:, 0]
            discrete = self.convert is Actions.to_ints
            self.take_actions = first[:, 0].tolist if discrete else lambda: self.convert(first)

    def write(self, i, observation, views):
        for leaf, view in zip(self.spaces.leaves, views):
            leaf.write(view, i, observation)

    def write_next(self, i, observation):
        self.write(i, observation, self.observations)
        if self.mask is not None:
            self.spaces.write_mask(self.mask, i, observation)

    def fail(self, i, error):
        self.errors.append([i, text_of(error), lines_of(error, 30)])

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
        observation, _ = self.envs[i].reset(**seed)
        self.write_next(i, observation)

    def finish(self, i, observation, terminated, truncated, info):
        """The end of an episode: writes its last observation. Returns the first one of the next episode."""
        self.write(i, observation, self.finals)
        success = bool(success_of(info)) if info else False
        observation, _ = self.envs[i].reset()
        self.terminated[i], self.truncated[i] = bool(terminated), bool(truncated and not terminated)
        self.success[i] = success
        return observation

    def step_plain(self):
        """One step of every row, in the common case."""
        rewards, i = self.rewards, 0
        for step, action, view in zip(self.steps, self.take_actions(), self.row_views):
            try:
                observation, reward, terminated, truncated, info = step(action)
                rewards[i] = reward
                if terminated or truncated:
                    observation = self.finish(i, observation, terminated, truncated, info)
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
            observation, reward, terminated, truncated, info = step(action)
            total += float(reward)
            executed += 1
            if terminated or truncated:
                break
        if terminated or truncated:
            observation = self.finish(i, observation, terminated, truncated, info)
        self.write_next(i, observation)
        self.rewards[i], self.executed[i] = total, executed

    def step_general(self, commands):
        by_step = [self.convert(self.actions[:, k]) for k in range(self.chunk)]
        for i, command in enumerate(commands):
            if command == SKIP:
                continue
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


def describe(request):
    """The answer to the first request, and what is needed for the second: make, a first environment, its spaces."""
    if np is None:
        return {"error": {"kind": "no_numpy", "text": "numpy is not installed", "traceback": []}}, None
    try:
        make = maker_of(request["id"], request["params"])
        env = make()
        spaces = Spaces(env)
        answer = spaces.describe()
        if request["probe"]:
            answer["reports_success"] = reports_success(env, spaces)
        return {"spaces": answer}, (make, env, spaces)
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
            header[2] = request
            write(replied, one)
        elif kind == MESSAGE:
            connection.send_json({"picture": picture_of(rows, connection.read_request())})
        else:
            rows.close()
            return


def main():
    # A module that the id names is looked up in the working folder, not in the folder of this file.
    sys.path[0] = os.getcwd()
    connection = Connection(int(sys.argv[1]))
    answer, made = describe(connection.read_request())
    connection.send_json(answer)
    if made is None:
        return
    make, env, spaces = made
    layout = connection.read_request()
    file, requested, replied = connection.files
    block = mmap.mmap(file, layout["bytes"])
    rows = Rows(make, env, spaces, layout, block)
    gc.collect()
    gc.freeze()  # modules and spaces live as long as the process
    serve(connection, rows, requested, replied)


if __name__ == "__main__":
    main()
