"""Value losses (algorithms/losses/value_loss.h) and KL estimates (algorithms/losses/kl.h) on a device."""

from __future__ import annotations

from typing import Any

import torch

from troupe._core import View
from troupe.algorithms._device.rows import Norms, Rows, aggregated, live_of

_EXP_LIMIT, _MAX_LOG_RATIO, _LARGEST_LOW_VAR = 87.0, 20.0, 10.0


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
    norms: Norms,
    loss: View | None,
    grad: View | None,
) -> tuple[Any, dict[str, float]]:
    predicted, target = values.owner, returns.owner
    live = live_of(predicted, mask)
    bound = float("inf") if kind == "l2" else huber_delta

    def rho(error: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        slope = error.clamp(-bound, bound)
        return slope * (error - 0.5 * slope), slope

    error = torch.where(live, predicted - target, 0.0)
    losses, slopes = rho(error)
    clipped = torch.zeros_like(live)
    if old_values is not None and clip > 0:
        low, high = old_values.owner - clip, old_values.owner + clip
        near = torch.where(predicted < low, low, predicted)  # a NaN bound has no effect
        near = torch.where(near > high, high, near)
        near_losses, _ = rho(torch.where(live, near - target, 0.0))
        clipped = near_losses > losses
        losses, slopes = torch.where(clipped, near_losses, losses), torch.where(clipped, 0.0, slopes)
    total: Any = 0.0
    factor: Any = scale
    if aggregation is not None:
        rows = Rows(predicted, offsets)
        weights = rows.weights(aggregation, live, norms) * scale
        total = aggregated(losses, rows, weights)
        factor = rows.spread(weights.float())
    if loss is not None:
        loss.owner.copy_(losses * factor)
    if grad is not None:
        grad.owner.copy_(slopes * factor)
    return total, _value_metrics(predicted, target, live, clipped)


def _value_metrics(
    predicted: torch.Tensor, target: torch.Tensor, live: torch.Tensor, clipped: torch.Tensor
) -> dict[str, float]:
    target = torch.where(live, target, 0.0).double()
    error = target - torch.where(live, predicted, 0.0).double()
    n = live.sum()

    def variance(x: torch.Tensor) -> torch.Tensor:
        return torch.where(live, (x - x.sum() / n) ** 2, 0.0).sum() / n

    count, hits, of_error, of_target = torch.stack([n, clipped.sum(), variance(error), variance(target)]).tolist()
    if count == 0:
        return {"clip_fraction": 0.0, "explained_variance": 0.0}
    return {
        "clip_fraction": hits / count,
        "explained_variance": 0.0 if of_target < 1e-12 else 1.0 - of_error / of_target,
    }


def kl(name: str, log_probs: View, reference: View, mask: View | None, value: View, grad: View | None) -> None:
    live = live_of(log_probs.owner, mask)
    d = torch.where(live, log_probs.owner - reference.owner, 0.0)
    values, slopes = _KL[name.removesuffix("+")](d)
    value.owner.copy_(values)
    if grad is not None:
        grad.owner.copy_(torch.where(live, d if name.endswith("+") else slopes, 0.0))


def _k1(d: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return d, torch.ones_like(d)


def _abs(d: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return d.abs(), torch.where(d.isnan(), d, d.sign())


def _k2(d: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return 0.5 * d * d, d


def _k3(d: torch.Tensor, bound: float = _EXP_LIMIT) -> tuple[torch.Tensor, torch.Tensor]:
    """In float64: near d = 0 float32 would lose all digits."""
    x = -d.double().clamp(-bound, bound)
    growth = torch.expm1(x)
    return (growth - x).float(), torch.where(d.abs() > bound, 0.0, -growth.float())


def _low_var_kl(d: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    value, slope = _k3(d, _MAX_LOG_RATIO)
    return value.clamp(-_LARGEST_LOW_VAR, _LARGEST_LOW_VAR), torch.where(value > _LARGEST_LOW_VAR, 0.0, slope)


_KL = {"k1": _k1, "kl": _k1, "abs": _abs, "k2": _k2, "mse": _k2, "k3": _k3, "low_var_kl": _low_var_kl}
