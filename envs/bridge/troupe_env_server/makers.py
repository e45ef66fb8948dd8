"""What an id names, as a function that makes the environment."""

import importlib
import importlib.util
import inspect
import os
import sys

from troupe_env_server.values import Refused


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
