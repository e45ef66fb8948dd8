"""GAE written with torch operations, for tests and as a baseline for timing: a loop over time, and products with a triangular matrix
over chunks of time. Arrays are [B, T]; the state after the last step has value 0."""

from __future__ import annotations

import torch


def serial(rewards, values, gamma, lam):
    """(advantages, returns), step by step."""
    advantages = torch.empty_like(rewards)
    later = rewards.new_zeros(rewards.shape[0])
    next_value = later
    for t in reversed(range(rewards.shape[1])):
        value = values[:, t]
        later = rewards[:, t] + gamma * next_value - value + gamma * lam * later
        advantages[:, t] = later
        next_value = value
    return advantages, advantages + values


def chunked(rewards, values, gamma, lam, chunk=128):
    """(advantages, returns): time is reversed and padded to whole chunks. All chunks are multiplied by a triangular matrix of powers at
    once, then a carry passes from chunk to chunk (the form of slime's `chunked_gae`)."""
    rows, steps = rewards.shape
    following = torch.cat([values[:, 1:], values.new_zeros(rows, 1)], dim=1)
    delta = rewards + gamma * following - values
    count = -(-steps // chunk)
    parts = torch.nn.functional.pad(delta.flip(1), (0, count * chunk - steps)).view(rows, count, chunk)
    ages = torch.arange(chunk, dtype=rewards.dtype)
    factor = gamma * lam
    sums = parts @ (factor ** (ages - ages[:, None])).triu()
    reach = factor ** (ages + 1)
    for part in range(1, count):
        sums[:, part] += reach * sums[:, part - 1, -1:]
    advantages = sums.view(rows, -1)[:, :steps].flip(1)
    return advantages, advantages + values
