"""The connection to torch's autograd. Imported only when a tensor needs a gradient."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


def _refuse_second() -> None:
    """Raises when the backward pass itself is recorded: its result would silently be treated as a constant."""
    if torch.is_grad_enabled():
        raise RuntimeError("troupe.algorithms: functions can be differentiated only once; do not use create_graph=True")


class _Prepared(torch.autograd.Function):
    """A value whose gradient was computed together with it. Saves only the gradient."""

    @staticmethod
    def forward(ctx: Any, source: torch.Tensor, made: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        # Inside a tuple, autograd does not track the tensors, so `value` can be returned without a copy.
        value, gradient = made
        ctx.save_for_backward(gradient)  # freed together with the graph
        ctx.dtype = source.dtype
        return value

    @staticmethod
    def backward(ctx: Any, outer: torch.Tensor) -> tuple[torch.Tensor | None, None]:
        _refuse_second()
        # Must be a new tensor: autograd may keep it as .grad and add to it, and the graph may be retained.
        gradient = ctx.saved_tensors[0] * outer
        return gradient if gradient.dtype is ctx.dtype else gradient.to(ctx.dtype), None


class _Recomputed(torch.autograd.Function):
    """Values whose gradient is computed in the backward pass, by `backward(*outer gradients) -> gradient of source`."""

    @staticmethod
    def forward(
        ctx: Any, source: torch.Tensor, backward: Callable[..., torch.Tensor], *values: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        ctx.save_for_backward(source)  # detects in-place changes
        ctx.gradient = backward
        ctx.dtype = source.dtype
        ctx.set_materialize_grads(False)
        return tuple(value.view_as(value) for value in values)

    @staticmethod
    def backward(ctx: Any, *outer: torch.Tensor | None) -> tuple[torch.Tensor | None, ...]:
        _refuse_second()
        (source,) = ctx.saved_tensors
        gradient = ctx.gradient(source, *outer) if any(g is not None for g in outer) else None
        return (None if gradient is None else gradient.to(ctx.dtype), None, *(None for _ in outer))


def prepared(source: torch.Tensor, value: torch.Tensor, gradient: torch.Tensor) -> torch.Tensor:
    """`value` as a function of `source` with d value / d source = `gradient`. `gradient` has the shape of `source`, `value` too
    or it is a scalar. The caller must not use either tensor afterwards."""
    return _Prepared.apply(source, (value, gradient))


def recomputed(
    source: torch.Tensor, backward: Callable[..., torch.Tensor], *values: torch.Tensor
) -> tuple[torch.Tensor, ...]:
    """`values` as functions of `source`, with backward(source, *gradients of the values or None) -> gradient of source."""
    return _Recomputed.apply(source, backward, *values)
