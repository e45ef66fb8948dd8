"""A reset and a step of an environment before the run, with their results checked."""

import math

from troupe_env_server import np
from troupe_env_server.spaces import success_of
from troupe_env_server.values import (
    Refused,
    dict_of,
    flag_of,
    flags_of_rows,
    number_of,
    numbers_of_rows,
    parts_of_reset,
    parts_of_step,
    shown,
)
from troupe_env_server.vector_rows import Resets, success_of_rows


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
                raise ValueError(f"{leaf.called} is {shown(leaf.take(observation))}, expected finite numbers")
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
        return (Resets().result(self.env, [0] * int(self.env.num_envs)),)

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
                raise ValueError(f"{leaf.called} is {shown(values)}, expected {self.env.num_envs} rows")
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
