# The kernels behind troupe.algorithms; not a public interface.

from collections.abc import Sequence

__version__: str

class View:
    def __init__(
        self, name: str, address: int, dtype: str, shape: Sequence[int], strides: Sequence[int], writable: bool
    ) -> None: ...

# scan.cpp
def gae_time_major(
    rewards: View,
    values: View,
    next_values: View,
    terminated: View,
    truncated: View,
    gamma: float,
    lam: float,
    advantages: View,
    returns: View,
) -> None: ...
