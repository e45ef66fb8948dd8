"""Exact log-probs, entropy and KL from logits."""

from __future__ import annotations

__all__: list[str] = []
