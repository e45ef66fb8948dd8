"""troupe: reinforcement learning from Python.

train() starts whole runs, load() gives trained policies, make_env() and make_vec() give environments, and troupe.algorithms has the
algorithms as plain functions.
"""

TYPE_CHECKING = False  # as typing.TYPE_CHECKING, which takes longer to import
if TYPE_CHECKING:
    from troupe._core import __version__
    from troupe._make import make_env, make_vec
    from troupe._policy import Policy, load
    from troupe._program import RunError
    from troupe._run import Run
    from troupe._train import train

__all__ = ["Policy", "Run", "RunError", "__version__", "load", "make_env", "make_vec", "train"]

# The module of each name. They are imported at their first use, because the command `troupe` imports this file and must not wait for numpy.
_MODULES = {
    "Policy": "_policy",
    "Run": "_run",
    "RunError": "_program",
    "__version__": "_core",
    "load": "_policy",
    "make_env": "_make",
    "make_vec": "_make",
    "train": "_train",
}


def __getattr__(name):
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = value
    return value


def __dir__():
    return sorted({*globals(), *__all__})
