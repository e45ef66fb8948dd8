"""The scan family: GAE, lambda-returns, reward-to-go, V-trace."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from troupe import _core
from troupe.algorithms._arrays import Argument, Call
from troupe.algorithms._checks import choice, number

if TYPE_CHECKING:
    from troupe.algorithms._arrays import ArrayLike, ArrayOut

__all__ = ["gae"]


def gae(
    rewards: ArrayLike,
    values: ArrayLike,
    *,
    gamma: float,
    lam: float,
    terminated: ArrayLike | None = None,
    truncated: ArrayLike | None = None,
    next_values: ArrayLike | None = None,
    bootstrap: ArrayLike | None = None,
    layout: str = "BT",
) -> tuple[ArrayOut, ArrayOut]:
    """Generalised advantage estimation (Schulman et al. 2016, eq. 16): `(advantages, returns)`, both float32 and of the shape
    of `rewards`; returns are advantages + values.

    rewards, values: [B, T] (layout "BT") or [T, B] ("TB").
    terminated, truncated: the same shape, or None for no episode ends inside a row.
    next_values: the same shape, V of the real next observation; None takes the value of the next step.
    bootstrap: [B], V after the last step when `next_values` is None; None means 0.
    gamma, lam: in [0, 1].
    Raises ValueError naming the argument that does not fit.
    """
    gamma = number("gamma", gamma, low=0, high=1)
    lam = number("lam", lam, low=0, high=1)
    time_major = choice("layout", layout, ("BT", "TB")) == "TB"
    if next_values is not None and bootstrap is not None:
        raise ValueError("bootstrap: given beside next_values; expected one of the two")

    call = Call(
        rewards=rewards,
        values=values,
        terminated=terminated,
        truncated=truncated,
        next_values=next_values,
        bootstrap=bootstrap,
    )
    # The kernel is time-major: [B, T] is turned round, which copies.
    rows = call.floats("rewards", rank=2, layout="any")
    after = call.floats("bootstrap", shape=(rows.shape[1 if time_major else 0],), optional=True)
    call = Call(
        rewards=_turned(rows, time_major),
        values=_turned(call.floats("values", like=rows, layout="any"), time_major),
        terminated=_turned(call.flags("terminated", like=rows, layout="any", optional=True), time_major),
        truncated=_turned(call.flags("truncated", like=rows, layout="any", optional=True), time_major),
        next_values=_turned(call.floats("next_values", like=rows, layout="any", optional=True), time_major),
    )
    rewards, values = call.floats("rewards"), call.floats("values")
    next_values = call.floats("next_values", optional=True)
    if next_values is None:
        next_values = call.output("next_values", rewards.shape)
        next_values.array[:-1] = values.array[1:]
        next_values.array[-1:] = 0 if after is None else after.array
    ends = [call.flags(name, optional=True) or _zeros(call, name, rewards.shape) for name in ("terminated", "truncated")]
    advantages = call.output("advantages", rewards.shape)
    returns = call.output("returns", rewards.shape)
    _core.gae_time_major(
        rewards.view,
        values.view,
        next_values.view,
        *(end.view for end in ends),
        gamma,
        lam,
        advantages.view,
        returns.view,
    )
    return _turned(advantages, time_major), _turned(returns, time_major)


def _turned(argument: Argument | None, time_major: bool) -> Any:
    """The array, [B, T] turned to [T, B] and back."""
    if argument is None or time_major:
        return None if argument is None else argument.array
    return argument.array.swapaxes(0, 1)


def _zeros(call: Call, name: str, shape: tuple[int, ...]) -> Argument:
    zeros = call.output(name, shape, "uint8")
    zeros.array[...] = 0
    return zeros
