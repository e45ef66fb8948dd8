"""Token balancing: partitions, micro-batches, restoring order."""

from __future__ import annotations

__all__: list[str] = []
