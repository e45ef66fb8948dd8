"""Turns what a user passes as an environment, a reward or a reply into an id that their servers understand (py:FILE.py:CALLABLE)."""

import base64
import inspect
import os
import sys
import tempfile
from pathlib import Path

_LOADER = '''"""Written by troupe.train: the {what} of a run, pickled by cloudpickle. Keep it as long as the run folder."""
import base64
import sys

sys.path += [path for path in {paths!r} if path not in sys.path]
import cloudpickle

make = cloudpickle.loads(base64.b64decode({data!r}))
'''


def name_of(env):
    """A short name for a run with this environment: that of the callable, or the id without its scheme."""
    name = env.rpartition(":")[2] if isinstance(env, str) else getattr(env, "__name__", type(env).__name__)
    cleaned = "".join(c if c.isalnum() or c in "-_." else "_" for c in name).strip("_.")
    return cleaned or "run"


def _importable(function):
    """Whether the callable is found in its module by its name, so that another process can import it."""
    module = sys.modules.get(getattr(function, "__module__", None) or "")
    name = getattr(function, "__qualname__", "")
    if module is None or module.__name__ == "__main__" or not getattr(module, "__file__", None) or "<" in name:
        return False
    found = module
    for part in name.split("."):
        found = getattr(found, part, None)
    return found is function


def _module_id(function):
    """The id and the folders to search, for a callable of an importable module."""
    module = sys.modules[function.__module__]
    file = Path(module.__file__).resolve()
    if "." not in module.__name__ and file.stem == module.__name__:
        return f"py:{file}:{function.__qualname__}", []
    levels = module.__name__.count(".") + (1 if file.name == "__init__.py" else 0)
    return f"py:{module.__name__}:{function.__qualname__}", [str(file.parents[levels])]


def _pickled_id(function, file, what):
    try:
        import cloudpickle
    except ImportError as error:
        raise ValueError(
            f"the {what} {name_of(function)} is not in a module that can be imported, so it has to be sent by cloudpickle: "
            "pip install cloudpickle, or move it into a file of its own"
        ) from error
    try:
        data = cloudpickle.dumps(function)
    except Exception as error:
        raise ValueError(f"the {what} {name_of(function)} cannot be pickled: {type(error).__name__}: {error}") from error
    paths = [os.path.abspath(path) for path in sys.path if path == "" or os.path.isdir(path)]
    text = _LOADER.format(what=what, paths=paths, data=base64.b64encode(data).decode())
    file.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=file.parent, prefix=file.name)
    with os.fdopen(handle, "w", encoding="utf-8") as out:
        out.write(text)
    os.replace(temporary, file)
    return f"py:{file}:make"


class WrittenFile:
    """A file such as RUN_DIR.env.py and its folder as they are before a call of env_id(), reward_id() or reply_id()."""

    def __init__(self, file):
        self._file = Path(os.path.abspath(file))
        self._before = self._file.read_bytes() if self._file.is_file() else None
        self._new_folders = [folder for folder in self._file.parents if not folder.exists()]

    def restore(self):
        """Undoes what was written, if the run was refused."""
        try:
            if self._before is not None:
                self._file.write_bytes(self._before)
                return
            self._file.unlink(missing_ok=True)
            for folder in self._new_folders:  # the innermost first
                folder.rmdir()
        except OSError:
            pass  # something else is there now


def env_id(env, file):
    """The id of an environment, and the folders that its module needs in PYTHONPATH.

    `env` is an id, or a callable (a function or class) that returns an environment. A callable that cannot be imported from a file, like a
    lambda, a closure or one that is defined in a script or notebook, is written to `file` by cloudpickle. Raises TypeError and ValueError.
    """
    if not isinstance(env, str) and not callable(env):
        raise TypeError(
            f"env is {type(env).__name__}, expected an id like 'CartPole-v1' or 'gym:Hopper-v5', or a function or class that makes one "
            "environment"
        )
    return _id_of(env, file, "env", "environment")


def reward_id(reward, file):
    """The same of a verifier: `reward` is task.verifier, or a function or another object that can be called and scores answers."""
    return _function_id(reward, file, "reward", "a function that scores answers, or an id like 'py:rewards.py:reward'")


def reply_id(reply, file):
    """The same of what replies to answers: `reply` is task.reply, or a function or another object that can be called."""
    return _function_id(reply, file, "reply", "a function that replies to answers, or an id like 'py:tools.py:reply'")


def _function_id(function, file, argument, expected):
    if not isinstance(function, str) and (inspect.isclass(function) or not callable(function)):
        kind = "the class " + function.__name__ if inspect.isclass(function) else type(function).__name__
        raise TypeError(f"{argument} is {kind}, expected {expected}")
    return _id_of(function, file, argument, argument)


def _id_of(value, file, argument, what):
    identifier, folders = _found_id(value, file, what)
    try:
        identifier.encode()
    except UnicodeEncodeError as error:
        strange = ascii(error.object[error.start])
        raise ValueError(
            f"{argument} has the id {ascii(identifier)}, whose character {strange} is not UTF-8, expected another name or folder"
        ) from None
    for folder in folders:
        if os.pathsep in folder:
            raise ValueError(f"the folder {folder} has a {os.pathsep!r}, which PYTHONPATH separates folders with, expected another name")
    return identifier, folders


def _found_id(value, file, what):
    if isinstance(value, str):
        return value, []
    if (inspect.isclass(value) or inspect.isfunction(value)) and _importable(value):
        return _module_id(value)
    return _pickled_id(value, Path(os.path.abspath(file)), what), []
