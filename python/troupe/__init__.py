"""troupe: reinforcement learning from Python. train() starts whole runs, troupe.algorithms has the algorithms as plain functions."""

from troupe._core import __version__
from troupe._program import RunError
from troupe._run import Run
from troupe._train import train

__all__ = ["Run", "RunError", "__version__", "train"]
