"""troupe: the algorithms of reinforcement learning, exact and at memory speed. See troupe.algorithms."""

from troupe._core import __version__

__all__ = ["__version__"]
