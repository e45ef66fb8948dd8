"""Sequences of tokens on a device, and their aggregation (algorithms/losses/aggregation.h)."""

from __future__ import annotations

import math
from typing import Any

import torch

from troupe._core import View

Norms = tuple[Any, Any, Any, float, bool]


class Rows:
    """The sequences of an array of tokens: along its last dimension, or given by offsets."""

    def __init__(self, tokens: torch.Tensor, offsets: View | None):
        self._shape, self._device = tokens.shape, tokens.device
        self._lengths = None
        if offsets is None:
            self.longest = tokens.shape[-1] if tokens.dim() else 1
            self.count = math.prod(tokens.shape[:-1])
            return
        bounds = offsets.owner
        lengths = (bounds if isinstance(bounds, torch.Tensor) else torch.from_numpy(bounds)).diff()
        self.count = len(lengths)
        self.longest = int(lengths.max()) if self.count else 0
        self._lengths = lengths.to(self._device)

    def sum(self, x: torch.Tensor) -> torch.Tensor:
        """The sum over each row: [rows] float64."""
        if self._lengths is None:
            return x.reshape(self.count, self.longest).sum(-1, dtype=torch.float64)
        if x.numel() == 0:
            return torch.zeros(self.count, dtype=torch.float64, device=self._device)
        return torch.segment_reduce(x.double(), "sum", lengths=self._lengths, initial=0, unsafe=True)

    def spread(self, per_row: torch.Tensor) -> torch.Tensor:
        """Expands one number per row, [rows], to all tokens of the row."""
        if self._lengths is None:
            return per_row[:, None].expand(self.count, self.longest).reshape(self._shape)
        return torch.repeat_interleave(per_row, self._lengths, output_size=math.prod(self._shape))

    def weights(self, mode: str, live: torch.Tensor, norms: Norms) -> torch.Tensor:
        """The weight of every row's sum of unmasked values: [rows] float64."""
        tokens, sequences, length, dp_size, verl_compat = norms
        own = self.sum(live)
        tokens = own.sum() if tokens is None else tokens
        sequences = (own > 0).sum() if sequences is None else sequences
        length = self.longest if length is None else length
        if mode == "token-mean":
            return self._over(dp_size, tokens)
        if mode == "seq-mean-token-sum":
            return self._over(dp_size, sequences)
        if mode == "seq-mean-token-mean":
            return self._over(dp_size, sequences * own)
        return self._over(1.0, length) if verl_compat else self._over(dp_size, sequences * length)

    def _over(self, numerator: float, normaliser: Any) -> torch.Tensor:
        """The quotient for every row; 0 where the normalizer is 0."""
        divisor = torch.zeros(self.count, dtype=torch.float64, device=self._device) + normaliser
        return torch.where(divisor == 0, 0.0, numerator / divisor)


def live_of(tokens: torch.Tensor, mask: View | None) -> torch.Tensor:
    """The mask as bool; all true without a mask."""
    return torch.ones_like(tokens, dtype=torch.bool) if mask is None else mask.owner != 0


def aggregated(values: torch.Tensor, rows: Rows, weights: torch.Tensor) -> torch.Tensor:
    """The weighted sum of values, which are 0 where masked: float32 without dimensions. Rows of weight 0 are ignored."""
    return torch.where(weights != 0, weights * rows.sum(values), 0.0).sum().float()


def aggregate(
    values: View, mask: View | None, offsets: View | None, mode: str, norms: Norms, grad: View | None
) -> torch.Tensor:
    tokens = values.owner
    rows, live = Rows(tokens, offsets), live_of(tokens, mask)
    weights = rows.weights(mode, live, norms)
    if grad is not None:
        grad.owner.copy_(torch.where(live, rows.spread(weights.float()), 0.0))
    return aggregated(torch.where(live, tokens, 0.0), rows, weights)
