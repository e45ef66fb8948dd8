"""Vector environments, a fake EnvPool and PettingZoo parallel environments for the tests. They need numpy only."""

import os
import signal

import numpy as np
from environments import Box, Dict, Discrete, MultiBinary, Walk


def mask_of_one(t):
    """Allows one of two actions, which differs from step to step."""
    return np.arange(2) == (t + 1) % 2


class Vector:
    """Walks in one vector environment. Row i observes its position, its step and its number of resets."""

    def __init__(self, num_envs, mode="NextStep", length=3, what="", dense=False, masked=False):
        self.walks = [Walk(length + i % 2, truncates=i % 2 == 1) for i in range(num_envs)]
        self.num_envs, self.mode, self.what, self.dense, self.masked = num_envs, mode, what, dense, masked
        self.single_observation_space = Walk().observation_space
        if masked:
            self.single_observation_space = Dict(state=Walk().observation_space, action_mask=MultiBinary(2))
        self.single_action_space = Discrete(2)
        self.metadata = {"autoreset_mode": mode} if mode else {}
        self.over = np.zeros(num_envs, bool)
        self.t = 0

    def observations(self):
        state = np.stack([walk.observation() for walk in self.walks])
        if self.masked == "one":
            self.shown = np.stack([mask_of_one(walk.t) for walk in self.walks])
            return {"state": state, "action_mask": self.shown}
        # Nothing is allowed after the end of an episode.
        return {"state": state, "action_mask": np.stack([~self.over, ~self.over], 1)} if self.masked else state

    def reset(self, seed=None, options=None):
        if self.what == "raise_in_reset" and self.t > 0:
            raise RuntimeError("no reset")
        chosen = (options or {}).get("reset_mask", np.ones(self.num_envs, bool))
        for i, walk in enumerate(self.walks):
            if chosen[i]:
                walk.reset(seed=None if seed is None else seed[i])
        self.over &= ~chosen
        return self.observations(), {}

    def step(self, actions):
        assert actions.shape == (self.num_envs,) and actions.dtype == np.int64
        self.t += 1
        if self.masked == "one":
            assert all(mask[action] for mask, action in zip(self.shown, actions)), "a masked action"
        if self.what == "raise" and self.t == 2:
            raise ValueError("bad batch")
        if self.what == "exit" and self.t == 2:
            os._exit(7)
        results = [self.advance(i, int(action)) for i, action in enumerate(actions)]
        rewards, terminated, truncated = (np.array([r[k] for r in results]) for k in range(3))
        ended = terminated | truncated
        success = np.array([walk.position > 0 for walk in self.walks])
        infos = {"is_success": success, "_is_success": ended}
        self.over = ended
        if self.mode == "SameStep" and ended.any():
            finals = [walk.observation() if over else None for walk, over in zip(self.walks, ended)]
            if self.dense or self.masked:
                finals = np.stack([np.zeros(3) if final is None else final for final in finals])
                finals = {"state": finals} if self.masked else finals
            else:
                finals = np.array([*finals, None], object)[:-1]
            infos = {"final_obs": finals, "_final_obs": ended, "final_info": infos, "_final_info": ended}
            for walk, over in zip(self.walks, ended):
                if over:
                    walk.reset()
            self.over = np.zeros(self.num_envs, bool)
        observations = self.observations()
        if self.what == "nan" and self.t == 2:
            (observations["state"] if self.masked else observations)[0, 0] = np.nan
        return observations, rewards, terminated, truncated, infos

    def advance(self, i, action):
        if self.over[i] and self.mode == "NextStep":
            self.walks[i].reset()
            return 0.0, False, False
        assert not self.over[i], "a step after the end"
        return self.walks[i].step(action)[1:4]


class Doomed(Walk):
    """Of its episodes, about one in six fails, which their seed decides: in the reset, or in the third step."""

    def __init__(self, where):
        super().__init__()
        self.where = where

    def reset(self, seed=None, options=None):
        result = super().reset(seed=seed)
        self.doomed, self.length = self.random.random() < 1 / 6, int(self.random.integers(3, 9))
        if self.doomed and self.where == "reset":
            raise RuntimeError("no reset")
        return result

    def step(self, action):
        if self.doomed and self.t == 2:
            raise RuntimeError("no step")
        return super().step(action)


class DoomedVector(Vector):
    def __init__(self, num_envs, mode, where):
        super().__init__(num_envs, mode)
        self.walks = [Doomed(where) for _ in range(num_envs)]


def doomed_of_gymnasium(num_envs, where, mode):
    """The same as Gymnasium makes it."""
    import gymnasium

    class Single(Doomed, gymnasium.Env):
        def __init__(self):
            Doomed.__init__(self, where)
            self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (3,))
            self.action_space = gymnasium.spaces.Discrete(2)

    return gymnasium.vector.SyncVectorEnv([Single] * num_envs, autoreset_mode=gymnasium.vector.AutoresetMode(mode))


def fixed_size(mode="NextStep"):
    return Vector(4, mode)


class Parallel:
    """Agents a, b, c walk; agent k leaves after `length` + k steps."""

    metadata = {"reports_success": True}

    def __init__(self, length=2, what="", agents=3, masked=False):
        self.possible_agents = list("abcdefgh"[:agents])
        self.agents, self.length, self.what, self.resets, self.masked = [], length, what, 0, masked

    def observation_space(self, agent):
        dims = 2 if self.what == "spaces" and agent == "b" else 3
        space = Box(-np.inf, np.inf, (dims,))
        return Dict(state=space, action_mask=MultiBinary(2)) if self.masked else space

    def action_space(self, agent):
        return Discrete(3 if self.what == "actions" and agent == "c" else 2)

    def observe(self, agent):
        state = np.array([self.positions[agent], self.t, self.resets], np.float32)
        return {"state": state, "action_mask": mask_of_one(self.t)} if self.masked else state

    def reset(self, seed=None, options=None):
        if self.what == "raise_in_reset" and self.resets > 0:
            raise RuntimeError("no reset")
        if seed is not None:
            self.random = np.random.default_rng(seed)
        self.agents, self.t = list(self.possible_agents), 0
        self.resets += 1
        self.positions = {agent: float(self.random.normal()) for agent in self.agents}
        return {agent: self.observe(agent) for agent in self.agents}, {agent: {} for agent in self.agents}

    def step(self, actions):
        assert sorted(actions) == sorted(self.agents), (actions, self.agents)
        if self.masked:
            assert all(mask_of_one(self.t)[action] for action in actions.values()), "a masked action"
        self.t += 1
        if self.what == "raise" and self.t == 2:
            raise ValueError("bad world")
        if self.what == "kill" and self.t == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        acted = self.agents
        for agent in acted:
            self.positions[agent] += 2 * actions[agent] - 1
        ended = {a: self.t >= self.length + self.possible_agents.index(a) for a in acted}
        self.agents = [agent for agent in acted if not ended[agent]]
        observations = {agent: self.observe(agent) for agent in acted}
        if self.what == "nan" and self.t == 1 and self.resets == 1:
            (observations["a"]["state"] if self.masked else observations["a"])[0] = np.nan
        rewards = {agent: float(actions[agent]) for agent in acted}
        last = self.possible_agents[-1]
        terminated = {agent: ended[agent] and agent != last for agent in acted}
        truncated = {agent: ended[agent] and agent == last for agent in acted}
        return observations, rewards, terminated, truncated, {agent: {"is_success": agent == "b"} for agent in acted}


def no_agents():
    return Parallel(agents=0)


def cart_poles(num_envs, mode):
    import gymnasium

    make = [lambda: gymnasium.make("CartPole-v1")] * num_envs
    return gymnasium.vector.SyncVectorEnv(make, autoreset_mode=gymnasium.vector.AutoresetMode(mode))


def cart_poles_of_gymnasium(num_envs):
    """Has a reset() that takes one seed for all rows."""
    import gymnasium

    return gymnasium.make_vec("CartPole-v1", num_envs=num_envs, vectorization_mode="vector_entry_point")
