"""Advantage estimators and whitening."""

from __future__ import annotations

__all__: list[str] = []
