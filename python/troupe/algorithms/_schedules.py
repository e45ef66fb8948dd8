"""Learning-rate schedules and task weights."""

from __future__ import annotations

__all__: list[str] = []
