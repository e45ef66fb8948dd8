"""Surrogates, aggregation and value losses."""

from __future__ import annotations

__all__: list[str] = []
