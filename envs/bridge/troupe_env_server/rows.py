"""The rows of a server in shared memory, and rows that are environments of their own."""

import math

from troupe_env_server import np
from troupe_env_server.spaces import Actions, first_action, success_of
from troupe_env_server.values import dict_of, flag_of, lines_of, number_of, parts_of_reset, parts_of_step, text_of

SKIP, STEP, START, START_SEEDED, REBUILD = range(5)  # what a row does in a step


def close(env):
    if hasattr(env, "close"):
        env.close()


class Block:
    """The shared memory of the rows of this server, and the errors of a step."""

    def __init__(self, spaces, layout, memory):
        self.spaces = spaces
        self.count, self.chunk, self.restarts = layout["rows"], layout["chunk"], layout["restarts"]
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
        """The end of an episode, and the beginning of the next one unless troupe asks for it."""
        self.write(i, observation, self.finals)
        self.success[i] = bool(success_of(info))
        self.terminated[i], self.truncated[i] = terminated, truncated and not terminated
        if not self.restarts:
            return
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
