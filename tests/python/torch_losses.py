"""The surrogates as defined in their papers, with torch operations: the oracle of losses_test.py in float64, and the baseline that
tools/time_losses.py times in float32."""

from __future__ import annotations

import torch


def constant(x):
    return x.detach()


def _mean(x, mask):
    return (x * mask).sum() / mask.sum()


def _selected(logp, adv, mask, count, low=None, high=None, excluded=None):
    """A mask of the `count` valid tokens with the largest covariance, or of all with a covariance between low and high."""
    cov = (adv - _mean(adv, mask)) * (constant(logp) - _mean(constant(logp), mask))
    cov = torch.where(mask.bool(), cov, -torch.inf)
    if low is not None:
        return (cov > low) & (cov < high) & ~excluded
    chosen = torch.zeros_like(mask, dtype=torch.bool)
    chosen.view(-1)[cov.view(-1).topk(count).indices] = True
    return chosen


def per_token(name, logp, old, adv, mask, **p):
    """Losses [B, T], differentiable by torch with respect to logp. Numbers at masked tokens must be finite."""
    mask = mask.to(logp.dtype)
    delta = logp - old
    ratio = delta.clamp(-20, 20).exp()
    low, high = 1 - p.get("clip_low", 0.2), 1 + p.get("clip_high", 0.2)
    if name in ("gpg", "reinforce"):
        return -adv * logp
    if name == "none":
        return -adv * ratio
    if name == "soft_clip":
        return -adv * ratio * constant(torch.min(ratio, 1 / ratio)) ** p.get("alpha", 1)
    if name == "sapo":
        tau = torch.where(adv > 0, 1.0, 1.05).to(adv.dtype)
        return -adv * 4 / tau * torch.sigmoid(tau * (ratio - 1))
    if name == "ce_gppo":
        kept = ratio / constant(ratio)
        value = torch.where((ratio < low) & (adv < 0), 0.75 * low * kept, ratio)
        return -adv * torch.where((ratio > high) & (adv > 0), high * kept, value)
    if name == "cispo":
        return -constant(ratio.clamp(max=high)) * adv * logp
    if name == "gipo":
        return -adv * ratio * constant((-0.5 * delta**2).exp())
    n = mask.sum(-1, keepdim=True).clamp(min=1)
    if name == "gspo":
        mean = (delta * mask).sum(-1, keepdim=True) / n
        s = (logp - constant(logp) + constant(mean)).clamp(max=10).exp()
        return torch.max(-adv * s, -adv * s.clamp(low, high))
    if name == "geo_mean":
        sign = adv.sign()
        mu = sign * torch.min(sign * delta, sign * delta.clamp(-0.2, 0.2))
        mean = ((mu * mask).sum(-1, keepdim=True) / n).clamp(max=20).exp()
        return (-(adv * mask).sum(-1, keepdim=True) / n * mean).expand_as(delta)
    if name == "kl_cov":
        count = max(1, int(p.get("fraction", 2e-4) * mask.sum()))
        chosen = _selected(logp, adv, mask, count)
        return -adv * ratio + torch.where(chosen, p.get("kl_coef", 0.1) * delta.abs(), 0.0)
    clip = torch.max(-adv * ratio, -adv * ratio.clamp(low, high))
    if name == "clip":
        return clip
    if name == "dual_clip":
        return torch.where(adv < 0, torch.min(clip, -adv * p.get("dual_clip", 3.0)), clip)
    if name == "clip_cov":
        count = max(1, int(p.get("fraction", 2e-4) * mask.sum()))
        candidates = _selected(logp, adv, mask, count, 1.0, 5.0, excluded=clip > -adv * ratio).nonzero()
        drawn = candidates[torch.randperm(len(candidates))[:count]]
        kept = torch.ones_like(mask)
        kept[drawn[:, 0], drawn[:, 1]] = 0
        return clip * kept
    raise AssertionError(name)


def diagnostics(logp, old, adv, mask):
    """The metrics that verl logs with the loss: clip fraction, its lower part, k1."""
    delta = (constant(logp) - old).clamp(-20, 20)
    ratio = delta.exp()
    mask = mask.to(ratio.dtype)
    clipped = -adv * ratio.clamp(0.8, 1.2) > -adv * ratio
    lower = (adv < 0) & (ratio > 3)
    return [_mean(x.to(ratio.dtype), mask).item() for x in (clipped, lower, -delta)]
