"""troupe.train: starts a run of the program from Python."""

import json
import math
import os
import tempfile
from pathlib import Path

from troupe._callable_id import WrittenFile, env_id, name_of, reply_id, reward_id
from troupe._program import RunError, find_program
from troupe._run import Run, checked_callbacks, folder_of


def _config_file(config, name):
    """The CONFIG argument of the program, and whether it is in a temporary folder."""
    if isinstance(config, (str, os.PathLike)):
        return os.fspath(config), False
    if not isinstance(config, dict):
        raise TypeError(f"config is {type(config).__name__}, expected a dict, the path or name of a config file, or a run")
    if not config.get("name") and _can_name_a_run(name):
        config = {**config, "name": name}
    text = _json_text(config, "config", indent=2)
    folder = tempfile.mkdtemp(prefix="troupe-")
    file = Path(folder) / "config.json"
    file.write_text(text, encoding="utf-8")
    return str(file), True


def _can_name_a_run(name):
    """Whether the setting `name` accepts this name of a folder."""
    try:
        length = len(name.encode())
    except UnicodeEncodeError:
        return False
    return 0 < length <= 255 and name not in (".", "..") and not any(c < " " or c == "\x7f" for c in name)


def _json_text(value, path, indent=None):
    """The value as JSON. Raises ValueError that names the part of it that JSON does not have."""
    try:
        return json.dumps(value, indent=indent, allow_nan=False, default=_plain)
    except (TypeError, ValueError, RecursionError) as error:
        wrong = _not_finite(value, path, set())
        raise ValueError(wrong or f"{path}: {error}, expected a value that JSON has") from None


def _not_finite(value, path, outer):
    """What is wrong with the first number in the value that is NaN or infinite; None if there is none. `outer` are the ids around it."""
    if isinstance(value, float) and not math.isfinite(value):
        return f"{path}: {value} is not a number that a setting can have, expected a finite number"
    if id(value) in outer:
        return None
    parts = ()
    if isinstance(value, dict):
        parts = ((f"{path}.{key}", part) for key, part in value.items())
    elif isinstance(value, (list, tuple)):
        parts = ((f"{path}[{i}]", part) for i, part in enumerate(value))
    elif hasattr(value, "tolist"):
        return _not_finite(value.tolist(), path, outer)
    found = (_not_finite(part, where, outer | {id(value)}) for where, part in parts)
    return next((wrong for wrong in found if wrong), None)


def _plain(value):
    """Numbers of numpy and paths, as JSON has them."""
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    raise TypeError(f"a {type(value).__name__} is not a value of JSON")


def _settings(overrides):
    """Keyword arguments as texts PATH=VALUE; "__" in a keyword stands for a dot."""
    settings = []
    for key, value in overrides.items():
        path = key.replace("__", ".")
        settings.append(f"{path}={_json_text(value, path)}")
    return settings


# The arguments that may be functions, each with its setting and what makes the value of that. A function may go to RUN_DIR.ARGUMENT.py.
_CALLABLES = {"env": ("env.id", env_id), "reward": ("task.verifier", reward_id), "reply": ("task.reply", reply_id)}


def _settings_of_callables(arguments, run_dir):
    """The settings that name the environment, the reward and the reply, and the folders for PYTHONPATH."""
    settings, folders = {}, []
    for name, (setting, id_of) in _CALLABLES.items():
        if arguments[name] is not None:
            settings[setting], more = id_of(arguments[name], f"{run_dir}.{name}.py")
            folders += [folder for folder in more if folder not in folders]
    return settings, folders


def _restore_all(written):
    for file in reversed(written):
        file.restore()


def _default_folder(config, env, overrides):
    """Where the run goes without run_dir; None lets the program choose."""
    name = overrides.get("name") or (config.get("name") if isinstance(config, dict) else None)
    if not name and isinstance(config, dict) and env is None and isinstance(config.get("env"), dict):
        env = config["env"].get("id")
    if name:
        return os.path.join("runs", str(name))
    if isinstance(env, str) or callable(env):
        return os.path.join("runs", name_of(env))
    return os.path.join("runs", "run") if isinstance(config, dict) else None


def _default_folder_of_file(config):
    """Where the program puts the run of this config without run_dir: files of functions are written beside it."""
    if not isinstance(config, (str, os.PathLike)):
        return None
    return os.fspath(config) if os.path.isdir(config) else os.path.join("runs", Path(config).stem)


def train(config=None, env=None, *, reward=None, reply=None, callbacks=(), run_dir=None, blocking=True, quiet=False, **overrides):
    """Trains a policy and returns the run (troupe.Run).

    The program `troupe` runs as a child of this process. A run folder that already holds a run with these settings is resumed. The child
    ends with this process, also if it is killed.

    config: a dict with the keys of a config file, or the path or name of one ("cartpole"), or a run (troupe.Run) or its folder, which is
        resumed. None: all defaults but `env`, which is required then.
    env: an id ("CartPole-v1", "gym:Hopper-v5"), or a function or class that makes one environment. None: the one of the config.
    reward: in a run with a task, a function that scores answers, in one of the forms of docs/tokens.md, or the setting task.verifier. None:
        the one of the config.
    reply: in a run with a task of several turns, a function that gives the messages between them (docs/tokens.md), or the setting
        task.reply. None: the one of the config.
    callbacks: objects with any of the methods on_report(run, report), on_evaluation(run, evaluation), on_checkpoint(run, path),
        on_end(run), or None. evaluation["error"] is None, or the text of the error of an evaluation that failed. They
        are called in the thread that waits for the run; without `blocking`, in a thread of their own. A callback that raises stops the run
        with a checkpoint, and the exception is raised by train() or wait().
    run_dir: the run folder. None: runs/NAME; NAME is the setting `name`, else the name of the environment or of the config file.
    blocking: whether to return only when the run has ended. Ctrl-C then stops the run with a checkpoint, and train() returns the run.
    quiet: whether not to print the console lines of the program.
    overrides: settings as keywords, like seed=3 or trainer__epochs=8, where "__" stands for a dot; **{"trainer.epochs": 8} is the same.
        None is the value null of a config file.

    Raises RunError with the line of the program, and the run as `run`, if it refuses or fails; TypeError and ValueError for arguments of
    a wrong kind.
    """
    callbacks = checked_callbacks(callbacks)
    blocking = True if blocking is None else blocking
    find_program()  # refuses before anything is written
    overriding = _settings(overrides)
    if config is None and env is None and not {"env.id", "env__id"} & set(overrides):
        raise RunError('train: config or env is required, like troupe.train("cartpole") or troupe.train(env="CartPole-v1")', 2)
    config = {} if config is None else config
    if isinstance(config, Run):
        config = folder_of(config)
        if config is None:
            raise ValueError("config is a run without a run folder, expected one that has begun")
    folder = os.fspath(run_dir) if run_dir is not None else _default_folder(config, env, overrides)
    beside = folder or _default_folder_of_file(config)
    callables = {"env": env, "reward": reward, "reply": reply}
    written = [WrittenFile(f"{beside}.{name}.py") for name, value in callables.items() if callable(value)]
    try:
        settings, python_path = _settings_of_callables(callables, beside)
        file, temporary = _config_file(config, Path(folder).name if folder else "run")
    except BaseException:
        _restore_all(written)
        raise
    arguments = ["train", file]
    if folder or run_dir is not None:
        arguments += ["--run", folder]
    for setting in _settings(settings) + overriding:
        arguments += ["--set", setting]
    run = Run(
        arguments,
        folder=folder,
        callbacks=callbacks,
        python_path=python_path,
        quiet=quiet,
        config_file=file if temporary else None,
        on_refusal=(lambda: _restore_all(written)) if written else None,
    )
    if blocking:
        return run.wait()
    run._start_dispatcher()
    return run
