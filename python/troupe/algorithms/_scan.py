"""The scan family: GAE, lambda-returns, reward-to-go, V-trace."""

from __future__ import annotations

import math
import os
import sys
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from troupe.algorithms._arrays import Argument, row_offsets, view_of
from troupe.algorithms._checks import choice, integer, number
from troupe.algorithms._cuda_scan import kernels_for
from troupe.algorithms._devices import DeviceCall
from troupe.algorithms.types import Advantages, Layout, MaskedReturn, Outside, QMix, VTrace

if TYPE_CHECKING:
    from troupe.algorithms._arrays import ArrayLike, ArrayOut

__all__ = ["gae", "lambda_returns", "reward_to_go", "vtrace"]


def gae(
    rewards: ArrayLike,
    values: ArrayLike,
    *,
    gamma: float | ArrayLike,
    lam: float | ArrayLike,
    mask: ArrayLike | None = None,
    terminated: ArrayLike | None = None,
    truncated: ArrayLike | None = None,
    next_values: ArrayLike | None = None,
    bootstrap: float | ArrayLike | None = None,
    layout: Layout = "BT",
    chunk_size: int | None = None,
    outside: Outside = "zero",
    offsets: ArrayLike | None = None,
    threads: int | None = None,
) -> Advantages:
    """Generalized advantage estimation (Schulman et al. 2016, arXiv:1506.02438, eq. 16): `(advantages, returns)`, both float32 with
    the shape of `rewards`. Backward over each sequence:

        delta_t = r_t + gamma V'_t (0 where terminated) - V_t
        A_t     = delta_t + gamma lam A_{t+1} (0 where terminated or truncated)
        returns = A + V

    Advantages are not whitened, and the returns are computed from them. verl's `compute_gae_advantage_return` whitens its advantages
    afterwards; to do the same, call `whiten(advantages, mask)`.

    rewards, values: [B, T] (layout "BT") or [T, B] ("TB"), or [T] for a single sequence. float32 and bfloat16 are read as they
        are, other dtypes are converted. Either dimension may be the contiguous one in memory, without a copy.
    gamma, lam: in [0, 1]; numbers, or arrays that broadcast to the shape of `rewards`.
    mask: the same shape. Masked steps are skipped, as verl skips observation tokens: they add no discount, and their reward and
        value are ignored, so the successor of a step is the next unmasked one. NaN at masked steps affects nothing.
    outside: the results at masked steps. "zero", or "carry": the advantage of the next unmasked step (0 if none), and this plus
        the masked value, as in verl.
    terminated, truncated: the same shape, or None if no episode ends inside a row. The state after a terminated step has value 0,
        the state after a truncated step has value V'. terminated takes precedence over truncated.
    next_values: the same shape, V' of the real next observation; not read where terminated. None: V of the next step. Pass
        next_values if an episode is truncated inside a row, because the next step then belongs to another episode.
    bootstrap: V after the last step of each sequence, [B] or a number; None means 0. Cannot be combined with `next_values`.
    offsets: [B + 1] integers for packed sequences of different lengths: the arrays are flat, and sequence b is elements
        [offsets[b], offsets[b + 1]).
    chunk_size: at least 1, has no effect. Accepted for compatibility with chunked implementations, whose result does not depend on
        it either.
    threads: maximum number; None for PyTorch's number, or that of the processors. Results do not depend on it. If rows are
        contiguous along T, results may differ between processors by rounding.
    Raises ValueError with the name of an invalid argument.
    """
    problem = _Problem(
        layout,
        threads,
        offsets,
        rewards=rewards,
        values=values,
        gamma=gamma,
        lam=lam,
        mask=mask,
        terminated=terminated,
        truncated=truncated,
        next_values=next_values,
        bootstrap=bootstrap,
    )
    inputs = _gae_inputs(problem, outside, chunk_size)
    advantages, returns = problem.output("advantages"), problem.output("returns")
    problem.kernels.gae_returns(*inputs, advantages.view, returns.view)
    return Advantages(problem.result(advantages), problem.result(returns))


def lambda_returns(
    rewards: ArrayLike,
    values: ArrayLike,
    *,
    gamma: float | ArrayLike,
    lam: float | ArrayLike,
    mask: ArrayLike | None = None,
    terminated: ArrayLike | None = None,
    truncated: ArrayLike | None = None,
    next_values: ArrayLike | None = None,
    bootstrap: float | ArrayLike | None = None,
    layout: Layout = "BT",
    chunk_size: int | None = None,
    outside: Outside = "zero",
    offsets: ArrayLike | None = None,
    threads: int | None = None,
) -> ArrayOut:
    """The lambda-return of every step (Sutton and Barto 2018, eq. 12.20): float32 with the shape of `rewards`.

        G_t = r_t + gamma ((1 - lam) V_{t+1} + lam G_{t+1})

    This is the second result of `gae`, computed without the first. All arguments are as for `gae`; `values` are V(s_t).
    """
    problem = _Problem(
        layout,
        threads,
        offsets,
        rewards=rewards,
        values=values,
        gamma=gamma,
        lam=lam,
        mask=mask,
        terminated=terminated,
        truncated=truncated,
        next_values=next_values,
        bootstrap=bootstrap,
    )
    inputs = _gae_inputs(problem, outside, chunk_size)
    returns = problem.output("returns")
    problem.kernels.gae_returns(*inputs, None, returns.view)
    return problem.result(returns)


def reward_to_go(
    rewards: ArrayLike,
    *,
    gamma: float | ArrayLike = 1.0,
    mask: ArrayLike | None = None,
    terminated: ArrayLike | None = None,
    bootstrap: float | ArrayLike | None = None,
    layout: Layout = "BT",
    masked: MaskedReturn = "skip",
    outside: Outside = "zero",
    offsets: ArrayLike | None = None,
    threads: int | None = None,
) -> ArrayOut:
    """The discounted sum of rewards from each step on, G_t = r_t + gamma G_{t+1}: float32 with the shape of `rewards`.

    rewards, gamma, mask, layout, offsets, threads: as for `gae`.
    masked: the effect of a masked step. "skip": its reward is ignored and it adds no discount. "reset": the sum restarts before it,
        which is the carry of REINFORCE++ in verl, G_t = r_t + gamma m_{t+1} G_{t+1}.
    outside: the result at masked steps. "zero", or "carry": with skip the sum after the step, with reset r_t + gamma times that.
    terminated: nonzero if an episode ends at this step, terminated or truncated.
    bootstrap: the sum after the last step of each sequence, [B] or a number; None means 0.
    Raises ValueError with the name of an invalid argument.
    """
    reset = choice("masked", masked, get_args(MaskedReturn)) == "reset"
    carry = choice("outside", outside, get_args(Outside)) == "carry"
    problem = _Problem(
        layout, threads, offsets, rewards=rewards, gamma=gamma, mask=mask, terminated=terminated, bootstrap=bootstrap
    )
    factor, factors = problem.factor("gamma")
    returns = problem.output("returns")
    problem.kernels.discounted_returns(
        problem.rewards,
        problem.flags("terminated"),
        problem.flags("mask"),
        factors,
        problem.bootstrap(),
        problem.offsets,
        factor,
        problem.time_major,
        reset,
        carry,
        problem.threads,
        returns.view,
    )
    return problem.result(returns)


def vtrace(
    log_rho: ArrayLike,
    discounts: float | ArrayLike,
    rewards: ArrayLike,
    values: ArrayLike,
    bootstrap: float | ArrayLike,
    *,
    lam: float = 1.0,
    rho_bar: float | None = 1.0,
    c_bar: float | None = 1.0,
    pg_rho_bar: float | None = 1.0,
    q_mix: QMix = "impala",
    layout: Layout = "TB",
    threads: int | None = None,
) -> VTrace:
    """V-trace targets of arrays [T, B], time first; pass layout="BT" for [B, T]. (The default of `gae` is "BT".)

    `(vs, pg_advantages)` (Espeholt et al. 2018, arXiv:1802.01561, eq. 1 and section 4.2), both float32 with the shape of
    `rewards`. With rho_t = exp(log_rho_t), where log_rho_t is clamped to +-20:

        delta_t = min(rho_bar, rho_t) (r_t + discount_t V_{t+1} - V_t)
        vs_t    = V_t + delta_t + discount_t lam min(c_bar, rho_t) (vs_{t+1} - V_{t+1})
        pg_t    = min(pg_rho_bar, rho_t) (r_t + discount_t vs_{t+1} - V_t)

    log_rho, rewards, values: [T, B], or [T] for a single sequence ([B, T] with layout "BT"); log_rho is log pi(a|s) -
        log mu(a|s), summed over the dimensions of the action.
    discounts: gamma (1 - terminated), in [0, 1]: a number, or an array that broadcasts to the shape of `rewards`. The range is not
        checked for arrays on a GPU. A discount of 0 separates episodes: not even NaN propagates across it.
    bootstrap: V after the last step of each sequence, [B] or a number.
    lam: in [0, 1], multiplies the trace after the minimum (as in seed_rl).
    rho_bar, c_bar, pg_rho_bar: upper bounds, above 0; None or infinity = none. rho_bar >= c_bar, as in the paper.
    q_mix: "impala", or "rlax": lam vs_{t+1} + (1 - lam) V_{t+1} in place of vs_{t+1} in pg.
    threads: as for `gae`.
    pg_advantages already contain the importance weight. A clipped surrogate multiplies by a ratio too, which would weight samples
    twice: use pg_advantages with a plain policy gradient, or only for on-policy data.
    Raises ValueError with the name of an invalid argument.
    """
    lam = number("lam", lam, low=0, high=1)
    bounds = [_bound(name, x) for name, x in (("rho_bar", rho_bar), ("c_bar", c_bar), ("pg_rho_bar", pg_rho_bar))]
    if bounds[0] < bounds[1]:
        raise ValueError(f"rho_bar: {bounds[0]:g} is below c_bar {bounds[1]:g}, expected rho_bar >= c_bar")
    rlax = choice("q_mix", q_mix, get_args(QMix)) == "rlax"
    if bootstrap is None:
        raise ValueError("bootstrap: None, expected an array or a number")
    problem = _Problem(
        layout, threads, rewards=rewards, log_rho=log_rho, discounts=discounts, values=values, bootstrap=bootstrap
    )
    inputs = [
        problem.floats("log_rho"),
        problem.bounded("discounts"),
        problem.rewards,
        problem.floats("values"),
        problem.bootstrap(),
    ]
    vs, pg_advantages = problem.output("vs"), problem.output("pg_advantages")
    problem.kernels.vtrace_targets(*inputs, lam, *bounds, rlax, problem.time_major, problem.threads, vs.view, pg_advantages.view)
    return VTrace(problem.result(vs), problem.result(pg_advantages))


def _bound(name: str, value: float | None) -> float:
    return math.inf if value is None else number(name, value, above=0, infinite=True)


def _gae_inputs(problem: _Problem, outside: str, chunk_size: int | None) -> list[Any]:
    """The arguments of `_core.gae_returns` before the outputs."""
    carry = choice("outside", outside, get_args(Outside)) == "carry"
    if chunk_size is not None:
        integer("chunk_size", chunk_size, low=1)
    gamma, gammas = problem.factor("gamma")
    lam, lambdas = problem.factor("lam")
    next_values, bootstrap = problem.floats("next_values", optional=True), problem.bootstrap()
    if next_values is not None and bootstrap is not None:
        raise ValueError("bootstrap: cannot be combined with next_values; pass one of the two")
    return [
        problem.rewards,
        problem.floats("values"),
        next_values,
        problem.flags("terminated"),
        problem.flags("truncated"),
        problem.flags("mask"),
        gammas,
        lambdas,
        bootstrap,
        problem.offsets,
        gamma,
        lam,
        problem.time_major,
        carry,
        problem.threads,
    ]


class _Problem:
    """The arrays of one call as rows of memory: [B, T] or [T, B], depending on the contiguous dimension of `rewards`. Owns them."""

    def __init__(self, layout: str, threads: int | None, offsets: Any = None, **arrays: Any) -> None:
        time_major = choice("layout", layout, get_args(Layout)) == "TB"
        self._sequences_last = time_major
        self.threads = _threads() if threads is None else integer("threads", threads, low=1, high=2**31 - 1)
        self._arrays = arrays
        self._call = DeviceCall(**arrays)
        rank = 1 if offsets is not None else (1, 2)
        given = self._call.floats("rewards", self._call.float_dtype("rewards"), rank=rank, layout="any")
        flat = len(given.shape) == 1
        # The layout that the kernel reads; rows of memory may have gaps between them.
        self._turned = not flat and not _rows_lie(given.array) and _rows_lie(given.array.swapaxes(0, 1))
        self._like = given
        self.kernels = kernels_for(given.array)
        self._lies = "contiguous" if flat else "any" if self._turned else "rows"
        self._kept: list[Argument] = []
        self.time_major = time_major != self._turned
        self._sequences = 1 if flat else given.shape[1 if time_major else 0]
        rows = row_offsets(offsets, given)
        if rows is not None:
            self._sequences = rows.shape[0] - 1
        self.offsets = self._keep(rows)
        self.rewards = self.floats("rewards")

    def floats(self, name: str, *, optional: bool = False, broadcast: bool = False) -> Any:
        dtype = self._call.float_dtype(name)
        argument = self._call.floats(
            name, dtype, like=self._like, layout=self._lies, optional=optional, broadcast=broadcast
        )
        if argument is not None and self._turned:
            argument = DeviceCall(**{name: argument.array.swapaxes(0, 1)}).floats(name, dtype, layout="rows")
        return self._keep(argument)

    def flags(self, name: str) -> Any:
        argument = self._call.flags(name, like=self._like, layout=self._lies, optional=True)
        if argument is not None and self._turned:
            argument = DeviceCall(**{name: argument.array.swapaxes(0, 1)}).flags(name, layout="rows")
        return self._keep(argument)

    def factor(self, name: str) -> tuple[float, Any]:
        """A number in [0, 1] and None, or 1 and an array of numbers in [0, 1]; masked elements are not checked."""
        value = self._arrays[name]
        if not isinstance(value, (list, tuple)) and getattr(value, "shape", ()) == ():
            return number(name, value, low=0, high=1), None
        array = self._call.floats(name, like=self._like, layout="any", broadcast=True).array
        wrong = ~((array >= 0) & (array <= 1))
        if self._arrays.get("mask") is not None:
            wrong = wrong & (self._call.flags("mask", like=self._like, layout="any").array != 0)
        if wrong.any():
            raise ValueError(f"{name}: contains {float(array[wrong][0]):g}, expected numbers in [0, 1]")
        return 1.0, self.floats(name, broadcast=True)

    def bounded(self, name: str) -> Any:
        """Numbers in [0, 1], or an array of them. Arrays on a GPU are not checked, because that would wait for the GPU."""
        if not getattr(self._arrays[name], "is_cuda", False):
            _, array = self.factor(name)
            if array is not None:
                return array
        return self.floats(name, broadcast=True)

    def bootstrap(self) -> Any:
        self._check_bootstrap_layout()
        return self._keep(
            self._call.floats("bootstrap", shape=(self._sequences,), optional=True, broadcast=True)
        )

    def _check_bootstrap_layout(self) -> None:
        """Rejects shapes that fit only the other layout, such as [1] for the only row of rewards [1, T] that are read as [T, B]."""
        shape, whole = _shape_of(self._arrays["bootstrap"]), self._like.shape
        if len(whole) != 2 or shape in (None, (), (self._sequences,)):
            return
        other = whole[0] if self._sequences_last else whole[1]
        if shape == (1,) and other != 1:
            return
        given, turned = ("TB", "BT") if self._sequences_last else ("BT", "TB")
        raise ValueError(
            f"bootstrap: shape {shape}, expected ({self._sequences},), one per sequence: layout={given!r} reads rewards of "
            f"shape {whole} as [{given[0]}, {given[1]}]; pass layout={turned!r} if they are [{turned[0]}, {turned[1]}]"
        )

    def output(self, name: str) -> Argument:
        shape = self._like.shape
        return self._call.output(name, shape[::-1] if self._turned else shape)

    def result(self, argument: Argument) -> Any:
        """The output in the user's layout."""
        return argument.array.swapaxes(0, 1) if self._turned else argument.array

    def _keep(self, argument: Argument | None) -> Any:
        if argument is not None:
            self._kept.append(argument)
        return view_of(argument)


def _shape_of(value: Any) -> tuple[int, ...] | None:
    """The shape of an array, a number or lists; None if there is none."""
    if value is None:
        return None
    try:
        return tuple(value.shape) if hasattr(value, "shape") else np.shape(value)
    except ValueError:  # lists of different lengths
        return None


def _rows_lie(array: Any) -> bool:
    """Whether the last dimension is contiguous."""
    if array.shape[-1] == 1:
        return True
    return array.stride(-1) == 1 if callable(getattr(array, "stride", None)) else array.strides[-1] == array.itemsize


def _threads() -> int:
    torch = sys.modules.get("torch")
    return torch.get_num_threads() if torch is not None else len(os.sched_getaffinity(0))
