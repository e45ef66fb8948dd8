"""Advantage estimators, whitening, reward shaping and group filters."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from troupe import _core
from troupe.algorithms._arrays import Argument, Call, row_offsets, view_of
from troupe.algorithms._checks import choice, integer, number
from troupe.algorithms._kl import kl as estimate_kl
from troupe.algorithms.types import AdvantageName, Advantages, KLName, ResampleMethod, WhitenVariant

if TYPE_CHECKING:
    from troupe.algorithms._arrays import ArrayLike, ArrayOut

__all__ = [
    "advantage_estimators",
    "advantages",
    "filter_groups",
    "overlong_penalty",
    "penalize_truncated",
    "resample_pf_ppo",
    "shape_rewards",
    "whiten",
]


def advantages(
    name: AdvantageName,
    rewards: ArrayLike,
    mask: ArrayLike | None = None,
    groups: ArrayLike | Sequence[Any] | None = None,
    *,
    values: ArrayLike | None = None,
    baselines: ArrayLike | None = None,
    old_logp: ArrayLike | None = None,
    sum_pi_squared: ArrayLike | None = None,
    rollout_is_weights: ArrayLike | None = None,
    offsets: ArrayLike | None = None,
    **params: Any,
) -> Advantages:
    """Advantages by the named estimator: `(advantages, returns)`, float32 with the shape of the tokens. Advantages are 0 at masked
    tokens unless a parameter says otherwise.

    name: gae, grpo, grpo_vectorized, dr_grpo, grpo_passk, reinforce_plus_plus, reinforce_plus_plus_baseline, rloo, remax, opo,
        gpg, optimal_token_baseline, tir_optimal_token_baseline, or an alias. `advantage_estimators()` lists the inputs of each, and
        its parameters with defaults and sources. docs/algorithms/sequences.md has the equations and papers.
    rewards: [B, T] per token; or [N] with `offsets`, for rows of different lengths one after the other. Or scores [B], one per
        sequence: each score becomes the reward of the row's last unmasked token (as in `shape_rewards`), and the results have
        the shape of `mask` or of another per-token argument. Without a per-token argument, each score is a sequence of one token
        and the results are [B].
    mask: [B, T], nonzero at unmasked tokens, gaps allowed; None = all. Rewards and other numbers at masked tokens are not read, so
        they may be NaN. A row without unmasked tokens is left out of its group, as if it were not there; with the parameter
        `count_masked_rewards` its rewards, or its score, count.
    groups: [B] labels of any hashable type; equal labels mean answers to one prompt.
    values: like rewards, for gae.
    baselines: [B] rewards of the greedy answers, for remax.
    old_logp, sum_pi_squared: like rewards, for the optimal baselines: log-probabilities of the tokens, and for each token the sum
        of the squared probabilities of the vocabulary. rollout_is_weights: importance weights, None = 1.
    offsets: [B + 1] integers from 0 to N; row i is offsets[i] to offsets[i + 1].
    params: parameters of the estimator, such as gamma, lam, norm_adv_by_std_in_grpo, singleton.
    Raises ValueError with the name of an invalid argument, and for a reward or score that is read and not finite with its index;
    mask the tokens of a row to leave it out.
    """
    entry = _entry(name)
    arrays = {
        "values": values,
        "baselines": baselines,
        "old_logp": old_logp,
        "sum_pi_squared": sum_pi_squared,
    }
    for needed in entry["needs"]:
        if (groups if needed == "groups" else arrays[needed]) is None:
            raise ValueError(f"{needed}: None, expected an array, which {name} needs")
    call = Call(rewards=rewards, mask=mask, rollout_is_weights=rollout_is_weights, **arrays)
    rewards, rows_at, shape = _token_rewards(call, offsets, bool(params.get("count_masked_rewards", False)))
    rows = rewards.shape[0] if rows_at is None else rows_at.shape[0] - 1
    per_token = {key: call.floats(key, like=rewards, optional=True) for key in _PER_TOKEN}
    per_row = call.floats("baselines", shape=(rows,), optional=True)
    result = call.output("advantages", shape), call.output("returns", shape)
    labels = None if groups is None else _labels(groups, rows)
    mask_read = call.flags("mask", like=rewards, optional=True)
    _core.advantages(
        name,
        {key: _plain(f"{name}.{key}", value) for key, value in params.items()},
        rewards.view,
        view_of(mask_read),
        view_of(rows_at),
        view_of(labels),
        view_of(per_token["values"]),
        view_of(per_row),
        view_of(per_token["old_logp"]),
        view_of(per_token["sum_pi_squared"]),
        view_of(per_token["rollout_is_weights"]),
        *(array.view for array in result),
    )
    return Advantages(result[0].array, result[1].array)


_PER_TOKEN = ("values", "old_logp", "sum_pi_squared", "rollout_is_weights")


def _token_rewards(call: Call, offsets: Any, count_masked: bool) -> tuple[Argument, Argument | None, tuple[int, ...]]:
    """Rewards per token, offsets, and the shape of the results. Scores (one per row) go to the last unmasked token; that of a
    row without one goes to its last token if rewards at masked tokens count."""
    given = call.floats("rewards", rank=(1, 2) if offsets is None else 1)
    beside = next((name for name in ("mask", *_PER_TOKEN) if call.has(name)), None)
    if len(given.shape) == 2 or (beside is None and offsets is not None):
        _require_finite(given, None if count_masked else call.flags("mask", like=given, optional=True))
        return given, row_offsets(offsets, given), given.shape
    if beside is None:
        _require_finite(given, None)
        return Call(rewards=given.array[:, None]).floats("rewards"), None, given.shape
    read = call.flags if beside == "mask" else call.floats
    like = read(beside, rank=2 if offsets is None else 1)
    rows_at = row_offsets(offsets, like)
    mask = call.flags("mask", optional=True, like=like)
    if given.shape == like.shape:
        _require_finite(given, None if count_masked else mask)
        return given, rows_at, given.shape
    rows = like.shape[0] if rows_at is None else rows_at.shape[0] - 1
    if given.shape != (rows,):
        raise ValueError(
            f"rewards: shape {given.shape}, expected {like.shape}, the shape of {beside}, or one score per row: ({rows},)"
        )
    ends = _row_ends(like, rows_at, rows)
    unmasked = [bool(np.any(_flat(mask)[first:last])) if mask else last > first for first, last in ends]
    read = [last > first if count_masked else some for (first, last), some in zip(ends, unmasked)]
    _require_finite(given, np.array(read, bool))
    result = call.output("rewards", like.shape)
    _core.shape_rewards(given.view, False, None, view_of(mask), view_of(rows_at), 0, -math.inf, math.inf, result.view)
    if count_masked:
        flat, scores = _flat(result), _flat(given)
        for row, (first, last) in enumerate(ends):
            if last > first and not unmasked[row]:
                flat[last - 1] = scores[row]
    return result, rows_at, like.shape


def _flat(argument: Argument) -> np.ndarray:
    """The elements of a contiguous array, in its own memory."""
    return np.asarray(argument.array).reshape(-1)


def _row_ends(like: Argument, rows_at: Argument | None, rows: int) -> list[tuple[int, int]]:
    """For each row, its first element and the one past its last."""
    if rows_at is None:
        return [(row * like.shape[1], (row + 1) * like.shape[1]) for row in range(rows)]
    starts = _flat(rows_at).tolist()
    return list(zip(starts[:-1], starts[1:]))


def _require_finite(rewards: Argument, read: Argument | np.ndarray | None) -> None:
    """Raises ValueError for the first number that is not finite among those that are read; `read` None = all."""
    values = np.asarray(rewards.array)
    bad = ~np.isfinite(values)
    if read is not None:
        bad &= np.asarray(read.array if isinstance(read, Argument) else read).reshape(values.shape) != 0
    if not bad.any():
        return
    index = tuple(int(i) for i in np.argwhere(bad)[0])
    raise ValueError(
        f"rewards: {values[index]:g} at index {index[0] if len(index) == 1 else index}, expected finite numbers; "
        "mask the tokens of a row to leave it out"
    )


def advantage_estimators() -> dict[str, dict[str, Any]]:
    """Every advantage estimator by name, with its `aliases`, `needs` (arguments in addition to rewards and mask) and `parameters`,
    each with `default`, `expected`, `doc` and `source`."""
    return _core.advantage_table()


def whiten(
    x: ArrayLike,
    mask: ArrayLike | None = None,
    *,
    shift_mean: bool = True,
    variant: WhitenVariant = "verl",
    scale: bool = True,
    zero_outside: bool = False,
    strict: bool = False,
    group: Any = None,
) -> ArrayOut:
    """Normalizes `x` to mean 0 and standard deviation 1 over its unmasked elements: float32, same shape. With `shift_mean` False
    the mean is added back. Moments are computed in float64.

    x, mask: of the same shape, any shape; mask None = all unmasked.
    variant: verl, slime: unbiased variance, divisor sqrt(var + 1e-8); openrlhf: population variance, at least 1e-8;
        accerl: population variance, divisor sqrt(var) + 1e-8; lm_human_preferences: population variance, divisor sqrt(var + 1e-8).
    scale: False subtracts only the mean.
    zero_outside: True sets masked elements to 0; False transforms them with the same mean and divisor.
    strict: True raises ValueError for fewer than two unmasked elements, as in verl. False: none gives zeros, a single one is only
        centered.
    group: a torch.distributed process group. Mean and variance are then over the elements of all its members, and each member must
        call, even if its part is empty.
    """
    choice("variant", variant, get_args(WhitenVariant))
    call = Call(x=x, mask=mask)
    x = call.floats("x")
    mask = call.flags("mask", like=x, optional=True)
    moments = _core.moments(x.view, view_of(mask))
    parts = [moments] if group is None else _gathered(moments, group)
    result = call.output("x", x.shape)
    result.array[...] = x.array
    _core.whiten(result.view, view_of(mask), parts, variant, bool(shift_mean), bool(scale), bool(zero_outside), bool(strict))
    return result.array


def shape_rewards(
    scores: ArrayLike,
    mask: ArrayLike | None = None,
    *,
    kl: ArrayLike | None = None,
    logp: ArrayLike | None = None,
    ref_logp: ArrayLike | None = None,
    kl_name: KLName = "k1",
    kl_coef: float = 0.0,
    clip: float | tuple[float, float] | None = None,
    offsets: ArrayLike | None = None,
) -> ArrayOut:
    """Rewards per token, float32: -kl_coef * kl at every unmasked token, plus the clipped score of the row at its last unmasked
    token; 0 at masked tokens. The score of a row without unmasked tokens is ignored.

    scores: [B], or one per token, like the mask; then each score stays at its token.
    mask: [B, T], nonzero at unmasked tokens; optional if kl or scores give the shape. With `offsets` [B + 1] all per-token arrays
        are [N], row after row.
    kl: per token; or pass logp and ref_logp, from which the estimate `kl_name` of `troupe.algorithms.kl` is computed.
    kl_coef: at least 0.  clip: c for [-c, c], or (low, high); applies to scores only.
    """
    kl_coef = number("kl_coef", kl_coef, low=0)
    low, high = _bounds(clip)
    if (logp is None) != (ref_logp is None) or (logp is not None and kl is not None):
        raise ValueError("kl: expected either kl, or both logp and ref_logp")
    call = Call(scores=scores, mask=mask, kl=kl, logp=logp, ref_logp=ref_logp)
    rank = 2 if offsets is None else 1
    tokens = next((key for key, given in (("mask", mask), ("kl", kl), ("logp", logp)) if given is not None), "scores")
    like = call.flags("mask", rank=rank) if tokens == "mask" else call.floats(tokens, rank=rank)
    mask = call.flags("mask", like=like, optional=True)
    divergence = call.floats("kl", like=like, optional=True)
    if logp is not None:
        own, reference = call.floats("logp", like=like), call.floats("ref_logp", like=like)
        divergence = Call(kl=estimate_kl(kl_name, own.array, reference.array)).floats("kl")
    rows_at = row_offsets(offsets, like)
    rows = like.shape[0] if rows_at is None else rows_at.shape[0] - 1
    scores = call.floats("scores")
    per_token = tokens == "scores" or scores.shape != (rows,)
    if per_token and scores.shape != like.shape:
        raise ValueError(f"scores: shape {scores.shape}, expected ({rows},) or {like.shape}, the shape of {like.name}")
    result = call.output("rewards", like.shape)
    _core.shape_rewards(
        scores.view, per_token, view_of(divergence), view_of(mask), view_of(rows_at), kl_coef, low, high, result.view
    )
    return result.array


def overlong_penalty(
    lengths: ArrayLike, *, max_length: float, buffer: float, factor: float = 1.0, bounded: bool = False
) -> ArrayOut:
    """Penalties [B] float32 to be added to the scores of answers with these lengths [B]: 0 up to max_length - buffer, then linear
    down to -factor at max_length (DAPO, Yu et al. 2025, arXiv:2503.14476, eq. 13). Beyond max_length the penalty keeps growing, as
    in verl; with `bounded` it stays at -factor, as in OpenRLHF."""
    max_length = number("max_length", max_length, above=0)
    buffer = number("buffer", buffer, above=0, high=max_length)
    factor = number("factor", factor, low=0)
    call = Call(lengths=lengths)
    lengths = call.integers("lengths", rank=1)
    _at_least_zero(lengths)
    result = call.output("penalties", lengths.shape)
    _core.overlong_penalty(lengths.view, max_length, buffer, factor, bool(bounded), result.view)
    return result.array


def penalize_truncated(scores: ArrayLike, truncated: ArrayLike, *, coefficient: float) -> ArrayOut:
    """Scores [B] float32 in which those of truncated answers are multiplied by a coefficient in [0, 1], or replaced by a negative
    one (OpenRLHF's stop-properly penalty)."""
    coefficient = number("coefficient", coefficient, high=1)
    call = Call(scores=scores, truncated=truncated)
    scores = call.floats("scores", rank=1)
    truncated = call.flags("truncated", like=scores)
    result = call.output("scores", scores.shape)
    result.array[...] = scores.array
    _core.penalize_truncated(result.view, truncated.view, coefficient)
    return result.array


def filter_groups(metric: ArrayLike, groups: ArrayLike | Sequence[Any], *, max_groups: int | None = None) -> ArrayOut:
    """Indices of the rows to keep, in ascending order. Removes groups in which the metric [B] is the same for every row, which
    have no learning signal (dynamic sampling of DAPO, Yu et al. 2025, arXiv:2503.14476). A group of one row is kept, a group with
    a number that is not finite is not. `max_groups` keeps at most that many groups, by first appearance."""
    limit = -1 if max_groups is None else integer("max_groups", max_groups, low=0)
    call = Call(metric=metric)
    metric = call.floats("metric", rank=1)
    labels = _labels(groups, metric.shape[0])
    return _indices(call, _core.filter_groups(metric.view, labels.view, limit))


def resample_pf_ppo(
    scores: ArrayLike, *, seed: int, method: ResampleMethod = "pow", weight_pow: float = 2.0, count: int | None = None
) -> ArrayOut:
    """Indices of `count` rows (default: as many as there are) drawn with replacement by their scores [B] (PF-PPO, Shen and Zhang
    2024, arXiv:2409.06957). The same seed draws the same rows on every machine.

    method: weight of a row, to which 1e-8 is added. pow: |score|^weight_pow; max_min: 1 for the largest and smallest
        score, 0 for others; max_random: 0.4 for the largest, 0.1 for others.
    """
    choice("method", method, get_args(ResampleMethod))
    weight_pow = number("weight_pow", weight_pow, low=0)
    seed = integer("seed", seed, low=0)
    call = Call(scores=scores)
    scores = call.floats("scores", rank=1)
    for i, score in enumerate(np.asarray(scores.array)):
        if not math.isfinite(score):
            raise ValueError(f"scores: {score:g} at index {i}, expected finite numbers")
    rows = scores.shape[0]
    largest = max((abs(float(score)) for score in scores.array), default=0.0)
    if method == "pow" and largest > 0 and weight_pow * math.log(largest) + math.log(rows) > 709:  # the range of float64
        raise ValueError(f"weight_pow: {weight_pow:g}, expected a power in which |score| = {largest:g} stays finite")
    drawn = rows if count is None else integer("count", count, low=0)
    if rows == 0 and drawn > 0:
        raise ValueError(f"count: {drawn} of 0 rows")
    return _indices(call, _core.resample_pf_ppo(scores.view, method, weight_pow, drawn, seed))


def _entry(name: Any) -> dict[str, Any]:
    table = _core.advantage_table()
    for known, entry in table.items():
        if name == known or name in entry["aliases"]:
            return entry
    choice("name", name, list(table))
    raise AssertionError


def _plain(name: str, value: Any) -> bool | int | float | str:
    """A setting as one of the four types that the kernels know; scalars of numpy and torch are converted."""
    if isinstance(value, (str, bool, np.bool_)):
        return value if isinstance(value, str) else bool(value)
    try:
        return integer(name, value)
    except ValueError:
        return number(name, value, infinite=True)


def _labels(groups: Any, rows: int) -> Argument:
    """Numbers for labels of any hashable type; equal labels get equal numbers."""
    try:
        labels = groups.tolist() if hasattr(groups, "tolist") else list(groups)
    except (TypeError, RuntimeError):  # RuntimeError: tensors without memory
        raise ValueError(f"groups: {groups!r}, expected {rows} labels") from None
    if not isinstance(labels, list) or len(labels) != rows:
        length = len(labels) if isinstance(labels, list) else "a scalar"
        raise ValueError(f"groups: {length} labels, expected {rows}, one per row")
    number_of: dict[Any, int] = {}
    try:
        numbers = [number_of.setdefault(label, len(number_of)) for label in labels]
    except TypeError as error:
        raise ValueError(f"groups: {error}; expected one hashable label per row") from None
    return Call(groups=np.array(numbers, np.int64)).integers("groups")


def _bounds(clip: Any) -> tuple[float, float]:
    if clip is None:
        return -math.inf, math.inf
    if isinstance(clip, (tuple, list)):
        if len(clip) != 2:
            raise ValueError(f"clip: {clip!r}, expected a number or (low, high)")
        low = number("clip", clip[0], infinite=True)
        return low, number("clip", clip[1], low=low, infinite=True)
    high = number("clip", clip, low=0, infinite=True)
    return -high, high


def _at_least_zero(lengths: Argument) -> None:
    values = np.asarray(lengths.array)
    if values.size and values.min() < 0:
        raise ValueError(f"{lengths.name}: {values.min()} at index {values.argmin()}, expected at least 0")


def _gathered(moments: tuple[float, float, float], group: Any) -> list[tuple[float, float, float]]:
    """The moments of every member of a process group in the order of ranks, so that merging gives the same result on all."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.distributed.is_initialized():
        raise ValueError(f"group: {group!r}, but torch.distributed has not been initialised")
    device = "cuda" if torch.distributed.get_backend(group) == "nccl" else "cpu"
    own = torch.tensor(moments, dtype=torch.float64, device=device)
    all_moments = [torch.empty_like(own) for _ in range(torch.distributed.get_world_size(group))]
    torch.distributed.all_gather(all_moments, own, group=group)
    return [tuple(part.tolist()) for part in all_moments]


def _indices(call: Call, rows: Sequence[int]) -> Any:
    result = call.output("rows", (len(rows),), "int64")
    np.asarray(result.array)[...] = rows
    return result.array
