"""Policy surrogates on a device: the rules of algorithms/losses/surrogate.cpp, sequence_surrogate.cpp and covariance_surrogate.cpp
as torch operations. Names, parameters, defaults and checks are those of `_core`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch

from troupe import _core
from troupe._core import View
from troupe.algorithms._device.covariance import clip_cov, kl_cov
from troupe.algorithms._device.rows import Norms, Rows, aggregated
from troupe.algorithms._device.tokens import EXP_LIMIT, Call, Parts, Tokens, float32, number_or


def policy_loss(
    name: str,
    settings: Mapping[str, Any],
    log_probs: View,
    old_log_probs: View,
    advantages: View,
    mask: View | None,
    rollout_weights: View | None,
    offsets: View | None,
    aggregation: str | None,
    norms: Norms,
    key: int,
    loss: View | None,
    grad: View | None,
) -> tuple[Any, dict[str, float]]:
    nothing = [_core.View(n, 0, "float32", (0,), (1,), False) for n in ("logp", "old_logp", "advantages")]
    empty = _core.policy_loss(name, settings, *nothing, None, None, None, None, norms, key, None, None)  # checks the settings
    if log_probs.owner.numel() == 0:
        return empty
    entry, p = _core.surrogate_settings(name, settings)
    tokens = Tokens(entry, p, log_probs, old_log_probs, advantages, mask)
    rows = Rows(log_probs.owner, offsets)
    call = Call(tokens, p, rows, key, None if rollout_weights is None else rollout_weights.owner)
    parts = RULES[entry](call)
    losses, slopes = parts.loss, parts.grad
    if parts.through_ratio:
        slopes = torch.where(tokens.beyond, 0.0, slopes)
    if call.rollout_weights is not None and parts.weigh:
        losses, slopes = losses * call.rollout_weights, slopes * call.rollout_weights
    losses, slopes = torch.where(tokens.live, losses, 0.0), torch.where(tokens.live, slopes, 0.0)
    total: Any = 0.0
    if aggregation is not None:
        weights = rows.weights(aggregation, tokens.live, norms)
        total = aggregated(losses, rows, weights)
        slopes = slopes * rows.spread(weights.float())
    if loss is not None:
        loss.owner.copy_(losses)
    if grad is not None:
        grad.owner.copy_(slopes)
    return total, _metrics(tokens, parts)


def _metrics(t: Tokens, parts: Parts) -> dict[str, float]:
    """The metrics, with a single transfer from the device."""
    ratio, d = t.ratio, t.log_ratio
    high, low = ratio > t.high, ratio < t.low
    dead = (t.gain & high) | (t.pain & (low | (ratio > t.dual))) | t.beyond
    exact = d.double()
    k3 = (torch.expm1(exact) - exact).float()  # near 0 float32 would lose all digits

    def total(x: torch.Tensor) -> torch.Tensor:
        return torch.where(t.live, x, 0.0).sum(dtype=torch.float64)

    def count(x: torch.Tensor | None) -> torch.Tensor:
        return (t.live if x is None else t.live & x).sum().double() * (x is not None)

    clamped = ratio.clamp(t.low, t.high)
    sums = {
        "count": t.live.sum().double(),
        "log_ratio": total(d),
        "log_ratio_squared": total(exact**2),
        "k3": total(k3),
        "clipped": count(parts.clipped),
        "clipped_lower": count(parts.lower),
        "outside": count(high | low),
        "dead": count(dead),
        "saturated": count(parts.saturated),
        "ratio": total(ratio),
        "ratio_squared": total(ratio.double() ** 2),
        "clamped": total(clamped),
        "clamped_squared": total(clamped.double() ** 2),
        "ratio_max": torch.where(t.live, ratio, -math.inf).amax().double(),
        "ratio_min": torch.where(t.live, ratio, math.inf).amin().double(),
    }
    return _core.surrogate_metrics(dict(zip(sums, torch.stack(list(sums.values())).tolist())))


def _clip(c: Call) -> Parts:
    t = c.tokens
    high, low, dual = t.gain & (t.ratio > t.high), t.pain & (t.ratio < t.low), t.pain & (t.ratio > t.dual)
    used = torch.where(dual, t.dual, torch.where(low, t.low, torch.where(high, t.high, t.ratio)))
    loss = -t.advantage * used
    return Parts(loss, torch.where(high | low | dual, 0.0, loss), high | low, dual)


def _soft_clip(c: Call) -> Parts:
    t, alpha = c.tokens, c.parameters["alpha"]
    exponent = alpha * (1 + torch.sigmoid(-t.advantage)) if c.parameters["dynamic_alpha"] else alpha
    weight = (t.log_ratio - exponent * t.log_ratio.abs()).clamp(-EXP_LIMIT, EXP_LIMIT).exp()
    return Parts(-t.advantage * weight, -t.advantage * weight)


def _sapo(c: Call) -> Parts:
    t, p = c.tokens, c.parameters
    tau = torch.where(t.gain, p["tau_pos"], torch.full_like(t.ratio, p["tau_neg"]))
    x = tau * (t.ratio - 1)
    e = (-x).clamp(-80, 80).exp()
    gate = 1 / (1 + e)
    weight = 4 * gate * (e * gate)
    return Parts(-t.advantage * (4 / tau) * gate, -t.advantage * weight * t.ratio, saturated=weight < float32(p["saturation"]))


def _ce_gppo(c: Call) -> Parts:
    t, p = c.tokens, c.parameters
    high, low = t.gain & (t.ratio > t.high), t.pain & (t.ratio < t.low)
    used = torch.where(low, p["beta1"] * t.low, torch.where(high, p["beta2"] * t.high, t.ratio))
    dual = t.pain & (used > t.dual)
    grad = torch.where(dual, 0.0, -t.advantage * used)
    return Parts(-t.advantage * torch.where(dual, t.dual, used), grad, high | low, dual)


def _cispo(c: Call) -> Parts:
    t = c.tokens
    slope = -t.advantage * t.ratio.clamp(t.low, t.high)
    by_ratio = c.parameters["form"] == "ratio"
    clipped = (t.ratio > t.high) | (t.ratio < t.low)
    return Parts(slope if by_ratio else slope * t.log_prob, slope, clipped, through_ratio=by_ratio)


def _log_prob(c: Call) -> Parts:
    t = c.tokens
    return Parts(-t.advantage * t.log_prob, -t.advantage, through_ratio=False)


def _gipo(c: Call) -> Parts:
    t = c.tokens
    scaled = t.log_ratio * (1 / c.parameters["sigma"])
    weight = (t.log_ratio - 0.5 * scaled * scaled).clamp(-EXP_LIMIT, EXP_LIMIT).exp()
    return Parts(-t.advantage * weight, -t.advantage * weight)


def _none(c: Call) -> Parts:
    loss = -c.tokens.advantage * c.tokens.ratio
    return Parts(loss, loss)


def _gspo(c: Call) -> Parts:
    t, largest = c.tokens, 10.0  # upper bound of the sequence's log-ratio (verl)
    mean = c.rows.sum(t.difference) / c.rows.sum(t.live).clamp(min=1)
    ratio = c.rows.spread(mean.clamp(max=largest).exp().float())
    high, low = t.gain & (ratio > t.high), t.pain & (ratio < t.low)
    loss = -t.advantage * torch.where(low, t.low, torch.where(high, t.high, ratio))
    bounded = c.rows.spread(mean > largest)
    return Parts(loss, torch.where(high | low | bounded, 0.0, loss), high | low, through_ratio=False)


def _geo_mean(c: Call) -> Parts:
    t, p, largest = c.tokens, c.parameters, 20.0  # upper bound of the mean log-ratio
    low, high = -number_or(p["clip_low"], p["clip"]), number_or(p["clip_high"], p["clip"])
    n = c.rows.sum(t.live)
    exact = t.difference.double()
    sign = torch.where(t.gain, 1.0, torch.where(t.pain, -1.0, t.advantage)).double()
    mu = c.rows.sum(sign * torch.minimum(sign * exact, sign * exact.clamp(low, high)))
    if c.rollout_weights is not None:
        mu = mu + c.rows.sum(torch.where(t.live, (c.rollout_weights.double() + 1e-10).log(), 0.0))
    mean = mu / n
    per_row = torch.where(n == 0, 0.0, -c.rows.sum(t.advantage) / n * mean.clamp(max=largest).exp())
    loss = c.rows.spread(per_row.float())
    above, below = t.log_ratio > float32(high), t.log_ratio < float32(low)
    moves = (((t.gain & ~above) | (t.pain & ~below)) & ~c.rows.spread(mean > largest)) | t.advantage.isnan()
    outside = above | below
    grad = torch.where(moves, loss, 0.0)
    return Parts(loss, grad, t.gain & outside, t.pain & outside, through_ratio=False, weigh=False)


RULES: dict[str, Callable[[Call], Parts]] = {
    "clip": _clip,
    "dual_clip": _clip,
    "soft_clip": _soft_clip,
    "sapo": _sapo,
    "ce_gppo": _ce_gppo,
    "cispo": _cispo,
    "gspo": _gspo,
    "gpg": _log_prob,
    "clip_cov": clip_cov,
    "kl_cov": kl_cov,
    "geo_mean": _geo_mean,
    "reinforce": _log_prob,
    "gipo": _gipo,
    "none": _none,
}
