"""Random tokens for tests of losses, and the aggregation of their losses."""

import math

import numpy as np
import oracles
import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch")


class Batch:
    """Random tokens [B, T] with gaps in the mask and NaN at masked tokens: float64 for the oracle, float32 for troupe."""

    def __init__(self, rng, rows=7, steps=23, spread=0.4, level=False):
        self.old = torch.tensor(oracles.numbers(rng, rows, steps) - 3, dtype=torch.float64)
        self.logp = self.old + torch.tensor(np.round(rng.normal(size=(rows, steps)) * spread * 1024) / 1024)
        columns = 1 if level else steps
        self.adv = torch.tensor(oracles.numbers(rng, rows, columns), dtype=torch.float64).expand(rows, steps).clone()
        self.mask = torch.tensor(oracles.gappy_mask(rng, rows, steps))
        self.mask[0, 0] = True

    def given(self, grad=True):
        poisoned = [x.float().masked_fill(~self.mask, math.nan) for x in (self.logp, self.old, self.adv)]
        return poisoned[0].requires_grad_(grad), poisoned[1], poisoned[2], self.mask


def aggregated(per_token, mask, mode, length=None):
    live = torch.where(mask, per_token, 0.0)
    n = mask.sum(-1)
    rows = (n > 0).sum()
    if mode == "token-mean":
        return live.sum() / n.sum()
    if mode == "seq-mean-token-sum":
        return live.sum() / rows
    if mode == "seq-mean-token-mean":
        return (live.sum(-1) / n.clamp(min=1)).sum() / rows
    return live.sum() / rows / (length or mask.shape[1])
