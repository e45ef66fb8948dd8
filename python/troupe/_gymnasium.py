"""Our environments in C++ with the interfaces of Gymnasium. Imported by make_env and make_vec only, because it needs Gymnasium."""

import json

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space

from troupe import _envs


def _space(dtype, shape):
    kind = np.dtype(dtype)
    if kind.kind == "f":
        return spaces.Box(-np.inf, np.inf, shape, kind)
    return spaces.Box(np.iinfo(kind).min, np.iinfo(kind).max, shape, kind)


def _observation_space(spec):
    parts = {each["name"]: _space(each["dtype"], tuple(each["shape"])) for each in spec["observations"]}
    if spec["action"]["masked"]:
        parts["action_mask"] = spaces.Box(0, 1, (sum(spec["action"]["bins"]),), np.uint8)
    elif len(parts) == 1:
        return next(iter(parts.values()))
    return spaces.Dict(parts)


def _action_space(action):
    chunk = action["chunk"]
    if action["kind"] == "continuous":
        low, high = (np.asarray(action[key], np.float32) for key in ("low", "high"))
        if chunk > 1:
            low, high = np.tile(low, (chunk, 1)), np.tile(high, (chunk, 1))
        return spaces.Box(low, high, dtype=np.float32)
    if chunk > 1:
        return spaces.MultiDiscrete(np.tile(action["bins"], (chunk, 1)))
    return spaces.Discrete(action["bins"][0]) if action["kind"] == "discrete" else spaces.MultiDiscrete(action["bins"])


class _Rows:
    """Rows of an environment: conversion between the arrays of Gymnasium and the buffers of the module."""

    def __init__(self, env_id, rows, chunk, params):
        self._rows = _envs.Rows(env_id, json.dumps(params), rows, chunk)
        self.spec = self._rows.spec()
        buffers = self._rows.buffers()
        self._observations, self._finals = buffers["observations"], buffers["final_observations"]
        self._actions, self._mask = buffers["actions"], buffers["action_mask"]
        self._rewards, self._success, self._failed = buffers["rewards"], buffers["success"], buffers["failed"]
        self._terminated, self._truncated = buffers["terminated"], buffers["truncated"]

    def reset(self, seed):
        self._rows.reset(seed)
        self._raise_failure()

    def step(self, actions):
        """Writes actions, [N] or [N, A] or [N, K, A], and steps. Raises ValueError if they do not fit, RuntimeError if a row fails."""
        actions = np.asarray(actions)
        if actions.size != self._actions.size or len(actions) != len(self._actions):
            raise ValueError(f"actions have shape {list(actions.shape)}, expected {list(self._actions.shape)} without dimensions of 1")
        if self._actions.dtype.kind == "i" and actions.dtype.kind not in "iu":
            raise ValueError(f"actions are {actions.dtype}, expected integers")
        self._actions[...] = actions.reshape(self._actions.shape)
        self._rows.step()
        self._raise_failure()

    def _raise_failure(self):
        if self._failed.any():
            errors = self._rows.errors()
            raise RuntimeError(errors[0] if errors else f"row {int(self._failed.argmax())} has failed")

    def observations(self, take, final=False):
        """`take` of every array; of the last observations of finished episodes if `final`."""
        arrays = {name: take(array) for name, array in (self._finals if final else self._observations).items()}
        if self.spec["action"]["masked"]:
            arrays["action_mask"] = np.ones_like(take(self._mask)) if final else take(self._mask)
        return arrays if len(arrays) > 1 else next(iter(arrays.values()))

    def results(self):
        """Rewards, terminated, truncated and success of the last step, [N] each, as copies."""
        flags = (each.astype(bool) for each in (self._terminated, self._truncated, self._success))
        return self._rewards.copy(), *flags

    def render(self, row):
        return self._rows.render(row)


def _new_seed(generator):
    return int(generator.integers(2**63))


class Env(gymnasium.Env):
    """One environment in C++, as troupe.make_env returns it."""

    metadata = {"render_modes": ["ansi"]}

    def __init__(self, env_id, render_mode=None, chunk=0, params=None):
        if render_mode not in (None, "ansi"):
            raise ValueError(f"render_mode is {render_mode!r}, expected None or 'ansi'")
        self._rows = _Rows(env_id, 1, chunk, params or {})
        self.observation_space = _observation_space(self._rows.spec)
        self.action_space = _action_space(self._rows.spec["action"])
        self.render_mode = render_mode
        self._in_episode = False

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._rows.reset(seed if seed is not None else _new_seed(self.np_random))
        self._in_episode = True
        return self._rows.observations(lambda array: array[0].copy()), {}

    def step(self, action):
        if not self._in_episode:
            raise RuntimeError("the episode has ended or not begun, expected a call of reset() before step()")
        try:
            self._rows.step(np.asarray(action)[None])
        except RuntimeError:
            self._in_episode = False
            raise
        rewards, terminated, truncated, success = self._rows.results()
        ended = bool(terminated[0] or truncated[0])
        self._in_episode = not ended
        info = {"is_success": bool(success[0])} if ended and self._rows.spec["reports_success"] else {}
        observation = self._rows.observations(lambda array: array[0].copy(), final=ended)
        return observation, float(rewards[0]), bool(terminated[0]), bool(truncated[0]), info

    def render(self):
        return self._rows.render(0) if self.render_mode == "ansi" else None


class VectorEnv(gymnasium.vector.VectorEnv):
    """N rows of an environment in C++, as troupe.make_vec returns them. Rows whose episode ends are reset in the same step."""

    metadata = {"render_modes": [], "autoreset_mode": AutoresetMode.SAME_STEP}

    def __init__(self, env_id, num_envs, chunk=0, params=None):
        self._rows = _Rows(env_id, num_envs, chunk, params or {})
        self.num_envs = num_envs
        self.single_observation_space = _observation_space(self._rows.spec)
        self.single_action_space = _action_space(self._rows.spec["action"])
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._begun = False

    def reset(self, *, seed=None, options=None):
        if seed is not None and (isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0):
            raise ValueError(f"seed is {seed!r}, expected None or one number of at least 0: row i draws from (seed, i)")
        if options and "reset_mask" in options:
            raise ValueError("options has reset_mask, expected none: rows are reset in the step that ends their episode")
        super().reset(seed=int(seed) if seed is not None else None)
        self._rows.reset(int(seed) if seed is not None else _new_seed(self.np_random))
        self._begun = True
        return self._rows.observations(np.copy), {}

    def step(self, actions):
        if not self._begun:
            raise RuntimeError("no episode has begun, expected a call of reset() before step()")
        self._rows.step(actions)
        rewards, terminated, truncated, success = self._rows.results()
        ended = terminated | truncated
        infos = {}
        if ended.any():
            infos["final_obs"], infos["_final_obs"] = self._rows.observations(np.copy, final=True), ended
            if self._rows.spec["reports_success"]:
                infos["is_success"], infos["_is_success"] = success, ended
        return self._rows.observations(np.copy), rewards, terminated, truncated, infos
