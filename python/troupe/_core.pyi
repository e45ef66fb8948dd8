# The kernels behind troupe.algorithms; not a public interface.

from collections.abc import Callable, Mapping, Sequence
from typing import Any

__version__: str
IGNORED_LABEL: int  # the label of rows that are not read

class View:
    owner: Any  # keeps the memory alive
    def __init__(
        self, name: str, address: int, dtype: str, shape: Sequence[int], strides: Sequence[int], writable: bool
    ) -> None: ...

# scan.cpp
def gae_returns(
    rewards: View,
    values: View,
    next_values: View | None,
    terminated: View | None,
    truncated: View | None,
    mask: View | None,
    gammas: View | None,
    lambdas: View | None,
    bootstrap: View | None,
    offsets: View | None,
    gamma: float,
    lam: float,
    time_major: bool,
    carry_outside: bool,
    threads: int,
    advantages: View | None,
    returns: View,
) -> None: ...
def vtrace_targets(
    log_rho: View,
    discounts: View,
    rewards: View,
    values: View,
    bootstrap: View,
    lam: float,
    rho_bar: float,
    c_bar: float,
    pg_rho_bar: float,
    rlax: bool,
    time_major: bool,
    threads: int,
    vs: View,
    pg_advantages: View,
) -> None: ...
def discounted_returns(
    rewards: View,
    terminated: View | None,
    mask: View | None,
    gammas: View | None,
    bootstrap: View | None,
    offsets: View | None,
    gamma: float,
    time_major: bool,
    reset: bool,
    carry_outside: bool,
    threads: int,
    returns: View,
) -> None: ...

# losses.cpp
_Norms = tuple[float | None, float | None, float | None, float, bool]

def surrogates() -> list[dict[str, Any]]: ...
def surrogate_settings(
    name: str, settings: Mapping[str, bool | int | float | str]
) -> tuple[str, dict[str, bool | int | float | str]]: ...
def draw_subset(key: int, wanted: int, taken: View) -> None: ...
def surrogate_metrics(sums: Mapping[str, float]) -> dict[str, float]: ...
def policy_loss(
    name: str,
    settings: Mapping[str, bool | int | float | str],
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
    offsets: View | None,
    kind: str,
    clip: float,
    huber_delta: float,
    scale: float,
    aggregation: str | None,
    norms: _Norms,
    loss: View | None,
    grad: View | None,
) -> tuple[float, dict[str, float]]: ...
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

# estimators.cpp
def advantages(
    name: str,
    settings: Mapping[str, bool | int | float | str],
    rewards: View,
    mask: View | None,
    offsets: View | None,
    groups: View | None,
    values: View | None,
    baselines: View | None,
    old_logp: View | None,
    sum_pi_squared: View | None,
    rollout_is_weights: View | None,
    advantages: View,
    returns: View,
) -> None: ...
def advantage_table() -> dict[str, dict[str, Any]]: ...
def moments(x: View, mask: View | None) -> tuple[float, float, float]: ...
def whiten(
    x: View,
    mask: View | None,
    parts: Sequence[tuple[float, float, float]],
    variant: str,
    shift_mean: bool,
    scale: bool,
    zero_outside: bool,
    strict: bool,
) -> None: ...
def shape_rewards(
    scores: View,
    per_token: bool,
    kl: View | None,
    mask: View | None,
    offsets: View | None,
    kl_coef: float,
    low: float,
    high: float,
    rewards: View,
) -> None: ...
def overlong_penalty(
    lengths: View, max_length: float, buffer: float, factor: float, bounded: bool, penalties: View
) -> None: ...
def penalize_truncated(scores: View, truncated: View, coefficient: float) -> None: ...
def filter_groups(metric: View, groups: View, max_groups: int) -> list[int]: ...
def resample_pf_ppo(scores: View, method: str, power: float, count: int, seed: int) -> list[int]: ...
def learning_rate(
    kind: str,
    step: float,
    peak: float,
    start: float,
    warmup: float,
    total: float,
    min_ratio: float,
    stable_ratio: float,
) -> float: ...
def task_weights(failures: View, weights: View) -> None: ...

# balance.cpp
def karmarkar_karp(lengths: View, k: int, equal_size: bool) -> list[list[int]]: ...
def balanced_partitions(lengths: View, k: int, equal_size: bool) -> list[list[int]]: ...
def greedy_partition(lengths: View, k: int, equal_size: bool) -> list[list[int]]: ...
def first_fit(lengths: View, cap: int) -> list[list[int]]: ...
def balance_ranks(
    lengths: View, k: int, by_workload: bool, light_ends: bool, minibatch: int
) -> list[list[int]]: ...
def group_balanced_partitions(lengths: View, groups: View, k: int) -> list[list[int]]: ...
def micro_batches(
    lengths: View,
    max_tokens: int,
    min_count: int,
    divided_by: int,
    by_workload: bool,
    sort: bool,
    interleave: bool,
    verl_compat: bool,
    maximum_over_ranks: Callable[[int], int] | None,
) -> list[list[int]]: ...
def balance_stats(lengths: View, partition: Sequence[Sequence[int]]) -> dict[str, float]: ...
def restore_order(partition: Sequence[Sequence[int]]) -> list[int]: ...
def workloads(lengths: View) -> list[int]: ...
