"""Rows of one vector environment."""

from troupe_env_server import np
from troupe_env_server.rows import REBUILD, SKIP, START_SEEDED, STEP, SharedRows, close_quietly
from troupe_env_server.spaces import mode_of, success_of
from troupe_env_server.values import dict_of, flags_of_rows, numbers_of_rows, parts_of_reset, parts_of_step


def value_of_row(infos, name, i):
    """The value that the infos of a vector environment have for row i; none if there is none."""
    values, given = infos.get(name), infos.get("_" + name)
    if values is None or (given is not None and not given[i]):
        return None
    return values[i] if np.ndim(values) > 0 else values


def success_of_rows(infos):
    """What the infos of a vector environment say about success in any row; None if they do not."""
    return next((infos[name] for name in ("is_success", "success") if dict_of(infos).get(name) is not None), None)


class Resets:
    """Resets vector environments of one kind. Those whose reset() takes no list of seeds get the first one."""

    def __init__(self):
        self.takes_list = None  # not known

    def result(self, env, seeds, rows=None):
        """Of a reset with one seed for each row, or None, of all rows or of these, [N] bool."""

        def reset(seed):
            given = {} if seed is None else {"seed": seed}
            return env.reset(**given, **({} if rows is None else {"options": {"reset_mask": rows}}))

        first = next((seed for seed in seeds if seed is not None), None)
        if first is None or self.takes_list is False:
            return reset(first)
        try:
            result = reset(seeds)
        except Exception as error:
            if self.takes_list is None:
                self.takes_list = self.succeeds(reset, [first + i for i in range(len(seeds))])
            if self.takes_list:
                raise
            return self.with_one_seed(reset, first, error)
        self.takes_list = True
        return result

    @staticmethod
    def succeeds(reset, seeds):
        """Whether a reset does with the seeds for which a single one stands. A list that fails while this one does not
        has a seed with which an environment fails: other seeds would make it another episode."""
        try:
            reset(seeds)
        except Exception:
            return False
        return True

    def with_one_seed(self, reset, seed, error):
        try:
            return reset(seed)
        except Exception:
            self.takes_list = None  # it has failed for another reason
            raise error from None


def is_single(value):
    return not isinstance(value, type) and all(callable(getattr(value, name, None)) for name in ("reset", "step"))


def singles_of(env, count):
    """The environments that the rows of a vector environment are, if it has a list of them; else none."""
    for value in getattr(getattr(env, "unwrapped", env), "__dict__", {}).values():
        if isinstance(value, (list, tuple)) and len(value) == count and all(is_single(each) for each in value):
            return value
    return ()


class Restarts:
    """Watches the environments that the rows of a vector environment are, if it resets them in the step that ends their
    episode. A reset that fails there would hide that the episode has ended: it is noted, and returns the last
    observation."""

    def __init__(self, singles):
        self.stepping, self.failed = False, None  # the exception of such a reset in this step
        for single in singles:
            self.watch(single)

    def watch(self, single):
        own_reset, own_step, last = single.reset, single.step, [None]

        def step(action):
            result = own_step(action)
            last[0] = result
            return result

        def reset(*given, **named):
            try:
                return own_reset(*given, **named)
            except (Exception, SystemExit) as error:
                if not self.stepping:
                    raise
                self.failed = error
                return last[0][0], {}

        try:
            single.step, single.reset = step, reset
        except AttributeError:  # its class allows no own functions
            pass

    def step(self, env, actions):
        """env.step(), and the exception of a reset in it that failed; None without one."""
        self.stepping, self.failed = True, None
        try:
            return env.step(actions), self.failed
        finally:
            self.stepping = False


class VectorRows(SharedRows):
    """Rows of one gymnasium.vector.VectorEnv."""

    def __init__(self, make, env, spaces, layout, memory):
        super().__init__(spaces, layout, memory)
        self.make, self.mode, self.resets = make, mode_of(env), Resets()
        self.over = np.zeros(self.count, bool)  # rows whose episode the last step ended, if the next one restarts them
        self.keep(env)

    def keep(self, env):
        self.env = env
        self.fresh = True  # whether no episode has begun since the environment was made
        self.row_restarts = Restarts(singles_of(env, self.count) if self.mode == "SameStep" else ())

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
            self.keep(self.make())
        some = self.mode == "Disabled" and not self.fresh
        self.fresh = False
        observation = self.reset(commands, np.array([c != SKIP for c in commands]) if some else None)
        self.over[:] = False
        self.write_rows(range(self.count) if not some else np.flatnonzero(self.commands), observation)

    def reset(self, commands, rows=None):
        """Resets the environment, or these rows of it, [N] bool. Returns the observations."""
        seeded = (START_SEEDED, REBUILD)
        seeds = [int(self.seeds[i]) if c in seeded else None for i, c in enumerate(commands)]
        return parts_of_reset(self.resets.result(self.env, seeds, rows))[0]

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
                raise ValueError(f"{leaf.called} has {len(values)} rows, expected {self.count}")
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
        result, unstarted = self.row_restarts.step(self.env, self.batch_of_actions(commands))
        observation, rewards, terminated, truncated, infos = parts_of_step(result)
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
        if unstarted is not None:
            self.fail_after_end(commands, done, unstarted)

    def start_again(self, commands, again, done):
        """Resets the rows `again` of a vector environment that does not do it itself."""
        try:
            observation = self.reset(commands, again)
        except (Exception, SystemExit) as error:
            self.fail_after_end(commands, done, error)
        else:
            self.write_rows(np.flatnonzero(again), observation, done)

    def fail_after_end(self, commands, done, error):
        """The next episode of a row could not begin. Episodes that this step ended count, the others cannot go on."""
        ended = [i for i, command in enumerate(commands) if command == STEP and done[i]]
        self.fail_all([i for i, command in enumerate(commands) if command != SKIP], error, ended)

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
