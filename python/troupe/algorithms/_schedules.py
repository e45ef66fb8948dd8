"""Learning-rate schedules and task weights."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from troupe import _core
from troupe.algorithms._arrays import Call
from troupe.algorithms._checks import choice, number
from troupe.algorithms.types import LearningRateKind

if TYPE_CHECKING:
    from troupe.algorithms._arrays import ArrayLike, ArrayOut

__all__ = ["learning_rate", "task_weights"]


def learning_rate(
    kind: LearningRateKind,
    step: float,
    *,
    peak: float,
    warmup: float = 0,
    total: float | None = None,
    start: float = 0,
    min_ratio: float = 0.0,
    stable_ratio: float = 0.9,
) -> float:
    """The learning rate at `step`: 0 before `start`, then linear from 0 to `peak` over `warmup` steps, then by kind until
    `total`, after which it stays at peak * min_ratio.

    kind: constant (stays at the peak; does not need total), linear, cosine, or wsd (the peak for the first `stable_ratio` of the
        time after the warm-up, then half a cosine).
    After `total` the rate does not rise again (in verl, the cosine does). When start + warmup >= total, the decay has ended when
    the warm-up ends. Raises ValueError with the name of an invalid argument.
    """
    choice("kind", kind, get_args(LearningRateKind))
    if total is None:
        if kind != "constant":
            raise ValueError(f"total: None, expected a number of steps: the schedule {kind!r} needs it")
        total = 0
    return _core.learning_rate(
        kind,
        number("step", step),
        number("peak", peak, low=0),
        number("start", start, low=0),
        number("warmup", warmup, low=0),
        number("total", total, low=0),
        number("min_ratio", min_ratio, low=0, high=1),
        number("stable_ratio", stable_ratio, low=0, high=1),
    )


def task_weights(failures: ArrayLike) -> ArrayOut:
    """Probabilities [N] float64 for drawing tasks that failed so often recently: (failures + 1) / sum. The counts may be
    fractional."""
    call = Call(failures=failures)
    failures = call.floats("failures", "float64", rank=1)
    values = np.asarray(failures.array)
    for i in np.flatnonzero(~(np.isfinite(values) & (values >= 0)))[:1]:
        raise ValueError(f"failures: {values[i]:g} at index {i}, expected a finite number >= 0")
    result: Any = call.output("weights", failures.shape, "float64")
    _core.task_weights(failures.view, result.view)
    return result.array
