"""Surrogates, aggregation, value losses and rollout correction."""

from __future__ import annotations

import math
import numbers
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from troupe import _core
from troupe.algorithms._arrays import Argument, Call, row_offsets, view_of
from troupe.algorithms._checks import choice, integer, no_others, number, one_value_each
from troupe.algorithms._devices import DeviceCall, loss_kernels
from troupe.algorithms._tokens import (
    differentiable,
    needs_gradient,
    norms,
    take_normalisers,
)
from troupe.algorithms.types import (
    Aggregation,
    Loss,
    Reduction,
    RolloutCorrection,
    RolloutCorrectionMethod,
    SurrogateName,
    ValueLossKind,
)

if TYPE_CHECKING:
    from troupe.algorithms._arrays import ArrayLike, ArrayOut

__all__ = ["AGGREGATIONS", "SURROGATES", "aggregate", "policy_loss", "rollout_correction", "value_loss"]

AGGREGATIONS = get_args(Aggregation)

#: Every surrogate: name, aliases, parameters (key, default, expected, doc, source, aliases) and default aggregation.
SURROGATES = {entry["name"]: entry for entry in _core.surrogates()}
_BY_ANY_NAME = {alias: entry for entry in SURROGATES.values() for alias in (entry["name"], *entry["aliases"])}
# For every surrogate: maps each parameter name, including aliases, to the parameter's key.
_PARAMETER_NAMES = {
    name: {key: p["key"] for p in entry["parameters"] for key in (p["key"], *filter(None, p["aliases"].split(",")))}
    for name, entry in SURROGATES.items()
}


def policy_loss(
    name: SurrogateName,
    logp: ArrayLike,
    old_logp: ArrayLike,
    advantages: ArrayLike,
    mask: ArrayLike | None = None,
    *,
    aggregation: Aggregation | None = None,
    reduction: Reduction = "mean",
    rollout_is_weights: ArrayLike | None = None,
    offsets: ArrayLike | None = None,
    seed: int = 0,
    **params: Any,
) -> Loss:
    """The loss of a policy surrogate, to be minimized, and its diagnostics: `(loss, metrics)`. Differentiable once with respect
    to `logp`. Loss and gradient are computed together, and only the gradient is kept.

    name: a key of `SURROGATES` or one of its aliases. docs/algorithms/surrogates.md has the equations and papers.
    logp, old_logp: [B, T] (or [n] for one sequence; all leading dimensions count sequences): log-probabilities of the tokens under
        the policy being trained and the policy that sampled them.
    advantages: the same shape, or [B], one per sequence.
    mask: the same shape; 0 skips a token, even if its inputs are NaN. None = all tokens.
    aggregation: one of `AGGREGATIONS`. None: "token-mean"; for gspo and geo_mean "seq-mean-token-mean", which is part of their
        definition.
    reduction: "mean": the aggregated loss, a scalar; "none": the loss of each token, 0 where masked.
    rollout_is_weights: the same shape, constant factors of the tokens' losses (see `rollout_correction`).
    offsets: [B + 1], for sequences of different lengths in arrays [n]: sequence i is offsets[i]:offsets[i + 1].
    seed: for the tokens that clip_cov draws.
    **params: parameters of the surrogate (`SURROGATES[name]["parameters"]`; None keeps a default), and the normalizers of
        `aggregate`.
    Raises ValueError with the name of an invalid argument.
    """
    choice("name", name, tuple(_BY_ANY_NAME))
    choice("reduction", reduction, get_args(Reduction))
    entry = _BY_ANY_NAME[name]
    if aggregation is not None:
        choice("aggregation", aggregation, AGGREGATIONS)
    names = _PARAMETER_NAMES[entry["name"]]
    settings = {key: params.pop(key) for key in tuple(params) if key in names}
    if "verl_compat" in settings:
        params["verl_compat"] = settings["verl_compat"]
    settings = _settings(settings)
    one_value_each("policy_loss", settings, names)
    normalisers = norms(**take_normalisers(params))
    no_others(entry["name"], params, [p["key"] for p in entry["parameters"]])

    call = DeviceCall(
        logp=logp,
        old_logp=old_logp,
        advantages=advantages,
        mask=mask,
        rollout_is_weights=rollout_is_weights,
    )
    tokens = call.floats("logp")
    old = call.floats("old_logp", like=tokens)
    rows = row_offsets(offsets, tokens)
    advantage = _advantages(call, tokens, rows)
    flags = call.flags("mask", like=tokens, optional=True)
    weights = call.floats("rollout_is_weights", like=tokens, optional=True)
    per_token = reduction == "none"
    loss = call.output("loss", tokens.shape) if per_token else None
    grad = call.output("gradient", tokens.shape) if needs_gradient(logp) else None
    total, metrics = loss_kernels(call).policy_loss(
        name,
        settings,
        tokens.view,
        old.view,
        advantage.view,
        view_of(flags),
        view_of(weights),
        view_of(rows),
        None if per_token else aggregation or entry["aggregation"],
        normalisers,
        integer("seed", seed, low=0),
        view_of(loss),
        view_of(grad),
    )
    value = loss.array if loss is not None else call.number(total)
    return Loss(differentiable(logp, value, grad), metrics)


def aggregate(
    values: ArrayLike,
    mask: ArrayLike | None = None,
    mode: Aggregation = "token-mean",
    *,
    offsets: ArrayLike | None = None,
    **normalisers: Any,
) -> ArrayOut:
    """Reduces per-token values [B, T] to one number, differentiable with respect to `values`. With n_i unmasked tokens in row i:

    "token-mean": sum / num_tokens
    "seq-mean-token-sum": sum / num_sequences
    "seq-mean-token-mean": sum over rows of (row's sum / n_i) / num_sequences
    "seq-mean-token-sum-norm": sum / (length num_sequences); with verl_compat sum / length

    mask: the same shape; 0 skips a value, even if it is NaN. None = all values.
    offsets: [B + 1] for rows of different lengths in values [n].
    num_tokens, num_sequences: counts over the whole optimizer step, with all its micro-batches and ranks. Default: the counts of
        `mask`, without rows that have no unmasked token. length: default T. dp_size: a factor, the number of ranks if gradients
        are averaged over them. verl's names batch_num_tokens, global_batch_size and loss_scale_factor are accepted too.
    Without unmasked tokens the result is 0. Raises ValueError with the name of an invalid argument.
    """
    choice("mode", mode, AGGREGATIONS)
    constants = norms(**take_normalisers(normalisers))
    no_others("aggregate", normalisers, ("num_tokens", "num_sequences", "length", "dp_size", "verl_compat"))
    call = DeviceCall(values=values, mask=mask)
    tokens = call.floats("values")
    flags = call.flags("mask", like=tokens, optional=True)
    rows = row_offsets(offsets, tokens)
    grad = call.output("gradient", tokens.shape) if needs_gradient(values) else None
    total = loss_kernels(call).aggregate(tokens.view, view_of(flags), view_of(rows), mode, constants, view_of(grad))
    return differentiable(values, call.number(total), grad)


def value_loss(
    values: ArrayLike,
    returns: ArrayLike,
    mask: ArrayLike | None = None,
    *,
    old_values: ArrayLike | None = None,
    clip: float | None = None,
    kind: ValueLossKind = "l2",
    huber_delta: float = 1.0,
    half_factor: bool = True,
    coef: float = 1.0,
    aggregation: Aggregation = "token-mean",
    reduction: Reduction = "mean",
    offsets: ArrayLike | None = None,
    **normalisers: Any,
) -> Loss:
    """The loss of value predictions and its metrics: `(loss, metrics)`, differentiable once with respect to `values`.

    rho(x) = x^2 / 2 ("l2"), or this up to |x| = huber_delta and linear beyond ("huber"). half_factor=False doubles it.
    loss = coef * aggregate(rho(values - returns)). With clip, rho(values - returns) is replaced by
    max(rho(values - returns), rho(clamp(values, old_values - clip, old_values + clip) - returns)).

    values, returns, old_values: [B, T] (or [n]); old_values is only used with clip. mask, offsets, normalizers: as for
        `aggregate`.
    reduction: "mean" or "none" (the loss of each element).
    metrics: clip_fraction, the fraction where the clipped loss is the larger one; explained_variance,
        1 - Var(returns - values) / Var(returns).
    Raises ValueError with the name of an invalid argument.
    """
    choice("kind", kind, get_args(ValueLossKind))
    choice("aggregation", aggregation, AGGREGATIONS)
    choice("reduction", reduction, get_args(Reduction))
    constants = norms(**take_normalisers(normalisers))
    no_others("value_loss", normalisers, ("num_tokens", "num_sequences", "length", "dp_size", "verl_compat"))
    scale = number("coef", coef) * (1.0 if half_factor else 2.0)
    bound = 0.0 if clip is None else number("clip", clip, above=0, infinite=True)
    if clip is not None and old_values is None:
        raise ValueError(f"old_values: None, expected an array, which clip={clip} needs")
    call = DeviceCall(values=values, returns=returns, mask=mask, old_values=old_values)
    predicted = call.floats("values")
    target = call.floats("returns", like=predicted)
    flags = call.flags("mask", like=predicted, optional=True)
    old = call.floats("old_values", like=predicted, optional=True)
    rows = row_offsets(offsets, predicted)
    per_element = reduction == "none"
    loss = call.output("loss", predicted.shape) if per_element else None
    grad = call.output("gradient", predicted.shape) if needs_gradient(values) else None
    total, metrics = loss_kernels(call).value_loss(
        predicted.view,
        view_of(old) if bound else None,
        target.view,
        view_of(flags),
        view_of(rows),
        kind,
        bound,
        number("huber_delta", huber_delta, above=0),
        scale,
        None if per_element else aggregation,
        constants,
        view_of(loss),
        view_of(grad),
    )
    value = loss.array if loss is not None else call.number(total)
    return Loss(differentiable(values, value, grad), metrics)


#: Named variants of rollout correction, and the arguments that they set unless given.
_METHODS: dict[str, dict[str, Any]] = {
    "tis": {"rollout_is": "token", "rollout_is_threshold": 2.0, "rollout_is_low": 0.0, "outside": "truncate"},
    "icepop": {"rollout_is": "token", "rollout_is_threshold": 5.0, "rollout_is_low": 0.5, "outside": "zero"},
    "seq_mask_tis": {"rollout_is": "token", "rollout_rs": "seq_mean_k1", "rollout_rs_threshold": "0.5_2.0"},
    "opsm": {"rollout_is": None, "opsm_delta": 1e-4},
}


def rollout_correction(
    logp: ArrayLike,
    rollout_logp: ArrayLike,
    mask: ArrayLike | None = None,
    *,
    method: RolloutCorrectionMethod | None = None,
    advantages: ArrayLike | None = None,
    offsets: ArrayLike | None = None,
    **params: Any,
) -> RolloutCorrection:
    """Corrects for tokens that were sampled by a different policy than the one whose log-probabilities are used as old:
    `(weights, mask, metrics)`. The gradient treats weights and mask as constants. Pass the weights to
    `policy_loss(rollout_is_weights=)`, and the returned mask, which excludes rejected tokens, in place of the old one. With
    l = logp - rollout_logp, clamped to +-20 before exp():

    logp, rollout_logp, mask: [B, T] (or [n], with offsets [B + 1]).
    rollout_is: "token" (weights exp(l)), "sequence" (exp of the sum over the sequence; the default) or None (no weights).
    rollout_is_threshold, rollout_is_low: upper and lower bound of a weight; default 2.0 and 0.0.
    outside: weights outside the bounds are clamped ("truncate") or set to 0 ("zero").
    rollout_is_batch_normalize: divide by the mean weight, over tokens or over sequences. Default False.
    rollout_rs: comma-separated rules, each token|seq_sum|seq_mean|seq_max _ k1|k2|k3 (k1 = -l, k2 = l^2 / 2, k3 = exp(l) - 1 - l;
        no seq_max_k1). Tokens must pass all rules; a rule over sequences rejects whole sequences.
    rollout_rs_threshold: comma-separated, one per rule, or one for all. For k1 a range of ratios "LOW_HIGH" (ln LOW <= k1 <= ln
        HIGH; one number u means 1/u_u), for k2 and k3 an upper bound.
    opsm_delta: reject tokens with a negative advantage in sequences whose mean of -l is above this. Needs advantages.
    method: sets several arguments unless they are given: "tis" (token weights, [0, 2], truncate), "icepop" (token weights, [0.5, 5],
        zero), "seq_mask_tis" (token weights; rejects sequences whose mean ratio is outside [0.5, 2]), "opsm" (opsm_delta 1e-4).
    Raises ValueError with the name of an invalid argument.
    """
    chosen: dict[str, Any] = {
        "rollout_is": "sequence",
        "rollout_is_threshold": 2.0,
        "rollout_is_low": 0.0,
        "outside": "truncate",
        "rollout_is_batch_normalize": False,
        "rollout_rs": None,
        "rollout_rs_threshold": None,
        "opsm_delta": None,
    }
    no_others("rollout_correction", params, tuple(chosen))
    if method is not None:
        chosen |= _METHODS[choice("method", method, get_args(RolloutCorrectionMethod))]
    chosen |= params
    level = chosen["rollout_is"]
    if level is not None:
        choice("rollout_is", level, ("token", "sequence"))
    choice("outside", chosen["outside"], ("truncate", "zero"))
    high = number("rollout_is_threshold", chosen["rollout_is_threshold"], above=0, infinite=True)
    low = number("rollout_is_low", chosen["rollout_is_low"], low=0, high=high)
    delta = chosen["opsm_delta"]
    if delta is not None and advantages is None:
        raise ValueError(f"advantages: None, expected an array, which opsm_delta={delta} needs")
    rules, thresholds = chosen["rollout_rs"], chosen["rollout_rs_threshold"]
    if rules is not None and thresholds is None:
        raise ValueError(f"rollout_rs_threshold: None, expected thresholds for rollout_rs={rules!r}")

    call = Call(logp=logp, rollout_logp=rollout_logp, mask=mask, advantages=advantages)
    tokens = call.floats("logp")
    rollout = call.floats("rollout_logp", like=tokens)
    flags = call.flags("mask", like=tokens, optional=True)
    rows = row_offsets(offsets, tokens)
    advantage = None if advantages is None else _advantages(call, tokens, rows)
    weights, kept = call.output("weights", tokens.shape), call.output("mask", tokens.shape, "bool")
    metrics = _core.rollout_correction(
        tokens.view,
        rollout.view,
        view_of(flags),
        view_of(advantage),
        view_of(rows),
        level or "none",
        chosen["outside"],
        low,
        high,
        bool(chosen["rollout_is_batch_normalize"]),
        str(rules or ""),
        "" if thresholds is None else str(thresholds),
        math.inf if delta is None else number("opsm_delta", delta),
        weights.view,
        kept.view,
    )
    return RolloutCorrection(None if level is None else weights.array, kept.array, metrics)


def _advantages(call: Call, tokens: Argument, rows: Argument | None) -> Argument:
    """One number per token; numbers per sequence are expanded to their tokens."""
    if rows is None:
        return call.floats("advantages", like=tokens, per_sequence=True)
    given = call.floats("advantages")
    if given.shape == tokens.shape or given.shape != (rows.shape[0] - 1,):
        return call.floats("advantages", like=tokens)
    lengths = np.diff(np.asarray(rows.array))
    if isinstance(given.array, np.ndarray):
        return DeviceCall(advantages=np.repeat(given.array, lengths)).floats("advantages")
    where = np.repeat(np.arange(len(lengths)), lengths)
    return DeviceCall(advantages=given.array[where]).floats("advantages")


def _settings(params: dict[str, Any]) -> dict[str, Any]:
    """Parameters converted to the types that the kernels take; None keeps the default."""
    settings: dict[str, Any] = {}
    for key, value in params.items():
        if value is None:
            continue
        if isinstance(value, (bool, np.bool_)):
            settings[key] = bool(value)
        elif isinstance(value, str):
            settings[key] = value
        elif isinstance(value, numbers.Integral):
            settings[key] = int(value)
        else:
            settings[key] = number(key, value, infinite=True)
    return settings
