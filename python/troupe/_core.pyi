# The kernels behind troupe.algorithms; not a public interface.

from collections.abc import Sequence
from typing import Any

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

# losses.cpp
_Norms = tuple[float | None, float | None, float | None, float, bool]

def surrogates() -> list[dict[str, Any]]: ...
def policy_loss(
    name: str,
    settings: list[tuple[str, bool | int | float | str]],
    log_probs: View,
    old_log_probs: View,
    advantages: View,
    mask: View | None,
    rollout_weights: View | None,
    offsets: View | None,
    aggregation: str | None,
    norms: _Norms,
    key: int,
    loss: View | None,
    grad: View | None,
) -> tuple[float, dict[str, float]]: ...
def aggregate(
    values: View, mask: View | None, offsets: View | None, mode: str, norms: _Norms, grad: View | None
) -> float: ...
def value_loss(
    values: View,
    old_values: View | None,
    returns: View,
    mask: View | None,
    kind: str,
    clip: float,
    huber_delta: float,
    loss: View,
    grad: View,
) -> dict[str, float]: ...
def kl(
    name: str, log_probs: View, reference: View, mask: View | None, value: View, grad: View | None
) -> None: ...
def log_probs_entropy(
    logits: View, labels: View, temperature: float, log_probs: View, entropy: View, state: View | None
) -> None: ...
def log_probs_entropy_backward(
    logits: View,
    labels: View,
    temperature: float,
    state: View,
    d_log_probs: View | None,
    d_entropy: View | None,
    grad: View,
) -> None: ...
def kl_from_logits(logits: View, reference: View, temperature: float, kl: View) -> None: ...
def kl_from_logits_backward(
    logits: View, reference: View, temperature: float, d_kl: View, grad: View
) -> None: ...
def rollout_correction(
    log_probs: View,
    rollout_log_probs: View,
    mask: View | None,
    advantages: View | None,
    offsets: View | None,
    level: str,
    bound: str,
    low: float,
    high: float,
    batch_normalize: bool,
    rules: str,
    thresholds: str,
    opsm_delta: float,
    weights: View,
    kept: View,
) -> dict[str, float]: ...

class AdaptiveKl:
    def __init__(self, value: float, target: float, horizon: float) -> None: ...
    def update(self, current: float, steps: float) -> None: ...
    @property
    def value(self) -> float: ...
