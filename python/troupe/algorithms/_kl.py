"""KL estimators, controllers and reward shaping."""

from __future__ import annotations

__all__: list[str] = []
