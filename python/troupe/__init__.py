"""troupe: reinforcement learning from Python.

train() starts whole runs, load() gives trained policies, make_env() and make_vec() give environments, and troupe.algorithms has the
algorithms as plain functions.
"""

from troupe._core import __version__
from troupe._make import make_env, make_vec
from troupe._policy import Policy, load
from troupe._program import RunError
from troupe._run import Run
from troupe._train import train

__all__ = ["Policy", "Run", "RunError", "__version__", "load", "make_env", "make_vec", "train"]
