"""The surrogates that treat tokens with large covariances differently (algorithms/losses/covariance_surrogate.cpp), on a device."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from troupe import _core
from troupe.algorithms._device.tokens import Call, Parts, Tokens, float32


def _covariance(t: Tokens) -> tuple[torch.Tensor, int]:
    """(A - mean A) (log_prob - mean log_prob) of every token, and the number of unmasked tokens."""
    n = t.live.sum().clamp(min=1)
    advantage, log_prob = t.advantage.double(), t.log_prob.double()
    covariance = (advantage - advantage.sum() / n) * (log_prob - log_prob.sum() / n)
    return covariance.float(), int(t.live.sum())


def _share(c: Call, count: int) -> int:
    return max(1, int(c.parameters["fraction"] * count))


def clip_cov(c: Call) -> Parts:
    t, p = c.tokens, c.parameters
    covariance, count = _covariance(t)
    high, low = t.gain & (t.ratio > t.high), t.pain & (t.ratio < t.low)
    inside = (covariance > float32(p["cov_low"])) & (covariance < float32(p["cov_high"]))
    candidates = (t.live & inside & ~(high | low)).reshape(-1).nonzero()[:, 0]
    drawn = np.zeros(len(candidates), np.uint8)
    _core.draw_subset(
        c.key, _share(c, count), _core.View("taken", drawn.ctypes.data, "uint8", drawn.shape, (1,), True)
    )
    taken = torch.zeros(t.live.numel(), dtype=torch.bool, device=t.live.device)
    taken[candidates] = torch.from_numpy(drawn).to(t.live.device) != 0
    taken = taken.reshape(t.live.shape)
    loss = -t.advantage * torch.where(low, t.low, torch.where(high, t.high, t.ratio))
    return Parts(torch.where(taken, 0.0, loss), torch.where(taken | high | low, 0.0, loss), taken)


def kl_cov(c: Call) -> Parts:
    t, weight = c.tokens, c.parameters["kl_coef"]
    taken = _largest(*_covariance(t), t.live, lambda count: _share(c, count))
    plain = -t.advantage * t.ratio
    loss = plain + torch.where(taken, weight * t.log_ratio.abs(), 0.0)
    return Parts(loss, plain + torch.where(taken, weight * _sign(t.log_ratio), 0.0), taken)


def _sign(x: torch.Tensor) -> torch.Tensor:
    """The sign of x; 0 for NaN."""
    return (x > 0).float() - (x < 0).float()


def _largest(x: torch.Tensor, count: int, live: torch.Tensor, share: Callable[[int], int]) -> torch.Tensor:
    """A mask of the tokens with the largest numbers; among equal ones the first. NaN is below all."""
    bits = x.reshape(-1).contiguous().view(torch.int32).long() & 0xFFFFFFFF
    order = torch.where(bits >> 31 == 1, bits ^ 0xFFFFFFFF, bits | 0x80000000)
    order = torch.where(x.reshape(-1).isnan(), 0, order)
    order = torch.where(live.reshape(-1), order, -1)
    wanted = min(share(count), count)
    if wanted == 0:
        return torch.zeros_like(live)
    threshold = order.topk(wanted, sorted=True).values[-1]
    above, equal = order > threshold, order == threshold
    first = equal & (equal.cumsum(0) <= wanted - above.sum())
    return (above | first).reshape(live.shape)
