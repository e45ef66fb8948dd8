"""troupe: reinforcement learning from Python. train() starts whole runs, load() gives trained policies, and troupe.algorithms has the
algorithms as plain functions."""

from troupe._core import __version__
from troupe._policy import Policy, load
from troupe._program import RunError
from troupe._run import Run
from troupe._train import train

__all__ = ["Policy", "Run", "RunError", "__version__", "load", "train"]
