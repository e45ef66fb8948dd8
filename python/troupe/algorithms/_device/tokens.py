"""The tokens on a device in the form that surrogate rules use (algorithms/losses/surrogate_kernel.h), and the results of a rule."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import torch

from troupe._core import View
from troupe.algorithms._device.rows import Rows, live_of

_MAX_LOG_RATIO, EXP_LIMIT = 20.0, 87.0


class Parts(NamedTuple):
    """The results of a rule for every token. If the gradient goes through the ratio, it is set to 0 later where the ratio is clamped."""

    loss: torch.Tensor
    grad: torch.Tensor
    clipped: torch.Tensor | None = None
    lower: torch.Tensor | None = None
    saturated: torch.Tensor | None = None
    through_ratio: bool = True
    weigh: bool = True  # whether to multiply by the rollout weights; False if the rule has done it


class Tokens:
    """The tokens of one call for the rules; ratio 1 and advantage 0 where masked."""

    def __init__(self, entry: str, p: Mapping[str, Any], log_probs: View, old: View, advantages: View, mask: View | None):
        self.live = live_of(log_probs.owner, mask)
        self.log_prob = torch.where(self.live, log_probs.owner, 0.0)
        self.advantage = torch.where(self.live, advantages.owner, 0.0)
        self.difference = torch.where(self.live, log_probs.owner - old.owner, 0.0)
        lowest, highest = _clamp_of(entry, p)
        self.beyond = (self.difference > highest) | (self.difference < lowest)
        self.log_ratio = self.difference.clamp(lowest, highest)
        self.ratio = self.log_ratio.exp()
        dual = p.get("dual_clip", 0.0)
        self.high = float32(1 + number_or(p["clip_high"], p["clip"]))
        self.low = float32(1 - number_or(p["clip_low"], _lower_clip(entry, p)))
        self.dual = float32(dual) if dual else math.inf
        self.gain, self.pain = self.advantage > 0, self.advantage < 0


def number_or(value: float, otherwise: float) -> float:
    return otherwise if math.isnan(value) else value


def float32(x: float) -> float:
    return float(np.float32(x))


def _lower_clip(entry: str, p: Mapping[str, Any]) -> float:
    return math.inf if entry == "cispo" and not p["verl_compat"] else p["clip"]


def _clamp_of(entry: str, p: Mapping[str, Any]) -> tuple[float, float]:
    """The bounds of the log-ratio, outside which there is no gradient."""
    if entry in ("clip_cov", "kl_cov"):
        return -EXP_LIMIT, EXP_LIMIT
    lowest = float32(math.log(number_or(p.get("ratio_min", math.nan), 1e-30)))
    highest = float32(math.log(number_or(p.get("ratio_max", math.nan), 1e30)))
    return max(-_MAX_LOG_RATIO, lowest), min(_MAX_LOG_RATIO, highest)


class Call(NamedTuple):
    """The inputs of a rule."""

    tokens: Tokens
    parameters: Mapping[str, Any]
    rows: Rows
    key: int
    rollout_weights: torch.Tensor | None
