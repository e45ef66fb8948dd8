"""Log-probabilities, entropies and exact KL from logits on a device (algorithms/losses/logprob.h). They process some rows at a
time, so that no other memory of the size of the logits is needed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from troupe import _core
from troupe._core import View

_CHUNK = 1 << 23  # numbers processed at once
_EXP_LIMIT = 87.0  # exp() of larger numbers exceeds the range of float32


def _chunks(logits: torch.Tensor) -> Iterator[slice]:
    rows = max(1, _CHUNK // logits.shape[1])
    return (slice(first, first + rows) for first in range(0, logits.shape[0], rows))


def _exponentials(z: torch.Tensor, top: torch.Tensor, scale: float) -> tuple[torch.Tensor, torch.Tensor]:
    """d = (z - top) * scale, at least -87, and exp(d). Below -87 exp(d) is 0: an infinite d times that 0 would be NaN."""
    exact = (z - torch.where(top.isneginf(), 0.0, top)) * scale
    return exact.clamp(min=-_EXP_LIMIT), torch.where(exact < -_EXP_LIMIT, 0.0, exact.exp())


def log_probs_entropy(
    logits: View, labels: View, temperature: float, log_probs: View, entropy: View, state: View | None
) -> None:
    for at in _chunks(logits.owner):
        z, label = logits.owner[at].float(), labels.owner[at]
        ignored = label == _core.IGNORED_LABEL
        top = z.amax(-1, keepdim=True)
        d, e = _exponentials(z, top, 1 / temperature)
        total = e.sum(-1, dtype=torch.float64)
        mean = (e * d).sum(-1, dtype=torch.float64) / total
        picked = z.gather(-1, label.masked_fill(ignored, 0)[:, None])
        log_prob = (picked.double() - top.double())[:, 0] / temperature - total.log()
        log_probs.owner[at] = log_prob.masked_fill(ignored, 0).float()
        entropy.owner[at] = (total.log() - mean).masked_fill(ignored, 0).float()
        if state is not None:  # a SoftmaxRow: two float32 and one float64
            state.owner[at].view(torch.float32)[:, 0] = top[:, 0]
            state.owner[at].view(torch.float32)[:, 1] = mean.float()
            state.owner[at, 1] = total


def log_probs_entropy_backward(
    logits: View,
    labels: View,
    temperature: float,
    state: View,
    d_log_probs: View | None,
    d_entropy: View | None,
    grad: View,
) -> None:
    scale = 1 / temperature
    for at in _chunks(logits.owner):
        z, label = logits.owner[at].float(), labels.owner[at, None]
        zero = torch.zeros_like(label, dtype=torch.float32)
        by_log_prob = zero if d_log_probs is None else d_log_probs.owner[at, None] * scale
        by_entropy = zero if d_entropy is None else d_entropy.owner[at, None] * scale
        row, total = state.owner[at].view(torch.float32), state.owner[at, 1:]
        top, mean = row[:, :1], row[:, 1:2]
        ignored = label == _core.IGNORED_LABEL
        label = label.masked_fill(ignored, 0)
        d, e = _exponentials(z, top, scale)
        out = e * (1 / total).float() * (by_entropy * (mean - d) - by_log_prob)
        p = e.gather(-1, label) / total
        own = by_log_prob * (1 - p) + by_entropy * p * (mean.double() - d.gather(-1, label))
        out.scatter_(-1, label, torch.where(by_log_prob == 0, out.gather(-1, label), own.float()))
        grad.owner[at] = out.masked_fill(ignored | ((by_log_prob == 0) & (by_entropy == 0)), 0).to(grad.owner.dtype)


def _kl_rows(logits: View, reference: View, temperature: float, at: slice) -> tuple[Any, Any, Any, Any]:
    """For the given rows: KL [r, 1], p [r, V], log p - log q, and a mask where p is 0; all float64."""
    log_p = torch.log_softmax(logits.owner[at].double() / temperature, -1)
    log_q = torch.log_softmax(reference.owner[at].double() / temperature, -1)
    p = log_p.exp()
    never = p == 0
    log_ratio = (log_p - log_q).masked_fill(never, 0)
    return (p * log_ratio).sum(-1, keepdim=True), p, log_ratio, never


def kl_from_logits(logits: View, reference: View, temperature: float, kl: View) -> None:
    for at in _chunks(logits.owner):
        kl.owner[at] = _kl_rows(logits, reference, temperature, at)[0][:, 0].float()


def kl_from_logits_backward(logits: View, reference: View, temperature: float, d_kl: View, grad: View) -> None:
    for at in _chunks(logits.owner):
        kl, p, log_ratio, never = _kl_rows(logits, reference, temperature, at)
        outer = d_kl.owner[at, None].double() / temperature
        out = outer * p * (log_ratio - kl)
        grad.owner[at] = out.masked_fill(never | (outer == 0), 0).to(grad.owner.dtype)
