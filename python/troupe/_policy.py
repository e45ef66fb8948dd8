"""troupe.load: a trained policy in numpy, from the files of its checkpoint."""

import json
from pathlib import Path

import numpy as np

from troupe._network import Network, called
from troupe._program import describe_env
from troupe._run import folder_of
from troupe._spec import check_spec
from troupe._weights import find_checkpoint, read_safetensors


def _spec_of(config):
    """The observations and actions of the run's environment, which the program tells; the actions as the environment takes them."""
    env = config["env"]
    settings = [f"env.params.{key}={json.dumps(value)}" for key, value in env["params"].items()]
    if env.get("chunk"):
        settings.append(f"env.chunk={env['chunk']}")
    if ":" in env["id"]:
        settings.append(f"env.python={json.dumps(env['python'])}")
    return describe_env(env["id"], settings)


def load(run, checkpoint="newest", spec=None):
    """The policy of a checkpoint (troupe.Policy).

    run: a troupe.Run or the path of a run folder.
    checkpoint: "newest", "best" (of a run with checkpoint.keep_best) or a number of updates.
    spec: the observations and actions of the environment, as `troupe envs ID --json` prints them and Policy.spec holds them. None: the
        program troupe is asked, which makes the environment once. Pass it on a machine without the program or the environment.

    Raises FileNotFoundError if there is no such run or checkpoint; ValueError for damaged files, for networks that cannot be
    computed with numpy alone (image encoders, language models), and for a spec that does not fit the weights; RunError if the
    program cannot describe the environment.
    """
    if run is None:
        raise TypeError("run is None, expected a troupe.Run or the path of a run folder")
    folder = folder_of(run)
    if folder is None:
        raise FileNotFoundError("the run has no run folder yet")
    path = find_checkpoint(folder, "newest" if checkpoint is None else checkpoint)
    config = json.loads((Path(folder) / "config.json").read_text(encoding="utf-8"))
    if config["model"]["kind"] == "decoder":
        raise ValueError(f"{folder}: model.kind is 'decoder', expected mlp or net")
    tensors = read_safetensors(path / "model.safetensors")
    spec = spec if spec is not None else _spec_of(config)
    check_spec(spec, config, tensors)
    return Policy(config["model"], tensors, spec, path, normalizes_actions=config["env"].get("normalize_actions", False))


class Policy:
    """A trained policy. Letters: B rows, K steps of an action chunk, A dimensions of an action, S numbers of recurrent state.

    `spec` describes the environment, `checkpoint` is the folder of the weights, `state_size` is S, 0 for a policy without memory.
    """

    def __init__(self, model, tensors, spec, checkpoint, normalizes_actions=False):
        self.spec = spec
        self._normalizes_actions = normalizes_actions
        self.checkpoint = checkpoint
        self._network = Network(model, tensors, spec["observations"])
        self._log_std = tensors.get("policy.log_std")
        self.state_size = self._network.state_size

    def __repr__(self):
        return f"<troupe.Policy of {self.spec.get('id')}, {self.checkpoint}>"

    def initial_state(self, rows):
        """The state at the beginning of an episode: zeros [rows, S] float32."""
        return np.zeros((rows, self.state_size), np.float32)

    def predict(self, observations, state=None, deterministic=True, action_mask=None, rng=None):
        """The actions for a batch of observations, and the state after them: (actions, state).

        observations: what the environment gives: an array [B, ...], or a dict or tuple of them if it has several. Without the dimension B:
            of one row; the results have no dimension B then either. Discrete and MultiDiscrete parts are the integers of the environment,
            or floats that are one-hot already.
        state: [B, S], of the last call; None at the beginning of episodes. Set a row to 0 when its episode begins.
        deterministic: the most likely action; otherwise an action is drawn with `rng`: a numpy.random.Generator, None for a new one, or
            the seed of a new one, with which each call draws the same.
        action_mask: [B, M], not 0 for allowed categories; by default observations["action_mask"]. Required if the environment has masks.

        Actions are what step() of the environment gets in training. Of an environment in Python: [B, ...] with the shape and dtype of its
        action space, `start` included, and [B, K, ...] if actions are chunks of K steps. Of one in C++ or C: int64 [B] for a discrete
        action, int64 [B, A] for several, float32 [B, A] if continuous; [B, K, A] if actions are chunks. Of one row: the same without B,
        and an int for Discrete. Continuous actions are clipped to their bounds. The returned state is [B, S], of one row [S]; None for a
        policy without memory. A batch of 0 rows gives empty results.
        Raises ValueError if an array does not fit.
        """
        arrays, single = self._arrays(observations)
        rows = len(next(iter(arrays.values())))
        outputs, _, after = self._network.run(arrays, self._state(state, rows, single))
        mask = self._mask(observations, action_mask, rows)
        rng = None if deterministic or deterministic is None else _generator(rng)
        actions = self._continuous(outputs, rng) if self._log_std is not None else self._discrete(outputs, mask, rng)
        after = after if self.state_size else None
        if not single:
            return actions, after
        one = actions[0] if actions.ndim > 1 or actions.dtype.kind == "f" else int(actions[0])
        return one, None if after is None else after[0]

    def forward(self, observations, state=None):
        """The outputs of the heads: (outputs [B, P], values [B], state [B, S] after the step).

        The outputs are the logits of all choices one after the other, or the means before they are clipped. Values are in units of the
        scaled reward. Arguments and errors are those of predict(), and results have no dimension B for observations without one.
        """
        arrays, single = self._arrays(observations)
        results = self._network.run(arrays, self._state(state, len(next(iter(arrays.values()))), single))
        return tuple(each[0] for each in results) if single else results

    def _arrays(self, observations):
        """The observations by name as arrays [B, ...], and whether they were of one row, without B."""
        specs = self.spec["observations"]
        if not isinstance(observations, dict) and (len(specs) == 1 or not isinstance(observations, tuple)):
            if len(specs) != 1:
                raise ValueError(f"observations is one array, expected a dict with {', '.join(each['name'] for each in specs)}")
            observations = {specs[0]["name"]: observations}
        arrays, ranks, rows = {}, set(), set()
        for each in specs:
            name, shape = each["name"], tuple(each["shape"])
            array = _one_hot(each, _finite(called(name), _part(observations, name)))
            if shape == (1,) and array.ndim == 0:  # a Box without dimensions
                array = array.reshape(1)
            single = array.shape == shape
            if not single and array.shape[1:] != shape:
                raise ValueError(f"{called(name)} has shape {list(array.shape)}, expected {list(shape)} or [B] times it")
            with np.errstate(over="ignore"):  # what is too large for the type is refused with the others
                cast = _finite(called(name), array.astype(each["dtype"], copy=False))
            arrays[name] = cast[None] if single else cast
            ranks.add(single)
            rows.add(len(arrays[name]))
        if len(ranks) > 1 or len(rows) > 1:
            raise ValueError(f"observations have {sorted(rows)} rows, expected the same number in all of them")
        return arrays, ranks.pop()

    def _state(self, state, rows, single):
        if state is None or self.state_size == 0:
            return self.initial_state(rows)
        with np.errstate(over="ignore"):
            state = _finite("state", _finite("state", state).astype(np.float32, copy=False))
        state = state[None] if single and state.ndim == 1 else state
        if state.shape != (rows, self.state_size):
            raise ValueError(f"state has shape {list(state.shape)}, expected {[rows, self.state_size]}")
        return state

    def _mask(self, observations, mask, rows):
        action = self.spec["action"]
        if not action["masked"]:
            return None
        if mask is None and isinstance(observations, dict):
            mask = observations.get("action_mask")
        if mask is None:
            raise ValueError("the environment has action masks: pass action_mask, or a dict of observations with action_mask")
        _refuse_masked("action_mask", mask)
        mask, entries = np.asarray(mask), sum(action["bins"])
        if mask.size != rows * entries:
            raise ValueError(f"action_mask has shape {list(mask.shape)}, expected {[rows, entries]}")
        if (mask != mask).any():
            raise ValueError("action_mask has an entry that is not a number, expected 0 for each forbidden category")
        return (mask != 0).reshape(rows, entries)

    def _shaped(self, actions):
        """[B, K * A] as the environment takes it."""
        action, rows = self.spec["action"], len(actions)
        chunk = [action["chunk"]] if action["chunk"] > 1 else []
        if "number_shape" in action:  # of an environment in Python
            if action["kind"] != "continuous":
                actions = actions + np.tile(np.asarray(action["starts"], np.int64), action["chunk"])
            return actions.astype(action["number_dtype"]).reshape([rows, *chunk, *action["number_shape"]])
        if chunk:
            return actions.reshape(rows, *chunk, actions.shape[1] // action["chunk"])
        return actions[:, 0] if action["kind"] == "discrete" else actions

    def _continuous(self, means, rng):
        action = self.spec["action"]
        if rng is not None:
            means = means + np.exp(self._log_std) * rng.standard_normal(means.shape, np.float32)
        low, high = (np.tile(np.asarray(action[key], np.float32), action["chunk"]) for key in ("low", "high"))
        if self._normalizes_actions:  # env.normalize_actions maps [-1, 1] to the bounds
            share = (1 + np.clip(means.astype(np.float64), -1, 1)) / 2
            means = (low * (1 - share) + high * share).astype(np.float32)
        return self._shaped(np.clip(means, low, high))

    def _discrete(self, logits, mask, rng):
        action = self.spec["action"]
        if mask is not None:
            if not all(part.any(axis=1).all() for part in np.split(mask, np.cumsum(action["bins"])[:-1], axis=1)):
                raise ValueError("action_mask allows no category of a dimension in some row, expected at least one")
            logits = np.where(mask, logits, -np.inf)
        if rng is not None:  # the largest of logits with Gumbel noise is a draw from their softmax
            logits = logits + rng.gumbel(size=logits.shape)
        bins = action["bins"] * action["chunk"]
        choices = [part.argmax(axis=1) for part in np.split(logits, np.cumsum(bins)[:-1], axis=1)]
        return self._shaped(np.stack(choices, axis=1))


def _part(observations, name):
    """The part `name` of an observation. "a/b" is the part b of the part a, unless there is a part of this whole name."""
    if isinstance(observations, dict) and name in observations:
        return observations[name]
    part = observations
    for key in name.split("/"):
        try:
            part = part[int(key) if isinstance(part, tuple) else key]
        except (LookupError, TypeError, ValueError):
            given = observations if isinstance(observations, dict) else range(len(observations))
            raise ValueError(f"{called(name)} is missing, there are: {', '.join(map(str, given))}") from None
    return part


def _generator(rng):
    """The generator that predict() draws with."""
    try:
        return np.random.default_rng(rng)
    except (TypeError, ValueError):
        raise ValueError(f"rng is {rng!r}, expected a numpy.random.Generator or a seed") from None


def _refuse_masked(what, given):
    """Raises ValueError for a masked array, of which numpy would take the numbers under the mask."""
    if any(isinstance(part, np.ma.MaskedArray) for part in (given, *(given if isinstance(given, (list, tuple)) else ()))):
        raise ValueError(f"{what} is a masked array, expected one without a mask, like array.filled(0)")


def _finite(what, given):
    """An array of numbers. Raises ValueError for anything else, and for NaN and infinite numbers, of which no action can be computed."""
    _refuse_masked(what, given)
    try:
        array = np.asarray(given)
    except ValueError:  # lists of different lengths
        array = None
    if array is not None and array.dtype == object:
        try:
            array = array.astype(np.float64)
        except (TypeError, ValueError):
            array = None
    if array is None or array.dtype.kind not in "biuf":
        raise ValueError(f"{what} is not an array of numbers")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        place = tuple(map(int, np.argwhere(~np.isfinite(array))[0]))
        index = f"[{', '.join(map(str, place))}]" if place else ""
        raise ValueError(f"{what}{index} is {array[place]}, expected finite numbers")
    return array


def _one_hot(spec, numbers):
    """The categories of an array of integers, [number_shape] or [B] times it, as the policy observes them; other arrays unchanged."""
    shape = tuple(spec.get("number_shape", ()))
    if "categories" not in spec or numbers.dtype.kind not in "iu" or shape not in (numbers.shape, numbers.shape[1:]):
        return numbers
    rows = numbers.reshape(-1, len(spec["categories"]))
    parts = []
    for column, (start, count) in zip(rows.T, spec["categories"]):
        wrong = column[(column < start) | (column >= start + count)]
        if len(wrong):
            raise ValueError(f"{called(spec['name'])} has {wrong[0]}, expected {start} to {start + count - 1}")
        parts.append(np.eye(count, dtype=spec["dtype"])[column - start])
    encoded = np.concatenate(parts, axis=1)
    return encoded[0] if numbers.shape == shape else encoded
