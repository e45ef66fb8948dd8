"""troupe: exact and fast implementations of reinforcement learning algorithms. See troupe.algorithms."""

from troupe._core import __version__

__all__ = ["__version__"]
