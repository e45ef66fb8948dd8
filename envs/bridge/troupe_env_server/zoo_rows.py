"""Rows that are the agents of PettingZoo parallel environments."""

from troupe_env_server import np
from troupe_env_server.rows import REBUILD, SKIP, START_SEEDED, STEP, SharedRows, close_quietly
from troupe_env_server.spaces import success_of
from troupe_env_server.values import flag_of, number_of, parts_of_reset, parts_of_step


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
        if over and rows.restarts:
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
