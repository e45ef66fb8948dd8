"""The spaces of an environment: their description, and the conversion between its values and arrays."""

import math

from troupe_env_server import np
from troupe_env_server.values import Refused, dict_of, flag_of, shown


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
        self.called = f"observation {self.name}" if path else "the observation"  # in messages
        self.kind = kind_of(space)
        where = self.called
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
                raise ValueError(f"{self.called} is missing in {shown(observation)}") from error
        return observation

    def write(self, view, i, observation):
        """Writes its part of an observation of row i. Raises ValueError if it does not fit the space."""
        self.write_value(view, i, self.take(observation))

    def write_value(self, view, i, value):
        given, value = value, np.asarray(value)
        if value.dtype.kind not in "fiub":
            raise ValueError(f"{self.called} is {shown(given)}, expected numbers")
        if value.shape != self.source:
            raise ValueError(f"{self.called} has shape {list(value.shape)}, its space has {list(self.source)}")
        if self.kind in ("Box", "MultiBinary"):
            view[i] = value.reshape(self.shape)
            return
        row = view[i]
        row.fill(0)
        for number, size, start, offset in zip(value.reshape(-1).tolist(), self.sizes, self.starts, self.offsets):
            if not 0 <= number - start < size or number != int(number):
                raise ValueError(f"{self.called} has {number}, its space has {start} to {start + size - 1}")
            row[offset + int(number) - start] = 1


def leaves_of(space, path=()):
    kind = kind_of(space)
    if kind not in ("Dict", "Tuple"):
        return [Leaf(space, path)]
    parts = space.spaces.items() if kind == "Dict" else enumerate(space.spaces)
    return [leaf for key, part in parts for leaf in leaves_of(part, path + (key,))]


def integer_dtype(space):
    """The dtype of the integers of a space; int64 if it names none."""
    dtype = getattr(space, "dtype", None)
    found = np.dtype(np.int64 if dtype is None else dtype)
    return found if found.kind in "iu" else np.dtype(np.int64)


class Actions:
    """The action space: its description, and the conversion of a row's numbers to what step() takes."""

    def __init__(self, space):
        self.space_kind = kind_of(space)
        self.bins, self.low, self.high = [], [], []
        self.shape, self.dtype = (), integer_dtype(space)
        if self.space_kind == "Discrete":
            self.kind, self.bins, self.start = "discrete", [int(space.n)], int(getattr(space, "start", 0))
        elif self.space_kind == "MultiDiscrete":
            self.kind, self.bins = "multi_discrete", [int(n) for n in np.ravel(space.nvec)]
            self.shape = tuple(np.shape(space.nvec))
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

    def describe(self):
        return {
            "kind": self.kind,
            "bins": self.bins,
            "low": self.low,
            "high": self.high,
            "starts": [] if self.kind == "continuous" else np.ravel(self.start).tolist(),
            "number_shape": list(self.shape),
            "number_dtype": self.dtype.name,
        }

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
        return np.asarray(actions).astype(self.dtype).reshape((len(actions), *self.shape))


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
            "action": {**self.actions.describe(), "masked": self.mask is not None},
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
